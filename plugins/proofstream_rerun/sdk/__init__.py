"""Turns marks into calls of the Rerun SDK."""

from __future__ import annotations
