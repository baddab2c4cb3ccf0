"""Bounds the values of each attribute of metrics, because untrusted producers choose model names, backends and more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from proofstream_otel.values import safe

LabelValue: TypeAlias = str | bool
"""A text, since `OTHER` may take the place of any value; OpenTelemetry marks the series beyond the bound by True."""

Labels: TypeAlias = Mapping[str, LabelValue]

Key: TypeAlias = tuple[tuple[str, LabelValue], ...]
"""Sorted labels: the key of a series."""

MAX_VALUES = 100
"""The most live values of one attribute."""

OTHER: Final = "other"
"""Stands for all values beyond these."""

_MAX_LABEL_CHARS = 128


def key_of(labels: Labels) -> Key:
    """Make the key of a series; its texts are made safe and cut."""
    # Not cached: a cache would keep whole texts of untrusted producers alive.
    return tuple(
        [
            (key, safe.text(value, _MAX_LABEL_CHARS) if isinstance(value, str) else value)
            for key, value in sorted(labels.items())
        ]
    )


def with_other(key: Key, label: tuple[str, LabelValue]) -> Key:
    """Return the key with `OTHER` in place of one value."""
    return tuple((pair[0], OTHER) if pair == label else pair for pair in key)


class LabelValues:
    """The live values of all attributes.

    Args:
        evict: Ends all series with a value, to make room for another value. Without it, the first values stay.
        log: Is told, once for each attribute, that it has too many values.
    """

    def __init__(self, evict: Callable[[tuple[str, LabelValue]], None] | None, log: logging.Logger | None) -> None:
        self._evict = evict
        self._log = log
        self._said: set[str] = set()
        # How often each value is held, by attribute. The value that was used last comes last.
        self._live: dict[str, dict[LabelValue, int]] = {}

    def admit_key(self, key: Key) -> Key:
        """Return the key of the series to measure: a value that finds no room becomes `OTHER`."""
        return tuple([(attribute, self._admit(attribute, value)) for attribute, value in key])

    def find_key(self, key: Key) -> Key:
        """Return the key of a series that `admit_key` may have admitted before. Nothing makes room for it."""
        return tuple(
            (attribute, value if value in self._live.get(attribute, ()) else OTHER) for attribute, value in key
        )

    def hold_key(self, key: Key) -> Key:
        """Return the key as `admit_key` does, and keep its values live until `release_key`."""
        held = self.admit_key(key)
        self._change_holds(held, 1)
        return held

    def release_key(self, held: Key) -> None:
        """Let the values of a held key make room again."""
        self._change_holds(held, -1)

    def _change_holds(self, key: Key, change: int) -> None:
        for attribute, value in key:
            live = self._live.get(attribute, {})
            if value in live:
                live[value] += change

    def _admit(self, attribute: str, value: LabelValue) -> LabelValue:
        if value == OTHER:
            return value
        live = self._live.setdefault(attribute, {})
        holds = live.pop(value, None)
        if holds is None and len(live) >= MAX_VALUES and not self._make_room(attribute, live):
            return OTHER
        live[value] = holds or 0
        return value

    def _make_room(self, attribute: str, live: dict[LabelValue, int]) -> bool:
        if attribute not in self._said:
            self._said.add(attribute)
            self._warn(attribute)
        idle = next((value for value, holds in live.items() if not holds), None) if self._evict else None
        if idle is None or self._evict is None:
            return False
        del live[idle]
        self._evict((attribute, idle))
        return True

    def _warn(self, attribute: str) -> None:
        if self._log is not None:
            rest = "the ones used longest ago make room for new ones" if self._evict else f"others count as {OTHER!r}"
            self._log.warning("metrics: %s has more than %d values: %s", attribute, MAX_VALUES, rest)
