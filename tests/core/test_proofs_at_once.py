"""Proofs that run at once: with a job id each, in blocks of Python, and on a wire that names no jobs."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from stories import MS, Teller, layer_end, layer_start, log, proof_complete, proof_start, session_closed

import proofstream as ps
from proofstream import events as ev
from proofstream.envelopes import Envelope
from proofstream.host import Host
from proofstream.intervals import Interval, Opened, Phase, Proof
from proofstream.open_intervals import MAX_SET_ASIDE, MOST_SHOWN_PHASES, NOT_SEEN
from proofstream.scopes import Place, place_in, standing
from proofstream.silence import MAX_OPEN_JOBS
from proofstream.testing import RecordingPlugin
from proofstream.timelines import Timelines


@pytest.fixture
def teller() -> Teller:
    return Teller()


def walk(layers: int) -> list[ev.ProofEvent]:
    return [event for index in reversed(range(layers)) for event in (layer_start(index), layer_end(index))]


class TestWithoutJobIds:
    def test_a_proof_whose_layers_have_ended_waits_for_its_own_end(self, teller: Teller) -> None:
        teller.tell(proof_start(2), *walk(2), proof_start(3), *walk(3))
        assert len(teller.timelines.open_proofs) == 2
        teller.tell(proof_complete(layers=2), log(), proof_complete(layers=3))

        first, second = teller.proofs
        assert [proof.aborted_reason for proof in (first, second)] == [None, None]
        assert [proof.layers_closed for proof in (first, second)] == [2, 3]
        assert first.duration_ns == 12 * MS
        assert second.duration_ns == 9 * MS
        assert not first.end_ambiguous
        assert teller.timelines.session("s").overlaps == 1

    def test_an_end_in_the_middle_of_the_next_walk_belongs_to_the_one_that_waits(self, teller: Teller) -> None:
        teller.tell(proof_start(3), *walk(3), proof_start(3), layer_start(2), proof_complete(layers=3), layer_end(2))
        teller.tell(*walk(2), proof_complete(layers=3))

        first, second = teller.proofs
        assert first.duration_ns == 9 * MS
        assert (second.layers_closed, second.aborted_reason) == (3, None)

    def test_which_of_two_equal_proofs_ended_is_not_claimed_to_be_known(self, teller: Teller) -> None:
        teller.tell(proof_start(2), *walk(2), proof_start(2), *walk(2), *[proof_complete(layers=2)] * 2)

        assert [proof.aborted_reason for proof in teller.proofs] == [None, None]
        assert [proof.duration_source for proof in teller.proofs] == ["unknown", "unknown"]

    def test_a_prover_that_died_in_silence_and_began_again_completes_the_second_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(2), *walk(2), proof_start(2), *walk(2), proof_complete(layers=2), session_closed())

        first, second = teller.proofs
        assert (first.aborted_reason, second.aborted_reason) == (NOT_SEEN, None)
        assert (first.duration_ns, first.duration_source) == (4 * MS, "unknown")

    def test_once_they_were_seen_to_run_at_once_the_earliest_ends_first(self, teller: Teller) -> None:
        teller.tell(proof_start(2), *walk(2), proof_start(2), *walk(2), *[proof_complete(layers=2)] * 2)
        teller.tell(proof_start(2), *walk(2), proof_start(2), *walk(2), proof_complete(layers=2))

        *_, third, fourth = teller.proofs
        assert (third.is_open, fourth.is_open) == (False, True)

    def test_only_a_few_wait(self, teller: Teller) -> None:
        for _ in range(MAX_SET_ASIDE + 2):
            teller.tell(proof_start(1), *walk(1))

        first, *others = teller.proofs
        assert first.aborted_reason == NOT_SEEN
        assert first.end_unix_nano == first.start_unix_nano + 2 * MS
        assert (first.duration_source, first.stages[-1].duration_source) == ("at_least", "at_least")
        assert all(proof.is_open for proof in others)

    def test_the_end_of_one_that_waited_too_long_is_no_proof_more(self, teller: Teller) -> None:
        for _ in range(MAX_SET_ASIDE + 2):
            teller.tell(proof_start(1), *walk(1))
        teller.tell(*[proof_complete(layers=1)] * (MAX_SET_ASIDE + 2))

        assert len(teller.proofs) == teller.timelines.session("s").proofs == MAX_SET_ASIDE + 2
        assert sum(proof.end_seen for proof in teller.proofs) == MAX_SET_ASIDE + 1

    def test_an_end_may_be_that_of_one_that_waited_too_long(self, teller: Teller) -> None:
        for layers in (1, 1, *range(2, MAX_SET_ASIDE + 2)):
            teller.tell(proof_start(layers), *walk(layers))
        teller.tell(proof_complete(layers=1), proof_complete(layers=2))

        assert [proof.duration_source for proof in teller.proofs[1:3]] == ["unknown", "measured"]

    def test_the_end_of_one_that_was_given_up_in_its_walk_opens_no_third_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(3), layer_start(2), proof_start(3), *walk(3))
        teller.tell(proof_complete(layers=3), proof_complete(layers=3))

        first, second = teller.proofs
        assert (first.aborted_reason, second.aborted_reason) == ("another proof started", None)

    def test_losses_count_in_those_that_wait_too(self, teller: Teller) -> None:
        teller.tell(proof_start(1), *walk(1), proof_start(1), ev.EventsLost(where="intake", counts={"LayerEnd": 3}))

        assert [proof.lost_events for proof in teller.proofs] == [3, 3]

    def test_an_abort_ends_the_latest_and_the_end_of_the_session_all(self, teller: Teller) -> None:
        teller.tell(proof_start(1), *walk(1), proof_start(1), ev.ProofAborted(reason="out of memory"))
        assert [proof.aborted_reason for proof in teller.proofs] == [None, "out of memory"]
        teller.tell(session_closed())

        assert [proof.aborted_reason for proof in teller.proofs] == [NOT_SEEN, "out of memory"]
        assert teller.timelines.session("s").aborted == 2


class TestEventsWithoutAJob:
    def test_they_belong_to_the_only_open_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(1), job_id="a")
        teller.tell(layer_start(0), layer_end(0))
        teller.tell(proof_complete(), job_id="a")

        (proof,) = teller.proofs
        assert (proof.layers_closed, proof.job_id) == (1, "a")

    def test_with_several_open_proofs_they_belong_to_none_of_them(self, teller: Teller) -> None:
        teller.tell(proof_start(1), job_id="a")
        teller.tell(proof_start(1), job_id="b")
        said = log()
        teller.tell(said)

        assert teller.home_of(said) is None

    def test_what_may_be_of_any_of_several_proofs_is_no_proof_more(self, teller: Teller) -> None:
        teller.tell(proof_start(1), job_id="a")
        teller.tell(proof_start(1), job_id="b")
        teller.tell(layer_start(0), layer_end(0), proof_complete())
        assert (len(teller.proofs), teller.timelines.session("s").proofs) == (2, 2)

        teller.tell(proof_start(1))
        teller.tell(*walk(1), proof_complete())
        assert [(proof.job_id, proof.layers_closed, proof.is_open) for proof in teller.proofs] == [
            ("a", 0, True),
            ("b", 0, True),
            (None, 1, False),
        ]

    def test_what_waits_for_a_proof_goes_to_the_next_of_any_job(self, teller: Teller) -> None:
        circuit = ev.CircuitCompiled(
            total_layers=1, input_shape=(1, 1), output_shape=(1, 1), nodes=[], has_simd=False, simd_num_blocks=0
        )
        teller.tell(circuit)
        for job in ("a", "b"):
            teller.tell(proof_start(1), job_id=job)
            teller.tell(proof_complete(), job_id=job)

        assert [proof.circuit for proof in teller.proofs] == [circuit, circuit]


class Collecting:
    """Keeps every envelope."""

    name = "collecting"

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    @ps.hookimpl
    def proofstream_consume(self, batch: ps.Batch) -> None:
        self.envelopes += batch


@pytest.fixture
def observed(make_host: Callable[..., Host]) -> Callable[[Callable[[ps.Session], Any]], list[Interval]]:
    """Runs a producer in a session, and returns the intervals that its events show, in their order."""

    def observe(produce: Callable[[ps.Session], Any]) -> list[Interval]:
        plugin = Collecting()
        host = make_host(plugin)
        session = host.new_session(source="test")
        host.announce(session, time_source="envelope")
        produce(session)
        assert session.flush()
        timelines = Timelines()
        changes = [change for envelope in plugin.envelopes for change in timelines.feed(envelope)]
        return [change.interval for change in changes if isinstance(change, Opened)]

    return observe


def prove(session: ps.Session, name: str, pause: Callable[[], None] = lambda: None) -> None:
    with session.proof(num_layers=3, model_name=name) as proof:
        for index in (2, 1, 0):
            with proof.layer(index, kind=ps.LayerKind.MatMul) as layer:
                pause()
                layer.round(0, total_rounds=1)


def assert_whole(intervals: list[Interval], names: set[str]) -> list[Proof]:
    proofs = [interval for interval in intervals if isinstance(interval, Proof)]
    assert {proof.model_name for proof in proofs} == names
    for proof in proofs:
        assert (proof.layers_opened, proof.layers_closed, proof.rounds) == (3, 3, 3)
        assert (proof.aborted_reason, proof.end_seen) == (None, True)
    assert len({proof.job_id for proof in proofs}) == len(proofs)
    layers = [interval for interval in intervals if not isinstance(interval, Proof)]
    assert {layer.layer_kind for layer in layers} == {"MatMul"}
    return proofs


class TestBlocks:
    def test_three_threads(self, observed: Any) -> None:
        barrier = threading.Barrier(3, timeout=30)

        def produce(session: ps.Session) -> None:
            threads = [
                threading.Thread(target=prove, args=(session, name, lambda: void(barrier.wait()))) for name in "abc"
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)

        assert_whole(observed(produce), {"a", "b", "c"})

    def test_gathered_tasks(self, observed: Any) -> None:
        async def prove_slowly(session: ps.Session, name: str) -> None:
            with session.proof(num_layers=3, model_name=name) as proof:
                for index in (2, 1, 0):
                    with proof.layer(index, kind=ps.LayerKind.MatMul) as layer:
                        await asyncio.sleep(0)
                        layer.round(0, total_rounds=1)

        async def gather(session: ps.Session) -> None:
            await asyncio.gather(*(prove_slowly(session, name) for name in "abc"))

        def produce(session: ps.Session) -> None:
            asyncio.run(gather(session))

        proofs = assert_whole(observed(produce), {"a", "b", "c"})
        assert [proof.parent for proof in proofs] == [None] * 3

    def test_one_inside_another_is_its_child(self, observed: Any) -> None:
        def produce(session: ps.Session) -> None:
            with session.proof(num_layers=3, model_name="outer") as proof:
                prove(session, "inner")
                for index in (2, 1, 0):
                    with proof.layer(index, kind=ps.LayerKind.MatMul) as layer:
                        layer.round(0, total_rounds=1)
            prove(session, "next")

        outer, inner, after = assert_whole(observed(produce), {"outer", "inner", "next"})
        assert [proof.parent for proof in (outer, inner, after)] == [None, outer, None]

    def test_a_session_in_another_sessions_proof_has_no_parent_there(self, make_host: Callable[..., Host]) -> None:
        plugin = Collecting()
        host = make_host(plugin)
        one, other = host.new_session(source="one"), host.new_session(source="other")
        with one.proof(num_layers=1), other.proof(num_layers=1):
            pass
        assert one.flush()

        starts = [e for e in plugin.envelopes if isinstance(e.event, ev.ProofStart)]
        assert [(e.job_id, e.parent_job_id) for e in starts] == [("proof-1", None), ("proof-1", None)]

    def test_an_exception_aborts_its_own_proof_alone(self, observed: Any) -> None:
        def produce(session: ps.Session) -> None:
            with (
                session.proof(num_layers=1, model_name="outer"),
                pytest.raises(ValueError, match="no"),
                session.proof(num_layers=1, model_name="inner"),
            ):
                raise ValueError("no")

        outer, inner = observed(produce)
        assert (outer.aborted_reason, inner.aborted_reason) == (None, "ValueError: no")

    def test_so_many_are_open_at_once_that_others_jobs_would_be_given_up(self) -> None:
        plugin = RecordingPlugin()
        with ps.open_session(plugins=[plugin]) as session, ExitStack() as blocks:
            for _ in range(MAX_OPEN_JOBS + 10):
                blocks.enter_context(session.proof(num_layers=0))

        timelines = Timelines()
        for envelope in plugin.envelopes:
            timelines.feed(envelope)
        observed = timelines.session(session.session_id)
        assert (observed.proofs, observed.aborted, observed.silent_jobs) == (MAX_OPEN_JOBS + 10, 0, 0)

    def test_what_is_emitted_beside_the_blocks_belongs_to_the_only_proof(self, observed: Any) -> None:
        def produce(session: ps.Session) -> None:
            with session.proof(num_layers=1):
                session.emit(layer_start(0))
                session.emit(layer_end(0))

        proof, layer = observed(produce)
        assert layer.proof is proof

    def test_a_job_id_may_be_given_and_events_be_sent_with_it(self, observed: Any) -> None:
        def produce(session: ps.Session) -> None:
            with session.proof(num_layers=1, job_id="mine") as one, session.proof(num_layers=1) as two:
                one.emit(layer_start(0))
                two.emit(layer_start(0))

        one, two, *layers = observed(produce)
        assert (one.job_id, [layer.proof for layer in layers]) == ("mine", [one, two])


class Emitter:
    """Sends events nowhere."""

    def __call__(self, event: ev.ProofEvent) -> None:
        """Ignore the event."""


class TestBlocksThatEndInAnyOrder:
    def test_blocks_that_were_left_are_around_nothing(self, observed: Any) -> None:
        def produce(session: ps.Session) -> None:
            one = session.proof(num_layers=0, model_name="one")
            two = session.proof(num_layers=0, model_name="two")
            one.__enter__()
            two.__enter__()
            one.__exit__(None, None, None)
            with session.phase("in two"):
                pass
            prove(session, "three")
            two.__exit__(None, None, None)
            with session.phase("in none"):
                pass

        by_name = {getattr(i, "name", getattr(i, "model_name", None)): i for i in observed(produce)}
        assert by_name["in two"].proof is by_name["two"]
        assert by_name["three"].parent is by_name["two"]
        assert by_name["in none"].proof is None

    def test_blocks_of_generators(self, observed: Any) -> None:
        def stepwise(session: ps.Session, name: str) -> Generator[None]:
            with session.proof(num_layers=0, model_name=name):
                yield

        def produce(session: ps.Session) -> None:
            generators = [stepwise(session, name) for name in "ab"]
            for generator in generators:
                next(generator)
            for generator in generators:
                next(generator, None)
            with session.phase("after"):
                pass
            prove(session, "next")

        intervals = observed(produce)
        after = next(interval for interval in intervals if isinstance(interval, Phase))
        following = next(i for i in intervals if isinstance(i, Proof) and i.model_name == "next")
        assert (after.proof, following.parent) == (None, None)

    def test_a_context_keeps_no_blocks_that_were_left(self) -> None:
        emitters: list[weakref.ref[Emitter]] = []
        window: deque[AbstractContextManager[None]] = deque()
        for number in range(100):  # a window that slides over them: none is left in order
            emitter = Emitter()
            emitters.append(weakref.ref(emitter))
            window.append(standing(Place("s", f"job-{number}", True, None, emitter)))
            del emitter
            window[-1].__enter__()
            if len(window) > 2:
                window.popleft().__exit__(None, None, None)

        place = place_in("s")
        assert place is not None
        assert place.job_id == "job-99"
        gc.collect()
        assert sum(emitter() is not None for emitter in emitters) == len(window)
        for block in window:
            block.__exit__(None, None, None)
        assert place_in("s") is None

    def test_a_block_of_another_session_hides_nothing(self, make_host: Callable[..., Host]) -> None:
        plugin = Collecting()
        host = make_host(plugin)
        one, other = host.new_session(source="one"), host.new_session(source="other")
        with one.proof(num_layers=0) as proof, other.proof(num_layers=0), one.phase("commit"):
            pass
        assert one.flush()

        (start,) = [e for e in plugin.envelopes if isinstance(e.event, ev.PhaseStart)]
        assert (start.session_id, start.job_id) == (one.session_id, proof.job_id)


class TestPhaseBlocks:
    def test_they_nest_and_say_where_they_are(self, observed: Any) -> None:
        def produce(session: ps.Session) -> None:
            with session.phase("forward pass", nodes=169):
                pass
            with session.proof(num_layers=1) as proof:
                with proof.layer(0, kind=ps.LayerKind.MatMul) as layer, layer.phase("reduce"):
                    pass
                with proof.phase("commit") as commit, commit.phase("hash"), session.phase("leaf"):
                    commit.progress(30, 96)

        by_name = {interval.name: interval for interval in observed(produce) if isinstance(interval, Phase)}
        forward, reduce, commit = by_name["forward pass"], by_name["reduce"], by_name["commit"]
        assert forward.proof is None
        assert isinstance(forward.start_event, ev.PhaseStart)
        assert dict(forward.start_event.attributes) == {"nodes": 169}
        assert reduce.layer is not None
        assert isinstance(commit.parent, Proof)
        assert (commit.done, commit.total) == (30, 96)
        assert [phase.name for phase in by_name["leaf"].path] == ["commit", "hash", "leaf"]
        for phase in by_name.values():
            assert isinstance(phase.end_event, ev.PhaseEnd)
            assert phase.end_event.duration_ns is not None
            assert abs(phase.end_event.duration_ns - (phase.duration_ns or 0)) < 10**9

    def test_an_exception_fails_it_and_propagates(self, observed: Any) -> None:
        def produce(session: ps.Session) -> None:
            with pytest.raises(KeyError), session.phase("commit"):
                raise KeyError("weights")

        (phase,) = observed(produce)
        assert phase.aborted_reason == "KeyError: 'weights'"

    def test_phases_of_two_threads_do_not_mix(self, observed: Any) -> None:
        barrier = threading.Barrier(2, timeout=30)

        def work(session: ps.Session, name: str) -> None:
            with session.phase(name) as phase:
                barrier.wait()
                with phase.phase(f"in {name}"):
                    barrier.wait()
                barrier.wait()

        def produce(session: ps.Session) -> None:
            threads = [threading.Thread(target=work, args=(session, name)) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)

        phases = {interval.name: interval for interval in observed(produce)}
        assert [phases[f"in {name}"].parent for name in "ab"] == [phases["a"], phases["b"]]

    def test_a_task_that_goes_on_after_the_block_in_which_it_began_is_no_longer_in_it(self, observed: Any) -> None:
        async def prove_and_tidy(session: ps.Session) -> None:
            ended = asyncio.Event()

            async def tidy() -> None:
                await ended.wait()
                with session.phase("tidy"):
                    pass

            with session.proof(num_layers=0):
                task = asyncio.create_task(tidy())
            ended.set()
            await task

        def produce(session: ps.Session) -> None:
            asyncio.run(prove_and_tidy(session))

        proof, tidy = observed(produce)
        assert (tidy.proof, tidy.job_id) == (None, "phase-2")
        assert proof.end_seen

    def test_phases_of_one_proof_in_two_threads_do_not_mix(self, observed: Any) -> None:
        barrier = threading.Barrier(2, timeout=30)

        def work(open_phase: Callable[[str], AbstractContextManager[ps.PhaseScope]], name: str) -> None:
            with open_phase(name):
                barrier.wait()
                barrier.wait()

        def in_threads(open_phase: Callable[[str], AbstractContextManager[ps.PhaseScope]], *names: str) -> None:
            threads = [threading.Thread(target=work, args=(open_phase, name)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)

        def produce(session: ps.Session) -> None:
            with session.proof(num_layers=1) as proof:
                in_threads(proof.phase, "a", "b")
                with proof.phase("walk"), proof.layer(0, kind=ps.LayerKind.MatMul) as layer:
                    in_threads(layer.phase, "c", "d")

        intervals = observed(produce)
        proof, layer = [interval for interval in intervals if not isinstance(interval, Phase)]
        phases = {interval.name: interval for interval in intervals if isinstance(interval, Phase)}
        assert layer.parent is phases["walk"]
        assert [phases[name].parent for name in "abcd"] == [proof, proof, layer, layer]

    def test_more_than_a_proof_shows_are_crowded_until_the_next_proof(self, make_host: Callable[..., Host]) -> None:
        plugin = Collecting()
        session = make_host(plugin).new_session(source="test")
        with session.proof(num_layers=0) as proof:
            for _ in range(MOST_SHOWN_PHASES + 1):
                with proof.phase("fold"):
                    pass
        with session.proof(num_layers=0) as proof, proof.phase("fold"):
            pass
        assert session.flush()

        crowded = [envelope for envelope in plugin.envelopes if envelope.crowded]
        assert [envelope.kind for envelope in crowded] == ["PhaseStart", "PhaseEnd"]
        assert all(envelope.is_sheddable for envelope in crowded)
        assert not any(e.is_sheddable for e in plugin.envelopes if not e.crowded)

    def test_without_a_session_it_costs_nothing_and_works(self) -> None:
        with ps.current_session().phase("commit") as phase:
            phase.progress(1)


def void(_: object) -> None:
    """Make a statement of an expression."""
