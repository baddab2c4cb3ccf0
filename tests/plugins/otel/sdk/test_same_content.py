"""Our own pipeline and the SDK's, with its official exporters, tell a receiver the same."""

from __future__ import annotations

from typing import Any

import pytest

from proofstream import Envelope
from proofstream.testing import InlineHost
from proofstream_otel import OtelPlugin

EVERY_STREAM = ["serde-all-variants", "aborted-then-next", "ws-job-frames-lagged", "stark-without-proof"]
ABOUT_OUR_EXPORTS = "proofstream.otlp."
BY_THE_CLOCK = "proofstream.proof.longest_silence"
"""Its values differ from run to run."""


def received(kit: Any, items: list[Envelope], **config: Any) -> Any:
    """A receiver that got the telemetry of a stream."""
    receiver = kit.Receiver()
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "rounds": "both", **config})
    host.feed(items)
    host.close()
    receiver.close()
    assert not [key for key, count in host.health().items() if key.startswith("lost_") and count]
    return receiver


def spans(receiver: Any) -> list[dict[str, Any]]:
    """The spans without their ids, in the order of their ends."""
    names = {span.span_id: span.name for span in receiver.spans}
    return [
        {
            "name": span.name,
            "above": names.get(span.parent_span_id),
            "times": (span.start_unix_nano, span.end_unix_nano),
            "attributes": span.attributes,
            "events": [(event.name, event.time_unix_nano, event.attributes) for event in span.events],
            "dropped": span.dropped_events,
            "links": [names.get(span_id) for _, span_id in span.links],
            "status": span.status,
        }
        for span in receiver.spans
    ]


def logs(receiver: Any) -> list[tuple[Any, ...]]:
    """The log records without their ids. For one without a body, the SDK sends a body without a value."""
    return [(r.event_name, r.time_unix_nano, r.severity, r.body or "", r.attributes, r.flags) for r in receiver.logs]


def series(receiver: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The last values of all series of metrics that do not tell of our own exports."""
    return {
        (point.name, *sorted(point.attributes.items())): (
            point.unit,
            point.kind,
            point.monotonic,
            None if point.name == BY_THE_CLOCK else point.value,
            point.count,
            point.bucket_counts,
            point.bounds,
            len(point.exemplars),
        )
        for point in receiver.points
        if not point.name.startswith(ABOUT_OUR_EXPORTS) and not point.has_ended
    }


@pytest.mark.parametrize("name", EVERY_STREAM)
def test_a_stream_is_told_alike(kit: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "4096")
    own = received(kit, kit.stream(name))
    sdk = received(kit, kit.stream(name), pipeline="sdk")
    assert spans(sdk) == spans(own)
    assert logs(sdk) == logs(own)
    assert series(sdk) == series(own)


def test_the_resource_is_that_of_our_own_pipeline(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=mine,team=zk")
    monkeypatch.setenv("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "otel")
    own, sdk = (received(kit, kit.stream("aborted-then-next"), pipeline=name) for name in ("own", "sdk"))
    (told,) = {tuple(sorted(span.resource.items())) for span in sdk.spans}
    assert {tuple(sorted(span.resource.items())) for span in own.spans} == {told}
    assert {("service.name", "proofstream"), ("service.instance.id", "mine"), ("team", "zk")} <= set(told)


def test_the_sdks_limit_on_events_is_kept_and_counted(kit: Any) -> None:
    proof = kit.small_proof(rounds=300)
    sdk = received(kit, kit.envelopes(proof), pipeline="sdk")
    (layer,) = [span for span in sdk.spans if span.name == "layer MatMul"]
    assert len(layer.events) == 128
    rounds = [event.attributes["proofstream.round.index"] for event in layer.rounds()]
    assert (rounds[0], rounds[-1]) == (0, 299), "the first and the last ones are kept"
    assert layer.attributes["proofstream.rounds.dropped"] == 300 - len(rounds)
