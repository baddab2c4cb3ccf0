"""Where measurements go: one face for our own pipeline and for a provider that is not ours."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from proofstream_otel.values import safe
from proofstream_otel.values.metric_points import SpanRef
from proofstream_otel.values.semconv import Metric

Number: TypeAlias = int | float
Labels: TypeAlias = Mapping[str, str | int]
Reading: TypeAlias = Callable[[], Number | None]
"""Gives a value when it is asked for, or None while there is none."""

Key: TypeAlias = tuple[tuple[str, str | int], ...]
"""Labels in order, as the key of a series."""

MAX_SERIES = 2000
"""Series of one metric; what comes beyond goes into one that says so."""

OVERFLOW: Key = (("otel.metric.overflow", True),)

_MAX_LABEL_CHARS = 128
_MAX_INT = 2**63 - 1


class Meter(ABC):
    """Takes measurements. Numbers that are not finite are left out and counted, before anything else sees them.

    Called by one thread; `Reading` functions may be called by another.
    """

    def __init__(self) -> None:
        self._refused = 0

    def add(self, metric: Metric, amount: Number, labels: Labels) -> None:
        """Raise a counter; by 0 to begin its series."""
        if self._is_usable(amount) and amount >= 0:
            self._add(metric, fitting(amount), key_of(labels))

    def record(self, metric: Metric, value: float, labels: Labels, ref: SpanRef | None) -> None:
        """Add a measurement to a histogram; `ref` is the span it was made of."""
        if self._is_usable(value):
            self._record(metric, float(value), key_of(labels), ref)

    def set(self, metric: Metric, value: Number, labels: Labels) -> None:
        """Say what a gauge, an up-down counter or a counter that others count stands at."""
        if self._is_usable(value):
            number = fitting(value)
            self._watch(metric, key_of(labels), lambda: number)

    def watch(self, metric: Metric, labels: Labels, reading: Reading) -> None:
        """Ask for the value of a gauge whenever it is collected."""
        self._watch(metric, key_of(labels), reading)

    def remove(self, metric: Metric, labels: Labels) -> None:
        """End the series of a gauge, or of a counter that others count."""
        self._remove(metric, key_of(labels))

    @property
    def refused(self) -> int:
        """Measurements left out because they were no finite numbers."""
        return self._refused

    @abstractmethod
    def _add(self, metric: Metric, amount: Number, key: Key) -> None: ...

    @abstractmethod
    def _record(self, metric: Metric, value: float, key: Key, ref: SpanRef | None) -> None: ...

    @abstractmethod
    def _watch(self, metric: Metric, key: Key, reading: Reading) -> None: ...

    @abstractmethod
    def _remove(self, metric: Metric, key: Key) -> None: ...

    def _is_usable(self, value: Number) -> bool:
        usable = isinstance(value, int) or math.isfinite(value)
        self._refused += not usable
        return usable


def key_of(labels: Labels) -> Key:
    """Labels as a key; texts are made safe and cut."""
    return _key_of(tuple(labels.items()))


@lru_cache(4096)
def _key_of(labels: Key) -> Key:
    return tuple(
        (key, safe.text(value, _MAX_LABEL_CHARS) if isinstance(value, str) else value) for key, value in sorted(labels)
    )


def bounded(series: Mapping[Key, object], key: Key) -> Key:
    """The key, or the one of what is too much."""
    return key if key in series or len(series) < MAX_SERIES else OVERFLOW


def usable_reading(reading: Reading) -> Number | None:
    """The value, if there is one that can be exported."""
    value = reading()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return fitting(value)


def fitting(value: Number) -> Number:
    """The value as OTLP can carry it: an integer outside of int64 as the nearest double. One costs a whole request."""
    return float(value) if isinstance(value, int) and abs(value) > _MAX_INT else value
