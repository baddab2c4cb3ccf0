"""The interface for measurements, shared by our own pipeline and by a provider of the application."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

from proofstream_otel.metrics.label_values import Key, Labels, LabelValue, LabelValues, key_of
from proofstream_otel.values.semconv import Metric
from proofstream_otel.values.spans import SpanRef

Number: TypeAlias = int | float
Reading: TypeAlias = Callable[[], Number | None]
"""Returns the current value, or None while there is no value."""

MAX_SERIES = 2000
"""The most series of one metric. Measurements for further ones go into the series `OVERFLOW`."""

OVERFLOW: Key = (("otel.metric.overflow", True),)

_MAX_INT = 2**63 - 1


class Meter(ABC):
    """Takes measurements; leaves out and counts the ones that are not finite.

    One thread makes all calls. Another one may call `Reading` functions.

    Args:
        evict: Ends all series with a value of an attribute. Without it, the values that came first stay.
        log: Is told of attributes with too many values.
    """

    def __init__(
        self, *, evict: Callable[[tuple[str, LabelValue]], None] | None = None, log: logging.Logger | None = None
    ) -> None:
        self._refused = 0
        self._values = LabelValues(evict, log)

    def hold_labels(self, labels: Labels) -> dict[str, LabelValue]:
        """Keep values live until `release_labels`. Return the labels as they are exported: `other` found no room."""
        return dict(self._values.hold_key(key_of(labels)))

    def release_labels(self, held: Labels) -> None:
        """Let the values of held labels make room for others again, once they are the ones used longest ago."""
        self._values.release_key(key_of(held))

    def add_count(self, metric: Metric, amount: Number, labels: Labels) -> None:
        """Raise a counter; raise it by 0 to begin its series."""
        if self._is_usable(amount) and amount >= 0:
            self._add(metric, fitting(amount), self.admit_labels(labels))

    def record_value(self, metric: Metric, value: float, labels: Labels, ref: SpanRef | None) -> None:
        """Add a measurement to a histogram; `ref` is the span that was measured."""
        if self._is_usable(value):
            self._record(metric, float(value), self.admit_labels(labels), ref)

    def record_known(self, metric: Metric, value: float, key: Key, ref: SpanRef | None) -> None:
        """Add a measurement to a histogram, as `record_value` does, for labels that `admit_labels` has admitted.

        Their values are held, or so few that none of them has to make room.
        """
        if self._is_usable(value):
            self._record(metric, float(value), key, ref)

    def admit_labels(self, labels: Labels) -> Key:
        """Return the key of the series with these labels: a value that finds no room is `other` in it."""
        return self._values.admit_key(key_of(labels))

    def set_value(self, metric: Metric, value: Number, labels: Labels) -> None:
        """Set a gauge, an up-down counter, or a counter that a third party counts."""
        if self._is_usable(value):
            number = fitting(value)
            self._watch(metric, self.admit_labels(labels), lambda: number)

    def watch_value(self, metric: Metric, labels: Labels, reading: Reading) -> None:
        """Read the value of a gauge whenever metrics are collected."""
        self._watch(metric, self.admit_labels(labels), reading)

    def end_series(self, metric: Metric, labels: Labels) -> None:
        """End a series that `set_value` or `watch_value` began."""
        self._end(metric, self._values.find_key(key_of(labels)))

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
