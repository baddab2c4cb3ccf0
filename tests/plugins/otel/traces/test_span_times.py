"""Events stay inside their span when a clock is set back, and say when they happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream as ps
from proofstream.testing import START_UNIX_NANO, InlineHost, envelopes
from proofstream_otel import OtelPlugin

S = 1_000_000_000
MOVED = "proofstream.events.moved"
TIME = "proofstream.event.time_unix_nano"


def at(items: list[Any], seconds: list[float]) -> list[ps.Envelope]:
    """Envelopes at times of their own; the opening of their session comes first."""
    opened, *rest = envelopes(items, close=False)
    times = [START_UNIX_NANO + round(second * S) for second in seconds]
    return [
        opened,
        *(msgspec.structs.replace(item, time_unix_nano=time) for item, time in zip(rest, times, strict=True)),
    ]


def layer_of(kit: Any) -> list[Any]:
    """A proof of one layer, with two rounds and a line."""
    line = ps.Log(level=ps.LogLevel.Info, message="half way")
    rounds = [kit.sumcheck_round(0), line, kit.sumcheck_round(1)]
    return [kit.proof_start(), kit.layer_start(), *rounds, kit.layer_end(), kit.proof_complete()]


def test_a_clock_that_is_set_back_in_a_layer(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(at(layer_of(kit), [1, 2, 1000, 3, -1000, 4, 5]))
    host.close()
    layer = next(span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "layer MatMul")
    assert all(layer.start_unix_nano <= event.time_unix_nano <= layer.end_unix_nano for event in layer.events)
    moved = [event for event in layer.events if TIME in event.attributes]
    assert layer.attributes[MOVED] == len(moved) > 0
    for event in moved:
        assert not layer.start_unix_nano <= int(event.attributes[TIME]) <= layer.end_unix_nano
    times = {int(event.attributes.get(TIME, event.time_unix_nano)) for event in layer.events}
    assert times == {START_UNIX_NANO + second * S for second in (1000, 3, -1000)}, "each time is still there"


def test_times_that_rise_are_left_alone(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(at(layer_of(kit), [1, 2, 3, 4, 5, 6, 7]))
    host.close()
    for span in kit.read_file(tmp_path / "traces.jsonl"):
        assert MOVED not in span.attributes
        assert not [event for event in span.events if TIME in event.attributes]


@settings(max_examples=40, deadline=None)
@given(seconds=st.lists(st.floats(-100, 100), min_size=7, max_size=7))
def test_no_event_is_outside_whatever_the_times(
    kit: Any, tmp_path_factory: pytest.TempPathFactory, seconds: list[float]
) -> None:
    folder = tmp_path_factory.mktemp("times")
    host = InlineHost(OtelPlugin(), {"file": str(folder)})
    host.feed(at(layer_of(kit), seconds))
    host.close()
    spans = kit.read_file(folder / "traces.jsonl")
    assert {span.name for span in spans} - {"before_layers", "after_layers"} == {"session", "proof", "layer MatMul"}
    for span in spans:
        assert all(span.start_unix_nano <= event.time_unix_nano <= span.end_unix_nano for event in span.events)


def test_with_a_provider_as_well(kit: Any) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    host = InlineHost(OtelPlugin(tracer_provider=provider))
    host.feed(at(layer_of(kit), [1, 2, 1000, 3, -1000, 4, 5]))
    host.close()
    for span in exporter.get_finished_spans():
        assert span.start_time is not None
        assert span.end_time is not None
        assert all(span.start_time <= event.timestamp <= span.end_time for event in span.events)


def test_a_session_adds_a_bounded_number_of_bounded_attributes_to_the_resource(kit: Any, receiver: Any) -> None:
    resource = {f"key-{number:06}" + "x" * 500: "v" * 5000 for number in range(10_000)}
    opened, *rest = envelopes(kit.small_proof())
    assert isinstance(opened.event, ps.SessionOpened)
    event = msgspec.structs.replace(opened.event, resource=resource)
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    host.feed([msgspec.structs.replace(opened, event=event), *rest])
    host.close()
    (attributes,) = {len(span.resource): span.resource for span in receiver.spans}.values()
    mine = {key: value for key, value in attributes.items() if key.startswith("key-")}
    assert len(mine) == 128
    assert max(map(len, mine)) <= 128
    assert max(map(len, mine.values())) <= 1024
