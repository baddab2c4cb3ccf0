"""States, the programs that move them, and what both cost: exact arithmetic on plain values."""

from __future__ import annotations
