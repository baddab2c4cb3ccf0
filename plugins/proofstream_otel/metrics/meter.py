"""The interface for measurements, shared by our own pipeline and by a provider of the application."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Metric
from proofstream_otel.values.spans import SpanRef

Number: TypeAlias = int | float
Labels: TypeAlias = Mapping[str, str | int]
Reading: TypeAlias = Callable[[], Number | None]
"""Returns the current value, or None while there is no value."""

Key: TypeAlias = tuple[tuple[str, str | int], ...]
"""Sorted labels: the key of a series."""

MAX_SERIES = 2000
"""The most series of one metric. Measurements for further ones go into the series `OVERFLOW`."""

OVERFLOW: Key = (("otel.metric.overflow", True),)

_MAX_LABEL_CHARS = 128
_MAX_INT = 2**63 - 1


class Meter(ABC):
    """Takes measurements; leaves out and counts the ones that are not finite.

    One thread makes all calls. Another one may call `Reading` functions.
    """

    def __init__(self) -> None:
        self._refused = 0

    def add_count(self, metric: Metric, amount: Number, labels: Labels) -> None:
        """Raise a counter; raise it by 0 to begin its series."""
        if self._is_usable(amount) and amount >= 0:
            self._add(metric, fitting(amount), key_of(labels))

    def record_value(self, metric: Metric, value: float, labels: Labels, ref: SpanRef | None) -> None:
        """Add a measurement to a histogram; `ref` is the span that was measured."""
        if self._is_usable(value):
            self._record(metric, float(value), key_of(labels), ref)

    def set_value(self, metric: Metric, value: Number, labels: Labels) -> None:
        """Set a gauge, an up-down counter, or a counter that a third party counts."""
        if self._is_usable(value):
            number = fitting(value)
            self._watch(metric, key_of(labels), lambda: number)

    def watch_value(self, metric: Metric, labels: Labels, reading: Reading) -> None:
        """Read the value of a gauge whenever metrics are collected."""
        self._watch(metric, key_of(labels), reading)

    def end_series(self, metric: Metric, labels: Labels) -> None:
        """End a series that `set_value` or `watch_value` began."""
        self._end(metric, key_of(labels))

    @property
    def refused(self) -> int:
        """Measurements left out because they were not finite."""
        return self._refused

    @abstractmethod
    def _add(self, metric: Metric, amount: Number, key: Key) -> None: ...

    @abstractmethod
    def _record(self, metric: Metric, value: float, key: Key, ref: SpanRef | None) -> None: ...

    @abstractmethod
    def _watch(self, metric: Metric, key: Key, reading: Reading) -> None: ...

    @abstractmethod
    def _end(self, metric: Metric, key: Key) -> None: ...

    def _is_usable(self, value: Number) -> bool:
        usable = isinstance(value, int) or math.isfinite(value)
        self._refused += not usable
        return usable


def key_of(labels: Labels) -> Key:
    """Make the key of a series; its texts are made safe and cut."""
    return _key_of(tuple(labels.items()))


@lru_cache(4096)
def _key_of(labels: Key) -> Key:
    return tuple(
        (key, safe.text(value, _MAX_LABEL_CHARS) if isinstance(value, str) else value) for key, value in sorted(labels)
    )


def bounded(series: Mapping[Key, object], key: Key) -> Key:
    """Return the key, or `OVERFLOW` if it would begin one series too many."""
    return key if key in series or len(series) < MAX_SERIES else OVERFLOW


def usable_reading(reading: Reading) -> Number | None:
    """Return the value, or None if there is no value that can be exported."""
    value = reading()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return fitting(value)


def fitting(value: Number) -> Number:
    """Return the value as OTLP can carry it; an integer outside of int64 becomes the nearest double."""
    # protobuf refuses such an integer, and with it the whole request.
    return float(value) if isinstance(value, int) and abs(value) > _MAX_INT else value
