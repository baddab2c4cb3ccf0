"""FILE, as the command and a run read it, and the command's answer."""

from __future__ import annotations
