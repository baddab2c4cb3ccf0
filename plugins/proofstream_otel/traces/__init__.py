"""Turns events and intervals into spans and log records. No SDK."""

from __future__ import annotations
