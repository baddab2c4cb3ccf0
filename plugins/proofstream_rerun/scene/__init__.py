"""What each event changes in the drawing of one proof. No SDK."""

from __future__ import annotations
