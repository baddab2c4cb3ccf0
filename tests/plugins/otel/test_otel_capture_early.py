"""Captures nothing while OpenTelemetry is still being imported."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from proofstream_otel import OtelPlugin


def test_a_module_that_is_being_imported_has_no_current_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", ModuleType("opentelemetry.trace"))
    assert OtelPlugin().proofstream_capture() is None
