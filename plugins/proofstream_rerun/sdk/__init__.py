"""Marks turned into calls of the Rerun SDK."""

from __future__ import annotations
