"""The settings of the demo: none, so that a key in the table `demo` is found to be a mistake."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True):
    """The table `demo`."""
