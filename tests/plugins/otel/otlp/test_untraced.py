"""Our own requests make no spans, and carry no traceparent, where an application instruments HTTP clients or gRPC."""

from __future__ import annotations

from typing import Any

import grpc  # type: ignore[import-untyped]  # it ships no types
import pytest
import requests
from opentelemetry import context

from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin

KEYS = ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")
"""What the instrumentations of OpenTelemetry look at before they trace a request."""


def is_hidden() -> bool:
    """Whether an instrumentation would leave a request of this thread alone."""
    keys = [str(getattr(context, key)) for key in KEYS]
    return all(context.get_value(key) for key in [*keys, "suppress_instrumentation"])


def prove(kit: Any, endpoint: str, **config: Any) -> None:
    """Export a proof."""
    host = InlineHost(OtelPlugin(), {"endpoint": endpoint, **config})
    host.feed(envelopes(kit.small_proof()))
    host.close()


@pytest.mark.parametrize("pipeline", ["own", "sdk"])
def test_over_http(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> None:
    seen: list[bool] = []
    send = requests.Session.send

    def instrumented(self: requests.Session, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        seen.append(is_hidden_from_http() if pipeline == "sdk" else is_hidden())
        return send(self, request, **how)

    monkeypatch.setattr(requests.Session, "send", instrumented)
    prove(kit, receiver.url, pipeline=pipeline)
    assert len(receiver.spans) == 3
    assert set(seen) == {True}
    assert not is_hidden(), "the application's own requests are traced as before"


def is_hidden_from_http() -> bool:
    """Whether the SDK's exporters, which hide themselves by one of the keys, are hidden."""
    return bool(context.get_value(str(getattr(context, KEYS[0]))))


def test_over_grpc(kit: Any, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    seen: list[bool] = []
    open_channel = grpc.insecure_channel

    class Instrumentation(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # it ships no types
        def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            seen.append(is_hidden())
            return continuation(client_call_details, request)

    def instrumented(*arguments: Any, **how: Any) -> Any:
        return grpc.intercept_channel(open_channel(*arguments, **how), Instrumentation())

    monkeypatch.setattr(grpc, "insecure_channel", instrumented)
    host = InlineHost(OtelPlugin(), {"endpoint": closed.replace("http", "grpc"), "metrics": False, "logs": False})
    host.feed(envelopes(kit.small_proof()))
    host.close(1.0)
    assert seen
    assert set(seen) == {True}
