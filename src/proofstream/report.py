"""Holds how a run ended: what was asked for and not delivered."""

from __future__ import annotations

import msgspec


class Report(msgspec.Struct, kw_only=True):
    """How a run ended, or how it stands. `Session.close` returns it.

    Attributes:
        problems: One line for each thing that was asked for and not delivered.
        refused: The number of lines and events that were not valid.
    """

    problems: list[str] = msgspec.field(default_factory=list[str])
    refused: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything that was asked for was delivered."""
        return not self.problems and not self.refused
