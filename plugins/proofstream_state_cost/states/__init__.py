"""States, the programs that move them, and their cost: exact arithmetic on plain values."""

from __future__ import annotations
