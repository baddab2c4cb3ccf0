"""Takes the providers that a configurator makes, before it makes them global.

A configurator has no other result: it ends in a call of the API's `set_tracer_provider` and the like.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry import _logs, metrics, propagate, trace

from proofstream_otel.values.signals import LOGS, METRICS, TRACES, Signal

_SETTERS: dict[str, tuple[Callable[[Any], None], Signal | None]] = {
    "set_tracer_provider": (trace.set_tracer_provider, TRACES),
    "set_meter_provider": (metrics.set_meter_provider, METRICS),
    "set_logger_provider": (_logs.set_logger_provider, LOGS),
    # The application's propagators stay as they are, too.
    "set_global_textmap": (propagate.set_global_textmap, None),
}


@contextmanager
def captured() -> Generator[dict[Signal, Any]]:
    """Take what this thread makes global meanwhile. Other threads are not affected."""
    found: dict[Signal, Any] = {}
    is_over = threading.Event()
    replaced: list[tuple[Any, str, Callable[[Any], None]]] = []
    try:
        for name, (original, signal) in _SETTERS.items():
            taking = _taking(original, signal, found, is_over)
            for module in list(sys.modules.values()):
                if getattr(module, "__dict__", {}).get(name) is original:
                    setattr(module, name, taking)
                    replaced.append((module, name, original))
        yield found
    finally:
        is_over.set()
        for module, name, original in replaced:
            setattr(module, name, original)


def _taking(
    original: Callable[[Any], None], signal: Signal | None, found: dict[Signal, Any], is_over: threading.Event
) -> Callable[[Any], None]:
    ours = threading.get_ident()

    def take(provider: Any) -> None:
        # A module that is imported meanwhile keeps this function.
        if is_over.is_set() or threading.get_ident() != ours:
            original(provider)
        elif signal is not None:
            found[signal] = provider

    return take
