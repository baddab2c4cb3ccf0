"""Properties of the timeline: whatever is fed, in whatever order, at whatever times, its promises hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from stories import MS, layer_start, sumcheck_round

from proofstream import events as ev
from proofstream.envelopes import PRODUCER, Envelope
from proofstream.intervals import Change, Closed, Interval, IntervalKind, Noted, NotedRounds, Opened, Phase, Proof
from proofstream.timelines import Timelines

SESSIONS = ("one", "two")
JOBS = (None, "job-a", "job-b")
STATS = ev.ActivationStats(mean=None, std_dev=None, min=None, max=None, sparsity=None)

index = st.integers(0, 3)
duration_ms = st.sampled_from([0, 1, 5, 10**6, 2**64 - 1])
shape = st.just((1, 1))
claim = st.just(0.5)
kind = st.sampled_from(ev.LayerKind)

layer_events: list[st.SearchStrategy[Any]] = [
    st.builds(
        ev.LayerStart,
        layer_idx=index,
        kind=kind,
        input_shape=shape,
        output_shape=shape,
        trace_cost=index,
        claim_value_approx=claim,
        gpu_device=st.sampled_from([None, 0, 1]),
    ),
    st.builds(
        ev.LayerEnd,
        layer_idx=index,
        kind=st.sampled_from(ev.LayerProofKind),
        final_claim_value_approx=claim,
        duration_ms=duration_ms,
        rounds_completed=index,
    ),
    st.builds(
        ev.SumcheckRound,
        layer_idx=index,
        round=index,
        total_rounds=index,
        poly_deg2=st.none(),
        poly_deg3=st.none(),
        claim_value_approx=claim,
    ),
]
proof_events: list[st.SearchStrategy[Any]] = [
    st.builds(
        ev.ProofStart,
        model_name=st.none(),
        backend=st.just("cpu"),
        num_layers=index,
        input_shape=shape,
        output_shape=shape,
    ),
    st.builds(
        ev.ProofComplete,
        duration_ms=duration_ms,
        num_layer_proofs=index,
        num_weight_openings=index,
        weight_binding_mode=st.just("sequential"),
    ),
    st.builds(ev.ProofAborted, reason=st.just("the code raised")),
]
held_events: list[st.SearchStrategy[Any]] = [
    st.builds(
        ev.LayerActivation,
        layer_idx=index,
        node_id=index,
        kind=kind,
        output_shape=shape,
        output_sample=st.just([]),
        stats=st.just(STATS),
    ),
    st.builds(
        ev.AttentionHeatmap, layer_idx=index, head_idx=index, num_heads=index, seq_len=st.just(0), scores=st.just([])
    ),
    st.builds(
        ev.CircuitCompiled,
        total_layers=index,
        input_shape=shape,
        output_shape=shape,
        nodes=st.just([]),
        has_simd=st.booleans(),
        simd_num_blocks=index,
    ),
]
part_events: list[st.SearchStrategy[Any]] = [
    st.builds(ev.WeightOpeningStart, weight_node_id=index, eval_point_len=index),
    st.builds(ev.WeightOpeningEnd, weight_node_id=index, duration_ms=duration_ms, commitment_hex=st.just("00")),
    st.builds(ev.AggregatedBindingStart, num_claims=index, num_matrices=index),
    st.builds(ev.AggregatedBindingEnd, duration_ms=duration_ms, estimated_calldata_felts=index),
    st.builds(ev.StarkProofStart, num_activation_layers=index, num_add_layers=index, num_layernorm_layers=index),
    st.builds(ev.StarkProofEnd, duration_ms=duration_ms),
]
number = st.sampled_from([None, 1, 2])
name = st.sampled_from(["commit", "fold"])
phase_events: list[st.SearchStrategy[Any]] = [
    st.builds(ev.PhaseStart, name=name, phase=number, parent=number, layer_idx=st.none() | index),
    st.builds(
        ev.PhaseEnd,
        name=name,
        phase=number,
        duration_ns=st.sampled_from([None, 0, 10**6, 2**64 - 1]),
        failed=st.sampled_from([None, None, "out of memory"]),
    ),
    st.builds(ev.PhaseProgress, phase=number, name=st.none() | name, done=index),
]
other_events: list[st.SearchStrategy[Any]] = [
    st.builds(ev.Log, level=st.sampled_from(ev.LogLevel), message=st.sampled_from(["hello", "lagged 17 events"])),
    st.builds(ev.EventsLost, where=st.just("intake"), counts=st.dictionaries(st.just("Log"), index)),
    st.builds(ev.UnknownEvent, kind=st.just("QuantumRound")),
    st.builds(
        ev.GpuStatus, devices=st.just([]), matmul_done=index, matmul_total=index, layers_done=index, layers_total=index
    ),
    st.builds(ev.TraceStarted, proof=index, trace_id=st.just("0"), span_id=st.just("0"), sampled=st.booleans()),
    st.builds(
        ev.SessionOpened,
        source=st.just("test"),
        time_source=st.just("envelope"),
        traceparent=st.none(),
        resource=st.just({}),
    ),
    st.builds(ev.SessionClosed, outcome=st.just("lost"), reason=st.none(), refused=index),
]
any_event = st.one_of(*layer_events, *proof_events, *held_events, *part_events, *phase_events, *other_events)
step = st.tuples(
    any_event,
    st.integers(-3_000_000, 5_000_000),
    st.sampled_from(SESSIONS),
    st.sampled_from(JOBS),
)
start_time = st.sampled_from([0, 1_700_000_000_000_000_000, 2**63 - 1])


@dataclass
class Watcher:
    """Feeds a timeline, and remembers what came out of it."""

    timelines: Timelines = field(default_factory=Timelines)
    fed: list[Envelope] = field(default_factory=list[Envelope])
    opened: list[Interval] = field(default_factory=list[Interval])
    closed: list[Interval] = field(default_factory=list[Interval])
    noted: list[Noted] = field(default_factory=list[Noted])

    def feed(self, event: ev.ProofEvent, time: int, session_id: str, job_id: str | None) -> None:
        envelope = Envelope(
            seq=len(self.fed),
            time_unix_nano=time,
            session_id=session_id,
            origin=PRODUCER,
            event=event,
            raw=b"{}",
            job_id=job_id,
        )
        self.fed.append(envelope)
        changes = self.timelines.feed(envelope)
        for change in changes:
            self.take(change)
        assert envelope.seq in {change.envelope.seq for change in changes} or isinstance(event, HELD)

    def take(self, change: Change) -> None:
        if isinstance(change, Opened):
            self.opened.append(change.interval)
        elif isinstance(change, Closed):
            assert not change.interval.is_open
            self.closed.append(change.interval)
        else:
            self.noted.append(change)


HELD = (ev.LayerActivation, ev.AttentionHeatmap, ev.CircuitCompiled)
NOTED = (
    *HELD,
    ev.PhaseProgress,
    ev.SumcheckRound,
    ev.Log,
    ev.EventsLost,
    ev.UnknownEvent,
    ev.GpuStatus,
    ev.SessionClosed,
)


def run(steps: list[tuple[ev.ProofEvent, int, str, str | None]], start: int) -> Watcher:
    watcher = Watcher()
    time = start
    for event, by, session_id, job_id in steps:
        time = max(0, time + by)
        watcher.feed(event, time, session_id, job_id)
        check_open(watcher)
    for session_id in SESSIONS:
        closing = ev.SessionClosed(outcome="ended", reason=None, refused=0)
        watcher.feed(closing, time, session_id, None)
    return watcher


def check_open(watcher: Watcher) -> None:
    """What holds at any moment."""
    for proof in watcher.timelines.open_proofs:
        progress = proof.progress
        assert progress is None or 0.0 <= progress <= 1.0
        layers = list(proof.open_layers.values())
        assert all(layer.is_open for layer in layers)
        assert proof.layers_superseded == sum(layer.superseded_unix_nano is not None for layer in layers)
        assert proof.layers_opened == proof.layers_closed + len(layers)


def outlives(interval: Interval) -> bool:
    return isinstance(interval, Phase) and interval.after_complete


@settings(max_examples=400)
@given(st.lists(step, max_size=60), start_time)
def test_intervals_close_exactly_once_and_lie_inside_their_proof(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    opened = [id(interval) for interval in watcher.opened]
    assert len(set(opened)) == len(opened)
    assert Counter(opened) == Counter(id(interval) for interval in watcher.closed)
    for interval in watcher.opened:
        assert interval.end_unix_nano is not None
        assert 0 <= interval.start_unix_nano <= interval.end_unix_nano
        proof = interval.proof
        if proof is not None:
            assert proof.end_unix_nano is not None
            assert proof.start_unix_nano <= interval.start_unix_nano
            assert interval.end_unix_nano <= proof.end_unix_nano or outlives(interval)
            assert (interval.session_id, interval.job_id) == (proof.session_id, proof.job_id)
    for position, interval in enumerate(watcher.closed):
        if interval.proof is not None and not outlives(interval):
            assert interval.proof not in watcher.closed[:position]


@settings(max_examples=200)
@given(st.lists(step, max_size=60), start_time)
def test_nothing_is_open_after_the_sessions_have_closed(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    assert watcher.timelines.open_proofs == []
    assert watcher.timelines.sessions == []
    for session_id in SESSIONS:
        session = watcher.timelines.session(session_id)
        assert session.timelines == {}
        assert (session.open_intervals, session.pending.memory_bytes) == (0, 0)


@settings(max_examples=200)
@given(st.lists(step, max_size=60), start_time)
def test_an_interval_contains_its_events(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    for note in watcher.noted:
        interval = note.interval
        if interval is not None and not isinstance(note.envelope.event, ev.EventsLost):
            assert interval.end_unix_nano is not None
            assert note.envelope.time_unix_nano <= interval.end_unix_nano
    for interval in watcher.opened:
        for envelope in (interval.opened, interval.closed):
            assert envelope is None or envelope.time_unix_nano <= (interval.end_unix_nano or 0)


@settings(max_examples=200)
@given(st.lists(step, max_size=60), start_time)
def test_ordinals_are_unique_within_a_session(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    for session_id in SESSIONS:
        mine = [interval for interval in watcher.opened if interval.session_id == session_id]
        assert [interval.ordinal for interval in mine] == list(range(len(mine)))
        proofs = [interval.proof_ordinal for interval in mine if isinstance(interval, Proof)]
        assert proofs == list(range(len(proofs)))
        session = watcher.timelines.session(session_id)
        assert session.proofs == len(proofs)
        aborted = [p for p in mine if p.kind is IntervalKind.PROOF and p.aborted_reason is not None]
        assert session.aborted == len(aborted)


@settings(max_examples=200)
@given(st.lists(step, max_size=60), start_time)
def test_every_event_that_is_no_start_or_end_is_noted_once(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    counts = Counter(note.envelope.seq for note in watcher.noted)
    assert set(counts.values()) <= {1}
    for envelope in watcher.fed:
        if isinstance(envelope.event, NOTED):
            assert counts[envelope.seq] == 1
    for note in watcher.noted:
        if note.interval is not None:
            assert note.interval.session_id == note.envelope.session_id


@settings(max_examples=200)
@given(st.lists(step, max_size=60), start_time)
def test_every_round_is_counted_where_it_is_noted(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    noted = Counter(id(n.interval) for n in watcher.noted if isinstance(n.envelope.event, ev.SumcheckRound))
    layers = [interval for interval in watcher.opened if interval.kind is IntervalKind.LAYER]
    for proof in watcher.opened:
        if isinstance(proof, Proof):
            inside = [layer for layer in layers if layer.proof is proof]
            assert proof.rounds == proof.rounds_unplaced + sum(layer.rounds for layer in inside)
            assert noted[id(proof)] == proof.rounds_unplaced
            assert all(noted[id(layer)] == layer.rounds for layer in inside)


@settings(max_examples=200)
@given(st.lists(step, max_size=60), start_time)
def test_only_what_the_proof_was_working_on_is_aborted_with_it(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    for interval in watcher.opened:
        if interval.aborted_reason is not None and not (isinstance(interval, Phase) and interval.end_seen):
            assert not interval.end_seen
            assert interval.superseded_unix_nano is None
            in_proof = interval.proof is not None and not outlives(interval)
            assert not in_proof or (interval.proof and interval.proof.aborted_reason == interval.aborted_reason)


@settings(max_examples=200)
@given(st.lists(step, max_size=60), start_time)
def test_self_time_is_a_part_of_the_whole_and_every_phase_is_shown_or_summed(steps: Any, start: int) -> None:
    watcher = run(steps, start)

    phases = [interval for interval in watcher.opened if isinstance(interval, Phase)]
    for interval in watcher.opened:
        assert 0 <= (interval.self_ns or 0) <= (interval.duration_ns or 0)
        assert interval.duration_source in {"measured", "reported", "derived", "at_least", "unknown"}
    for phase in phases:
        assert phase.path[-1] is phase
        assert phase.depth == len(phase.path) - 1
        if not phase.is_summed and isinstance(phase.parent, Phase) and phase.parent in watcher.closed:
            closed = [interval for interval in watcher.closed if interval in (phase, phase.parent)]
            assert closed[0] is not phase or not phase.parent.is_summed
    shown = [interval for interval in watcher.opened if not (isinstance(interval, Phase) and interval.is_summed)]
    sums = [interval.summed for interval in shown]
    sums += [watcher.timelines.session(session_id).summed for session_id in SESSIONS]
    counted = sum(found.count for summed in sums for found in summed.values())
    assert counted == sum(phase.is_summed for phase in phases)


a_layer = st.tuples(st.sampled_from(SESSIONS), st.sampled_from(JOBS), st.integers(0, 3))
by_ns = st.sampled_from([0, 1, MS, -MS, 150 * MS, -150 * MS])


@st.composite
def streams(draw: st.DrawFn) -> list[Envelope]:
    """Events of any kind, and among them runs of rounds, some of a layer that begins right before them."""
    told: list[tuple[ev.ProofEvent, str, str | None]] = []
    for _ in range(draw(st.integers(0, 25))):
        session_id, job_id, layer_idx = draw(a_layer)
        if draw(st.booleans()):
            told.append((draw(any_event), session_id, job_id))
            continue
        if draw(st.booleans()):
            told.append((layer_start(layer_idx), session_id, job_id))
        told += [(sumcheck_round(layer_idx), session_id, job_id)] * draw(st.integers(1, 5))
    time = 1_700_000_000_000_000_000
    found: list[Envelope] = []
    for event, session_id, job_id in told:
        time += draw(by_ns)
        found.append(
            Envelope(
                seq=len(found),
                time_unix_nano=time,
                session_id=session_id,
                origin=PRODUCER,
                event=event,
                raw=b"{}",
                job_id=job_id,
            )
        )
    return found


def as_single(changes: Iterable[Change | NotedRounds]) -> Iterator[Change]:
    for change in changes:
        if isinstance(change, NotedRounds):
            yield from (Noted(change.interval, envelope) for envelope in change.envelopes)
        else:
            yield change


def named(value: Any) -> Any:
    """Describe a value without the identity of intervals, of which the two timelines have one each."""
    if isinstance(value, Interval):
        return value.session_id, value.ordinal
    if isinstance(value, dict):
        return [(named(key), named(each)) for key, each in value.items()]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [named(each) for each in cast("list[Any]", value)]
    return repr(value) if type(value).__module__.startswith("proofstream.") and not hasattr(value, "seq") else value


def state_of(interval: Interval) -> dict[str, Any]:
    slots = {slot for kind in type(interval).__mro__ for slot in getattr(kind, "__slots__", ())}
    left_out = {"open_children", "summed", "circuit"}  # told by intervals and counts of their own
    return {slot: named(getattr(interval, slot)) for slot in slots - left_out}


@settings(max_examples=400, deadline=None)
@given(streams(), st.data())
def test_a_batch_gives_what_its_envelopes_give(stream: list[Envelope], data: st.DataObject) -> None:
    one_by_one, in_batches = Timelines(), Timelines()
    at = 0
    while at < len(stream):
        end = data.draw(st.integers(at + 1, len(stream)))
        expected = [change for envelope in stream[at:end] for change in one_by_one.feed(envelope)]
        found = list(as_single(in_batches.feed_batch(tuple(stream[at:end]))))
        assert [(type(c), named(c.interval), c.envelope.seq) for c in found] == [
            (type(c), named(c.interval), c.envelope.seq) for c in expected
        ]
        for mine, theirs in zip(found, expected, strict=True):
            if mine.interval is not None and theirs.interval is not None:
                assert state_of(mine.interval) == state_of(theirs.interval)
        for session_id in SESSIONS:
            session, other = in_batches.session(session_id), one_by_one.session(session_id)
            for count in ("proofs", "aborted", "overlaps", "lost_events", "silent_jobs", "open_intervals"):
                assert getattr(session, count) == getattr(other, count)
            assert list(session.timelines) == list(other.timelines)
            assert session.pending.memory_bytes == other.pending.memory_bytes
        at = end
