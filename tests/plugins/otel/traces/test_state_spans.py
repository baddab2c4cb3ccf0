"""State-program costs find their proof, even if it has ended before they arrive."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream as ps
from proofstream import HOST, PRODUCER
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin, telemetry
from proofstream_otel.settings import Settings
from proofstream_otel.traces import held_spans
from proofstream_otel.traces.held_spans import HOLD_S, ExpectedCosts
from proofstream_otel.traces.mapping import SpanMapper
from proofstream_otel.traces.parents import Parents
from proofstream_otel.values.spans import Parent, SpanRef, SpanValues

PRICER = "state-cost"
BYTES = "proofstream.state.slot_zero.bytes"
COST_EVENT = "proofstream.state.program_cost"
PROGRAMS = ("verify_checkpoint", "verify_rollback", "commit_accepted", "slot_zero")


def cost(proof: int = 0, *, program: str = "slot_zero", size: int = 96, circuit: str = "nano") -> ps.StateProgramCost:
    """The cost of a program of a small circuit."""
    return ps.StateProgramCost(
        proof=proof,
        circuit=circuit,
        convention="vllm",
        program=program,
        op="zero" if program == "slot_zero" else "copy",
        recurrent_layers=2,
        bytes=size,
        states=[ps.StateBytes(group="mamba.h", kind="recurrent", states=2, bytes=size)],
    )


def derived(event: ps.ProofEvent, *, of: ps.Envelope) -> ps.Envelope:
    """An event that the plugin made of an envelope, as it arrives."""
    return msgspec.structs.replace(
        of, seq=of.seq + 10_000, origin=PRICER, lineage=(PRICER,), event=event, raw=ps.encode_event(event)
    )


def health(status: str, plugin: str = PRICER, *, prices: bool = True) -> ps.Envelope:
    """The host's report on a plugin."""
    event = ps.PluginHealth(
        plugin=plugin,
        status=status,
        reason=None,
        depth=0,
        delivered=0,
        dropped={},
        counters={},
        lag_s=0.0,
        derives=["StateProgramCost"] if prices else [],
    )
    return ps.Envelope(seq=0, time_unix_nano=1, session_id="host", origin=HOST, event=event, raw=b"")


class Clock:
    """A clock in seconds that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class Writer:
    """Keeps each span with the attributes and events that it had when it was written."""

    keeps_ids = True

    def __init__(self) -> None:
        self.ended: list[SpanValues] = []

    def start_span(self, span: SpanValues, parent: Parent | None) -> SpanRef:
        """Sample it."""
        return SpanRef(span.trace_id, span.span_id, sampled=True)

    def end_span(self, span: SpanValues) -> SpanRef:
        """Keep a copy of it."""
        self.ended.append(msgspec.structs.replace(span, attributes=dict(span.attributes), events=list(span.events)))
        return SpanRef(span.trace_id, span.span_id, sampled=span.sampled)

    def names(self) -> list[str]:
        """The spans' names, in the order in which they were written."""
        return [span.name for span in self.ended]

    def of(self, name: str) -> list[SpanValues]:
        """The spans of a name."""
        return [span for span in self.ended if span.name == name]


class Bench:
    """A mapper on a clock that stands still."""

    def __init__(self, *, live: bool = False, instance: str = "") -> None:
        self.clock = Clock()
        self.writer = Writer()
        expected = ExpectedCosts(live=live, instance=instance, clock=self.clock)
        self.mapper = SpanMapper(
            self.writer, Parents(logging.getLogger("test")), Settings().span_limits, expected=expected
        )

    def feed(self, *items: ps.Envelope) -> None:
        """Map envelopes."""
        for item in items:
            self.mapper.map_event(item)

    def wait(self, seconds: float) -> None:
        """Let time pass while other events arrive."""
        self.clock.now += seconds
        self.mapper.settle(self.clock.now)


@pytest.fixture
def bench() -> Bench:
    """A replay."""
    return Bench()


def test_a_cost_during_the_proof_is_on_its_span(kit: Any, bench: Bench) -> None:
    start, *rest = envelopes(kit.small_proof(), close=False)[1:]
    bench.feed(start, derived(cost(), of=start), *rest)
    bench.mapper.close("end")
    (proof,) = bench.writer.of("proof")
    assert proof.attributes[BYTES] == 96
    assert proof.attributes["proofstream.state.circuit"] == "nano"
    assert proof.attributes["proofstream.state.convention"] == "vllm"
    assert proof.attributes["proofstream.state.recurrent_layers"] == 2
    assert proof.events == []


def test_a_cost_after_the_end_of_proof_and_session_is_on_the_proofs_span(kit: Any, bench: Bench) -> None:
    items = envelopes([*kit.small_proof(), *kit.small_proof()])
    bench.feed(*items)
    assert bench.writer.names() == ["layer MatMul", "layer MatMul"]
    for program in PROGRAMS:
        bench.feed(derived(cost(0, program=program, size=7), of=items[1]))
    bench.feed(derived(cost(1, size=8), of=items[7]))
    bench.wait(HOLD_S)
    assert bench.writer.names()[2:] == ["proof", "proof", "session"]
    first, second = bench.writer.of("proof")
    assert [first.attributes[f"proofstream.state.{program}.bytes"] for program in PROGRAMS] == [7, 7, 7, 7]
    assert second.attributes[BYTES] == 8
    assert "proofstream.state.verify_checkpoint.bytes" not in second.attributes
    (session,) = bench.writer.of("session")
    assert not [event for event in session.events if event.name == COST_EVENT]


def test_times_ids_and_order_are_those_of_a_run_without_costs(kit: Any) -> None:
    items = kit.stream("aborted-then-next")
    plain, priced = Bench(live=True), Bench()
    plain.feed(*items)
    priced.feed(*items, derived(cost(), of=items[1]))
    plain.mapper.close("end")
    priced.mapper.close("end")
    roots = {"proof", "session"}
    assert [s.span_id for s in plain.writer.ended if s.name not in roots] == [
        s.span_id for s in priced.writer.ended if s.name not in roots
    ]
    for name in sorted(roots):
        for one, other in zip(plain.writer.of(name), priced.writer.of(name), strict=True):
            stated = {key for key in other.attributes if key.startswith("proofstream.state.")}
            left = {key: value for key, value in other.attributes.items() if key not in stated}
            assert msgspec.structs.replace(other, attributes=left) == one
    assert BYTES in priced.writer.of("proof")[0].attributes


def test_a_proof_that_has_been_open_for_long_does_not_wait(kit: Any, bench: Bench) -> None:
    *running, complete = envelopes(kit.small_proof(), close=False)
    bench.feed(*running)
    bench.wait(HOLD_S)
    bench.feed(complete)
    bench.wait(0)
    assert bench.writer.names() == ["layer MatMul", "proof"]


def test_a_circuit_in_the_middle_is_priced_again(kit: Any, bench: Bench) -> None:
    circuit = ps.CircuitCompiled(
        total_layers=1, input_shape=(1, 1), output_shape=(1, 1), nodes=[], has_simd=False, simd_num_blocks=0, states=[]
    )
    start, *rest = envelopes([kit.proof_start(), circuit, *kit.small_proof()[1:]], close=False)[1:]
    bench.feed(start)
    bench.wait(HOLD_S)
    bench.feed(*rest)
    bench.wait(HOLD_S / 2)
    assert bench.writer.of("proof") == []
    bench.feed(derived(cost(), of=rest[0]))
    bench.wait(HOLD_S)
    assert bench.writer.of("proof")[0].attributes[BYTES] == 96


def test_a_cost_after_the_proofs_span_was_written_is_an_event_of_the_session(kit: Any, bench: Bench) -> None:
    items = envelopes(kit.small_proof(), close=False)
    bench.feed(*items)
    bench.wait(HOLD_S)
    assert bench.writer.names() == ["layer MatMul", "proof"]
    bench.feed(derived(cost(), of=items[1]), derived(cost(41, program="ring_save"), of=items[1]))
    bench.mapper.close("end")
    (session,) = bench.writer.of("session")
    assert [event.name for event in session.events] == [COST_EVENT] * 2
    assert session.events[0].attributes == {
        "proofstream.proof.ordinal": 0,
        "proofstream.state.program": "slot_zero",
        "proofstream.state.circuit": "nano",
        "proofstream.state.convention": "vllm",
        "proofstream.state.recurrent_layers": 2,
        "proofstream.state.bytes": 96,
    }
    assert session.events[1].attributes["proofstream.proof.ordinal"] == 41
    assert bench.mapper.counters() == {}


def test_an_ended_session_still_takes_costs_of_unknown_proofs(kit: Any, bench: Bench) -> None:
    items = envelopes(kit.small_proof())
    bench.feed(*items)
    bench.feed(derived(cost(5), of=items[1]))
    bench.wait(HOLD_S)
    (session,) = bench.writer.of("session")
    assert [event.name for event in session.events] == [COST_EVENT]


def test_a_cost_after_all_spans_were_written_is_counted(kit: Any, bench: Bench) -> None:
    items = envelopes(kit.small_proof())
    bench.feed(*items)
    bench.wait(HOLD_S)
    bench.feed(derived(cost(), of=items[1]))
    assert bench.mapper.counters() == {"state_costs_too_late": 1}
    bench.mapper.close("end")
    assert bench.writer.names() == ["layer MatMul", "proof", "session"]


def test_a_span_that_waits_behind_another_is_written_after_it(kit: Any, bench: Bench) -> None:
    *running, complete = envelopes(kit.small_proof(), session_id="long", close=False)
    bench.feed(*running)
    bench.wait(HOLD_S / 2)
    bench.feed(*envelopes(kit.small_proof(), session_id="short"))
    bench.wait(HOLD_S / 2)
    bench.feed(complete)
    bench.wait(0)
    assert bench.writer.of("proof") == []
    bench.wait(HOLD_S / 2)
    written = [(span.name, span.attributes["proofstream.session.id"]) for span in bench.writer.ended[2:]]
    assert written == [("proof", "short"), ("session", "short"), ("proof", "long")]


class TestWhenCostsAreExpected:
    """Without a plugin that prices, nothing waits."""

    def test_not_in_a_live_run_by_default(self, kit: Any) -> None:
        bench = Bench(live=True)
        bench.feed(*envelopes(kit.small_proof()))
        assert bench.writer.names() == ["layer MatMul", "proof", "session"]

    def test_possibly_until_the_host_has_reported_its_plugins(self, kit: Any) -> None:
        bench = Bench(live=True, instance="this-one")
        resource = {"service.instance.id": "this-one"}
        opened = ps.SessionOpened(source="x", time_source="envelope", traceparent=None, resource=resource)
        items = envelopes([opened, *kit.small_proof()])[1:]
        bench.feed(*items)
        assert bench.writer.names() == ["layer MatMul"]
        bench.feed(health("ready", "console", prices=False), *envelopes(kit.small_proof(), session_id="b"))
        bench.wait(HOLD_S)
        assert bench.writer.names() == ["layer MatMul"] * 2 + ["proof", "session"] * 2
        bench.feed(*(msgspec.structs.replace(item, session_id="c") for item in items))
        assert bench.writer.names()[6:] == ["layer MatMul", "proof", "session"]

    def test_not_in_a_session_of_another_host(self, kit: Any) -> None:
        bench = Bench(live=True, instance="this-one")
        opened = ps.SessionOpened(
            source="x", time_source="envelope", traceparent=None, resource={"service.instance.id": "another"}
        )
        bench.feed(*envelopes([opened, *kit.small_proof()])[1:])
        assert bench.writer.names() == ["layer MatMul", "proof", "session"]

    @pytest.mark.parametrize(
        "report", [health("starting"), health("ready"), health("stalled"), health("ready", "third-party")]
    )
    def test_while_a_plugin_that_prices_is_active(self, kit: Any, report: ps.Envelope) -> None:
        bench = Bench(live=True)
        bench.feed(report, *envelopes(kit.small_proof()))
        assert bench.writer.names() == ["layer MatMul"]
        bench.wait(HOLD_S)
        assert bench.writer.names() == ["layer MatMul", "proof", "session"]

    @pytest.mark.parametrize(
        "envelope", [health("idle"), health("failed"), health("broken"), health("ready", "gpu", prices=False)]
    )
    def test_not_from_an_inactive_plugin_or_another_one(self, kit: Any, envelope: ps.Envelope) -> None:
        bench = Bench(live=True)
        bench.feed(envelope, *envelopes(kit.small_proof()))
        assert bench.writer.names() == ["layer MatMul", "proof", "session"]

    def test_after_an_earlier_cost(self, kit: Any) -> None:
        bench = Bench(live=True)
        *running, complete = envelopes([*kit.small_proof(), *kit.small_proof()], close=False)
        bench.feed(*running[:7], derived(cost(), of=running[1]), *running[7:], complete)
        assert bench.writer.names() == ["layer MatMul", "proof", "layer MatMul"]

    def test_after_a_circuit_with_declared_states(self) -> None:
        circuit = ps.CircuitCompiled(
            total_layers=1, input_shape=(1, 1), output_shape=(1, 1), nodes=[], has_simd=False, simd_num_blocks=0
        )
        expected = ExpectedCosts(live=True, clock=Clock())
        expected.learn_from(circuit)
        assert expected.due_s() == -math.inf
        expected.learn_from(msgspec.structs.replace(circuit, states=[]))
        assert expected.due_s() == 100.0 + HOLD_S


def test_the_number_of_held_spans_is_bounded(kit: Any, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_spans, "MAX_HELD", 3)
    bench.feed(*envelopes(kit.small_proof() * 5, close=False))
    assert len(bench.writer.of("proof")) == 2
    assert [span.attributes["proofstream.proof.ordinal"] for span in bench.writer.of("proof")] == [0, 1]


def test_a_program_with_an_invalid_name_is_an_event_of_the_proof(kit: Any, bench: Bench) -> None:
    start, *rest = envelopes(kit.small_proof(), close=False)[1:]
    odd = [cost(program=name) for name in ("", "a b", "Zero", "x" * 65, "é", "zero\n")]
    many = [cost(program=f"p{number}") for number in range(20)]
    bench.feed(start, *(derived(event, of=start) for event in (*odd, *many)), *rest)
    bench.mapper.close("end")
    (proof,) = bench.writer.of("proof")
    priced = [key for key in proof.attributes if key.endswith(".bytes")]
    assert priced == [f"proofstream.state.p{number}.bytes" for number in range(16)]
    told = [event.attributes["proofstream.state.program"] for event in proof.events if event.name == COST_EVENT]
    assert told == ["", "a b", "Zero", "x" * 65, "é", "zero\n", "p16", "p17", "p18", "p19"]


def test_a_u64_is_exact(kit: Any, bench: Bench) -> None:
    start, *rest = envelopes(kit.small_proof(), close=False)[1:]
    bench.feed(start, derived(cost(size=2**64 - 1), of=start), *rest)
    bench.mapper.close("end")
    attributes = bench.writer.of("proof")[0].attributes
    assert (attributes.get(BYTES), attributes[f"{BYTES}.digits"]) == (None, str(2**64 - 1))


def test_runs_and_traffic_are_not_span_events(kit: Any, bench: Bench) -> None:
    run = ps.StateProgramRun(program="slot_zero", sequences=3)
    moved = ps.StateBytesMoved(
        circuit="nano",
        convention="vllm",
        program="slot_zero",
        runs=1,
        sequences=3,
        bytes=288,
        states=[],
        timed_bytes=0,
        timed_ns=0,
    )
    start, *rest = envelopes([kit.proof_start(), run, *kit.small_proof()[1:]])[1:]
    bench.feed(start, derived(moved, of=start), *rest)
    bench.mapper.close("end")
    assert {event.name for span in bench.writer.ended for event in span.events} <= {"proofstream.sumcheck.round"}


def test_a_cost_without_a_proof_is_not_lost(bench: Bench) -> None:
    opened, alone = envelopes([cost()], close=False)
    assert alone.origin == PRODUCER
    bench.feed(opened, alone)
    bench.mapper.close("end")
    (session,) = bench.writer.of("session")
    assert [event.name for event in session.events] == [COST_EVENT]


def test_a_cost_of_an_unknown_session_is_counted(bench: Bench) -> None:
    bench.feed(*envelopes([cost()], close=False)[1:])
    bench.mapper.close("end")
    assert bench.writer.ended == []
    assert bench.mapper.counters() == {"state_costs_too_late": 1}


@given(
    places=st.lists(st.integers(0, 13), min_size=1, max_size=8),
    waits=st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=14, max_size=14),
    live=st.booleans(),
)
def test_every_cost_is_somewhere(places: list[int], waits: list[float], live: bool) -> None:
    bench = Bench(live=live)
    start = ps.ProofStart(model_name=None, backend="cpu", num_layers=0, input_shape=(1, 1), output_shape=(1, 1))
    complete = ps.ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="")
    items = envelopes([start, complete] * 6)
    given_costs = [cost(place % 7, program=f"p{number}") for number, place in enumerate(places)]
    for place, (item, wait) in enumerate(zip(items, waits, strict=True)):
        bench.feed(item)
        for number, event in enumerate(given_costs):
            if places[number] == place:
                bench.feed(derived(event, of=item))
        bench.wait(wait)
    bench.mapper.close("end")
    spans = bench.writer.ended
    keys = [key for span in spans for key in span.attributes if key.startswith("proofstream.state.p")]
    events = [event for span in spans for event in span.events if event.name == COST_EVENT]
    too_late = bench.mapper.counters().get("state_costs_too_late", 0)
    assert len(keys) + len(events) + too_late == len(given_costs)
    assert [span.attributes["proofstream.proof.ordinal"] for span in bench.writer.of("proof")] == list(range(6))
    assert bench.writer.names()[-1] == "session"


@pytest.mark.parametrize("how", ["tick", "close"])
def test_both_writers_wait(kit: Any, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    plugins = (OtelPlugin(tracer_provider=provider), OtelPlugin(file=str(tmp_path)))
    hosts = [InlineHost(plugin, live=False) for plugin in plugins]
    items = envelopes(kit.small_proof())
    for host in hosts:
        host.feed(items)
    assert [span.name for span in exporter.get_finished_spans()] == ["layer MatMul"]
    assert [span.name for span in kit.read_file(tmp_path / "traces.jsonl")] == ["layer MatMul"]
    for host in hosts:
        host.tick()  # a tick between two batches is not a silence
        host.feed([derived(cost(), of=items[1])])
    monkeypatch.setattr(telemetry, "SILENCE_S", 0.0)
    for host in hosts:
        host.tick() if how == "tick" else host.close()
    borrowed = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    owned = {span.name: span.attributes for span in kit.read_file(tmp_path / "traces.jsonl")}
    assert borrowed["proof"][BYTES] == owned["proof"][BYTES] == 96
    assert list(borrowed) == list(owned) == ["layer MatMul", "proof", "session"]
    for host in hosts:
        host.close()


def test_measurements_do_not_wait(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "metric_interval_s": 0.1}, live=False)
    host.feed(envelopes(kit.small_proof()))
    kit.wait_until(lambda: bool(_collected(kit, host, tmp_path)))
    assert [span.name for span in kit.read_file(tmp_path / "traces.jsonl")] == ["layer MatMul"]
    host.close()


def _collected(kit: Any, host: InlineHost, folder: Path) -> list[Any]:
    host.feed([health("ready", "gpu", prices=False)])  # an event, so that the lane is not idle
    path = folder / "metrics.jsonl"
    return [p for p in kit.read_metric_file(path) if p.name == "proofstream.proofs"] if path.exists() else []
