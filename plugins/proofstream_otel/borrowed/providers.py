"""Finds the providers that the application has made global.

They are known by what they can do. Wrappers, and other implementations than the SDK, share no class with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from proofstream_otel.values.signals import LOGS, METRICS, TRACES, Signal

_API = ("opentelemetry.trace", "opentelemetry.metrics", "opentelemetry._logs", "opentelemetry.logs")
_MOST_WRAPPERS = 8
_LISTENERS = {
    TRACES: ("_active_span_processor", "_span_processors"),
    METRICS: ("_metric_readers",),
    LOGS: ("_multi_log_record_processor", "_log_record_processors"),
}
"""Where the SDK's providers keep what exports. If another version has it elsewhere, nothing is said."""
_UNNAMED = "unknown_service"
"""How the SDK's name of a service begins that was given none."""


def find(signal: Signal) -> Any | None:
    """Return the application's provider for a signal, or None if it has none that leads anywhere."""
    provider = _global(signal)
    return None if is_stand_in(provider) else provider


def is_stand_in(provider: Any) -> bool:
    """Return whether a provider leads nowhere: it is a proxy or no-op of the API itself, or wraps one."""
    for _ in range(_MOST_WRAPPERS):
        if any(_is_of_api(kind) for kind in type(provider).__mro__):
            return True
        # By this name wrappers keep what they wrap.
        provider = getattr(provider, "provider", None)
        if provider is None:
            break
    return False


def is_deaf(provider: Any, signal: Signal) -> bool:
    """Return whether a provider of the SDK has been given nothing that would export, so far."""
    part = provider
    while hasattr(part, "provider"):
        part = part.provider
    for name in _LISTENERS[signal]:
        part = getattr(part, name, None)
    return part in ((), [])


def shown(provider: object) -> str:
    """Return the name of a provider's class."""
    return f"{type(provider).__module__.partition('.')[0]}'s {type(provider).__qualname__}"


def service_of(providers: Iterable[Any]) -> str | None:
    """Return the service that the application says it is, as far as one of its providers tells."""
    for provider in providers:
        attributes: Any = getattr(getattr(provider, "resource", None), "attributes", {})
        name: object = attributes.get("service.name")
        if isinstance(name, str) and not name.startswith(_UNNAMED):
            return name
    return None


def _global(signal: Signal) -> Any:
    from opentelemetry import _logs, metrics, trace  # slow to load, and not needed beside an endpoint

    if signal is TRACES:
        return trace.get_tracer_provider()
    return metrics.get_meter_provider() if signal is METRICS else _logs.get_logger_provider()


def _is_of_api(kind: type) -> bool:
    """Return whether a class belongs to the API and can be used as it is; what it leaves abstract, others make."""
    return kind.__module__.startswith(_API) and not inspect.isabstract(kind)
