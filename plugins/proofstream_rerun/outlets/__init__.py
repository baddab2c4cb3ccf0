"""Where recordings go: files, viewers, our own server."""

from __future__ import annotations
