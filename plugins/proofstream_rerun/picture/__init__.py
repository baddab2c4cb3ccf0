"""What is drawn, as plain values: marks, their places, colours and words. No SDK."""

from __future__ import annotations
