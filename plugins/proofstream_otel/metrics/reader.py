"""Collects our own meter at intervals, and passes each collection to the sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.values.metric_points import MetricSink

LEAST_PAUSE_S = 1.0
"""The shortest time between two collections, even if proofs end faster than that."""


class PeriodicReader:
    """Decides when to collect.

    Args:
        meter: Keeps the measurements.
        sinks: Take the collections.
        interval_s: Seconds between collections; after the end of a proof the next one is due at once.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        meter: OwnMeter,
        sinks: Sequence[MetricSink],
        *,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meter = meter
        self._sinks = sinks
        self._interval_s = interval_s
        self._clock = clock
        self._collected_at = clock()
        self._has_ended = False

    def is_due(self, *, proof_ended: bool) -> bool:
        """Return whether it is time to collect."""
        self._has_ended |= proof_ended
        pause_s = min(LEAST_PAUSE_S, self._interval_s) if self._has_ended else self._interval_s
        return self._clock() - self._collected_at >= pause_s

    def collect(self) -> None:
        """Collect now."""
        self._has_ended = False
        self._collected_at = self._clock()
        collected = self._meter.collect()
        for sink in self._sinks:
            sink.write_metrics(collected)
