"""Writers for providers that belong to the application."""

from __future__ import annotations
