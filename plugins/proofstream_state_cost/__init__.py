"""Prices a model's recurrent state: what the programs that move it around a speculative verify cost in bytes."""

from __future__ import annotations


class StateCostPlugin:
    """The plugin `state-cost`."""
