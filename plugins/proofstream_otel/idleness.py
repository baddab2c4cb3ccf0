"""Says early that the plugin has nothing to do, so that most processes load neither OpenTelemetry nor what posts."""

from __future__ import annotations

import os
import sys

from proofstream import PluginContext
from proofstream_otel import environment
from proofstream_otel.settings import Pipeline, Settings
from proofstream_otel.values.signals import SIGNALS, TRACES

NOTHING_SET = "no OTLP endpoint, file or provider is set: nothing is exported"

_API = ("opentelemetry.trace", "opentelemetry.metrics", "opentelemetry._logs")
_PROVIDERS = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER", "OTEL_PYTHON_LOGGER_PROVIDER")
"""Variables by which the API makes a provider as soon as somebody asks for one."""


def is_surely_idle(settings: Settings, context: PluginContext) -> bool:
    """Return whether no signal goes anywhere, as `destinations.choose` finds; False where only that can tell.

    Without providers that were passed in.
    """
    if context.asked or environment.is_sdk_disabled() or settings.pipeline is Pipeline.SDK:
        return False
    if settings.endpoint is not None or settings.file is not None or environment.has_endpoint():
        return False
    if any(signal is not TRACES and settings.requires(signal) for signal in SIGNALS):
        return False
    return not _may_have_providers()


def _may_have_providers() -> bool:
    """Return whether the application may have made a provider global; without the API, it has not."""
    return any(name in sys.modules for name in _API) or any(os.environ.get(name) for name in _PROVIDERS)
