"""Destinations of recordings: files, viewers and our own server."""

from __future__ import annotations
