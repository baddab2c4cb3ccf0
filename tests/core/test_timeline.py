"""The timeline, rule by rule, and against every stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from stories import (
    BEGIN,
    MS,
    Teller,
    activation,
    layer_end,
    layer_start,
    log,
    proof_complete,
    proof_start,
    session_closed,
    session_opened,
    sumcheck_round,
)

from proofstream import events as ev
from proofstream.envelopes import HOST, PRODUCER, Envelope, memory_of
from proofstream.intervals import Closed, Interval, IntervalKind, Noted, NotedRounds, Opened, Proof
from proofstream.observed import MAX_LOST_EVENTS, MAX_PENDING_BYTES, MAX_WAITING_JOBS
from proofstream.open_intervals import MAX_OPEN_INTERVALS
from proofstream.silence import MAX_OPEN_JOBS, MAX_OWN_OPEN_JOBS, SILENT_AFTER_S, TOO_LONG, TOO_MANY, TOO_MANY_OWN
from proofstream.testing import envelopes, read_stream
from proofstream.timeline import MAX_PENDING
from proofstream.timelines import MAX_ENDED, Timelines


@pytest.fixture
def teller() -> Teller:
    return Teller()


class TestProofs:
    def test_a_whole_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(2), layer_start(1), layer_end(1), layer_start(0), sumcheck_round(0), layer_end(0))
        assert [proof.progress for proof in teller.timelines.open_proofs] == [1.0]
        teller.tell(proof_complete())

        (proof,) = teller.proofs
        assert (proof.start_unix_nano, proof.duration_ns) == (BEGIN + MS, 6 * MS)
        assert proof.start_seen
        assert proof.end_seen
        assert proof.aborted_reason is None
        assert (proof.layers_opened, proof.layers_closed, proof.rounds) == (2, 2, 1)
        assert teller.closed[-1] is proof

    def test_the_reported_duration_stays_with_the_event_and_is_not_the_measured_one(self, teller: Teller) -> None:
        teller.tell(proof_start(), proof_complete(duration_ms=0))

        (proof,) = teller.proofs
        assert proof.duration_ns == MS

    def test_a_second_start_aborts_the_open_proof_and_its_open_layers(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3), layer_start(2), sumcheck_round(2), proof_start())

        first, second = teller.proofs
        assert first.aborted_reason == "another proof started"
        assert first.last_layer is not None
        assert first.last_layer.key == 2
        assert first.end_unix_nano == second.start_unix_nano == teller.now
        assert teller.layer(2).aborted_reason == "another proof started"
        assert not teller.layer(2).end_seen
        assert second.is_open
        assert teller.timelines.session("s").aborted == 1

    def test_a_superseded_layer_keeps_its_own_end_when_the_proof_aborts(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3), layer_start(2))
        superseded_at = teller.now
        teller.tell(log(), ev.ProofAborted(reason="CUDA out of memory"))

        (proof,) = teller.proofs
        assert proof.aborted_reason == "CUDA out of memory"
        assert teller.layer(3).end_unix_nano == superseded_at
        assert teller.layer(3).aborted_reason is None
        assert teller.layer(2).aborted_reason == "CUDA out of memory"
        assert (proof.layers_opened, proof.layers_closed) == (2, 1)

    def test_the_end_of_the_session_says_why(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(0), session_closed("lost", "the connection broke off"))

        (proof,) = teller.proofs
        assert proof.aborted_reason == "the session was lost: the connection broke off"
        assert proof.end_unix_nano == teller.now
        assert [interval.kind for interval in teller.closed] == [IntervalKind.LAYER, IntervalKind.PROOF]

    def test_joining_in_the_middle_opens_an_implicit_proof(self, teller: Teller) -> None:
        teller.tell(sumcheck_round(5), layer_end(5, duration_ms=3), layer_start(4), layer_end(4), proof_complete())

        (proof,) = teller.proofs
        assert not proof.start_seen
        assert proof.end_seen
        assert proof.num_layers is None
        assert proof.progress is None
        assert teller.layer(5).start_unix_nano == proof.start_unix_nano == BEGIN + MS

    def test_a_lone_complete_believes_the_reported_duration(self, teller: Teller) -> None:
        teller.tell(proof_complete(duration_ms=250))

        (proof,) = teller.proofs
        assert proof.duration_ns == 250 * MS
        assert not proof.start_seen

    def test_a_reported_duration_beyond_belief_says_nothing(self, teller: Teller) -> None:
        teller.tell(proof_complete(duration_ms=2**64 - 1))

        (proof,) = teller.proofs
        assert proof.duration_ns == 0

    def test_times_that_step_back_never_end_before_they_began(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(0))
        teller.tell(layer_end(0), proof_complete(), step=-2 * MS)

        assert [interval.duration_ns for interval in teller.closed] == [0, MS]

    def test_a_proof_answers_for_its_events(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(2), layer_start(1), layer_end(1), proof_complete())
        (proof,) = teller.proofs

        assert (proof.model_name, proof.backend, proof.layers_left_behind) == (None, "cpu-gkr", 2)
        assert isinstance(proof.start_event, ev.ProofStart)
        assert isinstance(proof.end_event, ev.ProofComplete)
        assert (teller.layer(2).end_event, isinstance(teller.layer(1).end_event, ev.LayerEnd)) == (None, True)

    def test_a_proof_whose_start_was_not_seen_names_nothing(self, teller: Teller) -> None:
        teller.tell(layer_start(1))
        (proof,) = teller.proofs

        assert (proof.start_event, proof.model_name, proof.backend, proof.layers_left_behind) == (None, None, None, 0)


class TestLayers:
    def test_a_layer_without_end_ends_where_the_next_one_began(self, teller: Teller) -> None:
        teller.tell(proof_start(2), layer_start(1))
        teller.tell(layer_start(0))
        next_began = teller.now
        (proof,) = teller.timelines.open_proofs
        assert proof.active_layers == [teller.layer(0)]
        assert proof.progress == 0.5
        teller.tell(layer_end(0), proof_complete())

        endless = teller.layer(1)
        assert endless.end_unix_nano == next_began
        assert not endless.end_seen
        assert endless.aborted_reason is None

    def test_a_late_end_of_a_superseded_layer_is_its_end(self, teller: Teller) -> None:
        teller.tell(proof_start(2), layer_start(1), layer_start(0), layer_end(1))

        assert teller.layer(1).end_unix_nano == teller.now
        assert teller.layer(1).end_seen
        assert teller.layer(0).is_open
        assert [proof.progress for proof in teller.timelines.open_proofs] == [0.5]

    def test_a_superseded_layer_lives_until_its_last_round(self, teller: Teller) -> None:
        teller.tell(proof_start(2), layer_start(1), layer_start(0), sumcheck_round(1))
        last_round = teller.now
        teller.tell(layer_end(0), proof_complete())

        assert teller.layer(1).end_unix_nano == last_round

    def test_layers_on_other_devices_do_not_supersede_one_another(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3, gpu=0), layer_start(2, gpu=1), layer_start(1, gpu=0))

        (proof,) = teller.timelines.open_proofs
        assert {layer.key for layer in proof.active_layers} == {1, 2}
        assert teller.layer(3).superseded_unix_nano == teller.now
        assert teller.layer(2).superseded_unix_nano is None

    def test_a_start_of_an_open_index_closes_the_old_layer_there(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(1))
        first = teller.layer(1)
        teller.tell(layer_start(1))

        assert first.end_unix_nano == teller.now
        assert not first.end_seen
        assert teller.layer(1) is not first
        assert teller.layer(1).is_open

    def test_an_end_without_start_begins_no_earlier_than_its_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(), log(), log(), log())
        teller.tell(layer_end(1, duration_ms=2), layer_end(0, duration_ms=10**9))

        (proof,) = teller.proofs
        assert teller.layer(1).duration_ns == 2 * MS
        assert teller.layer(0).start_unix_nano == proof.start_unix_nano
        assert not teller.layer(0).start_seen
        assert teller.layer(0).layer_kind == "Unknown"

    def test_an_end_without_start_does_not_hide_the_layer_that_is_open(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(2), layer_end(3), ev.ProofAborted(reason="killed"))

        (proof,) = teller.proofs
        assert proof.last_layer is teller.layer(2)

    def test_a_round_of_no_open_layer_counts_on_the_proof(self, teller: Teller) -> None:
        stray = sumcheck_round(9)
        teller.tell(proof_start(), layer_start(1), sumcheck_round(1), stray)

        (proof,) = teller.proofs
        assert (proof.rounds, proof.rounds_unplaced, teller.layer(1).rounds) == (2, 1, 1)
        assert teller.home_of(stray) is proof


class TestWaiting:
    def test_activations_belong_to_the_proof_that_follows(self, teller: Teller) -> None:
        early, between = activation(), activation()
        teller.tell(early, proof_start(), proof_complete(), between, proof_start())

        first, second = teller.proofs
        assert teller.home_of(early) is first
        assert teller.home_of(between) is second

    def test_activations_inside_a_proof_that_goes_on_are_its_own(self, teller: Teller) -> None:
        inside = activation()
        teller.tell(proof_start(), layer_start(1), inside, layer_end(1))

        assert teller.home_of(inside) is teller.proofs[0]

    def test_activations_after_a_proof_that_died_belong_to_the_next(self, teller: Teller) -> None:
        after = activation()
        teller.tell(proof_start(), layer_start(1), after, proof_start())

        assert teller.home_of(after) is teller.proofs[1]

    def test_activations_that_no_proof_follows_stand_alone(self, teller: Teller) -> None:
        alone = activation()
        teller.tell(alone, session_closed())

        assert teller.home_of(alone) is None
        assert teller.proofs == []

    def test_a_circuit_is_known_to_its_proof(self, teller: Teller) -> None:
        circuit = ev.CircuitCompiled(
            total_layers=7, input_shape=(1, 1), output_shape=(1, 1), nodes=[], has_simd=False, simd_num_blocks=0
        )
        teller.tell(circuit, layer_start(6))

        (proof,) = teller.proofs
        assert proof.circuit is circuit
        assert proof.num_layers == 7

    def test_a_circuit_that_is_compiled_once_is_known_to_every_proof_of_its_size(self, teller: Teller) -> None:
        circuit = ev.CircuitCompiled(
            total_layers=4, input_shape=(1, 1), output_shape=(1, 1), nodes=[], has_simd=False, simd_num_blocks=0
        )
        teller.tell(circuit, proof_start(4), proof_complete(), proof_start(4), proof_complete(), proof_start(5))

        assert [proof.circuit for proof in teller.proofs] == [circuit, circuit, None]

    def test_a_million_waiting_activations_stay_bounded(self) -> None:
        timelines = Timelines()
        event = activation()
        noted = 0
        for seq in range(1_000_000):
            noted += len(timelines.feed(_at(seq, event)))

        assert noted == 1_000_000 - MAX_PENDING
        assert len(timelines.feed(_at(1_000_000, session_closed()))) == MAX_PENDING + 1


def _at(seq: int, event: ev.ProofEvent) -> Envelope:
    return Envelope(
        seq=seq, time_unix_nano=BEGIN + seq, session_id="s", origin=PRODUCER, event=event, raw=b"{}", job_id=None
    )


class TestParts:
    def test_openings_pair_last_in_first_out_by_node(self, teller: Teller) -> None:
        def start(node: int) -> ev.WeightOpeningStart:
            return ev.WeightOpeningStart(weight_node_id=node, eval_point_len=1)

        def end(node: int) -> ev.WeightOpeningEnd:
            return ev.WeightOpeningEnd(weight_node_id=node, duration_ms=1, commitment_hex="00")

        teller.tell(proof_start(), start(7), start(8), start(7), end(7), end(8), end(7))

        assert [(i.key, (i.duration_ns or 0) // MS) for i in teller.closed] == [(7, 1), (8, 3), (7, 5)]
        assert all(interval.proof is teller.proofs[0] for interval in teller.closed)

    def test_parts_close_with_their_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(), ev.AggregatedBindingStart(num_claims=1, num_matrices=1), proof_complete())

        binding, proof = teller.closed
        assert binding.kind is IntervalKind.WEIGHT_BINDING
        assert not binding.end_seen
        assert binding.aborted_reason is None
        assert binding.end_unix_nano == proof.end_unix_nano

    def test_a_stark_proof_outside_a_proof_stands_on_its_own(self, teller: Teller) -> None:
        start = ev.StarkProofStart(num_activation_layers=1, num_add_layers=1, num_layernorm_layers=1)
        teller.tell(start, proof_start(), ev.StarkProofEnd(duration_ms=1))

        (stark,) = teller.closed
        assert stark.proof is None
        assert (stark.kind, stark.duration_ns) == (IntervalKind.STARK_PROOF, 2 * MS)
        assert teller.proofs[0].is_open

    def test_an_end_without_start_believes_the_reported_duration(self, teller: Teller) -> None:
        teller.tell(ev.StarkProofEnd(duration_ms=320))

        (stark,) = teller.closed
        assert not stark.start_seen
        assert stark.duration_ns == 320 * MS

    def test_many_parts_without_end_close_in_reasonable_time(self, teller: Teller) -> None:
        start = ev.StarkProofStart(num_activation_layers=1, num_add_layers=1, num_layernorm_layers=1)
        teller.tell(*[start] * 50_000, session_closed())

        assert len(teller.closed) == 50_000
        assert teller.closed[0].ordinal == 49_999


class TestLosses:
    def test_a_lagged_line_concerns_every_job_of_its_session(self, teller: Teller) -> None:
        teller.tell(proof_start(), job_id="a")
        teller.tell(proof_start(), job_id="b")
        teller.tell(proof_start(), session_id="other")
        teller.tell(log("lagged 17 events", ev.LogLevel.Warn), job_id="a")

        assert [proof.lost_events for proof in teller.proofs] == [17, 17, 0]
        assert teller.timelines.session("s").lost_events == 17
        assert teller.timelines.session("other").lost_events == 0

    @pytest.mark.parametrize(
        "message", ["lagged  events", "lagged 17 events!", "lagged -1 events", "lagged 9999999999999999999 events"]
    )
    def test_only_the_exact_line_counts(self, teller: Teller, message: str) -> None:
        teller.tell(log(message, ev.LogLevel.Warn))

        assert teller.timelines.session("s").lost_events == 0

    def test_a_loss_that_names_no_job_concerns_all_proofs(self, teller: Teller) -> None:
        teller.tell(proof_start(), job_id="a")
        teller.tell(proof_start(), job_id="b")
        teller.tell(ev.EventsLost(where="intake", counts={"SumcheckRound": 5, "Log": 2}))

        assert [proof.lost_events for proof in teller.proofs] == [7, 7]
        assert teller.timelines.session("s").lost_events == 7

    def test_a_loss_that_names_its_job_concerns_that_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(), job_id="a")
        teller.tell(proof_start(), job_id="b")
        teller.tell(ev.EventsLost(where="lane:otel", counts={"Log": 2}), job_id="b")

        assert [proof.lost_events for proof in teller.proofs] == [0, 2]

    def test_a_loss_is_noted_on_the_only_open_proof(self, teller: Teller) -> None:
        lost = ev.EventsLost(where="intake", counts={"Log": 2})
        teller.tell(proof_start(), job_id="a")
        teller.tell(lost)

        assert teller.home_of(lost) is teller.proofs[0]


class TestJobs:
    def test_jobs_do_not_disturb_one_another(self, teller: Teller) -> None:
        for event in (proof_start(), layer_start(1)):
            teller.tell(event, job_id="a")
            teller.tell(event, job_id="b")
        teller.tell(proof_complete(), job_id="a")

        first, second = teller.proofs
        assert not first.is_open
        assert second.is_open
        assert [interval.job_id for interval in teller.closed] == ["a", "a"]

    def test_an_abort_that_names_no_job_ends_the_only_open_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(0), job_id="a")
        teller.tell(ev.ProofAborted(reason="the job failed"))

        assert teller.proofs[0].aborted_reason == "the job failed"

    def test_an_abort_that_could_mean_several_proofs_ends_none(self, teller: Teller) -> None:
        abort = ev.ProofAborted(reason="a job failed")
        teller.tell(proof_start(), job_id="a")
        teller.tell(proof_start(), job_id="b")
        teller.tell(abort)

        assert len(teller.timelines.open_proofs) == 2
        assert teller.home_of(abort) is None

    def test_finished_jobs_are_let_go(self, teller: Teller) -> None:
        for job in range(100):
            teller.tell(proof_start(), log(), proof_complete(), log(), job_id=str(job))

        assert teller.timelines.session("s").timelines == {}
        assert [proof.proof_ordinal for proof in teller.proofs] == list(range(100))


def raw_of(size: int) -> bytes:
    """Return the JSON of an event that takes so much memory."""
    return b"x" * ((size - memory_of(0)) // 4)


class TestSilentJobs:
    def test_of_jobs_that_die_only_the_latest_stay_open(self, teller: Teller) -> None:
        for job in range(MAX_OPEN_JOBS + 100):
            teller.tell(proof_start(), layer_start(3), job_id=str(job))

        session = teller.timelines.session("s")
        assert (len(session.open_proofs), len(session.timelines)) == (MAX_OPEN_JOBS, MAX_OPEN_JOBS)
        assert [proof.job_id for proof in teller.proofs if not proof.is_open] == [str(job) for job in range(100)]
        assert (session.silent_jobs, session.aborted) == (100, 100)
        assert {interval.aborted_reason for interval in teller.closed} == {TOO_MANY}

    def test_of_the_programs_own_jobs_none_is_given_up_for_its_silence(self, teller: Teller) -> None:
        opened = ev.SessionOpened(source="x", time_source="envelope", traceparent=None, resource={}, in_process=True)
        teller.tell(opened)
        teller.tell(proof_start(), job_id="silent")
        for _ in range(SILENT_AFTER_S // 30 + 2):
            teller.tell(proof_start(), proof_complete(), job_id="busy", step=30_000 * MS)
        for job in range(MAX_OWN_OPEN_JOBS - 1):
            teller.tell(proof_start(), job_id=str(job))
        assert teller.timelines.session("s").silent_jobs == 0

        teller.tell(proof_complete(), job_id="silent")
        assert (teller.proofs[0].end_seen, teller.proofs[0].aborted_reason) == (True, None)
        teller.tell(proof_start(), job_id="one more")
        teller.tell(proof_start(), job_id="too many")
        assert [proof.aborted_reason for proof in teller.proofs if proof.job_id == "0"] == [TOO_MANY_OWN]

    def test_a_job_that_is_given_up_ends_where_it_was_last_heard(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3), sumcheck_round(3), job_id="dead")
        last_heard = teller.now
        minutes = SILENT_AFTER_S // 60 + 1
        for _ in range(minutes):
            teller.tell(proof_start(), proof_complete(), job_id="busy", step=30_000 * MS)

        dead = teller.proofs[0]
        assert (dead.aborted_reason, dead.end_seen) == (TOO_LONG, False)
        assert dead.end_unix_nano == teller.layer(3).end_unix_nano == last_heard
        assert dead.duration_source == teller.layer(3).duration_source == "at_least"
        assert [stage.duration_source for stage in dead.stages] == ["measured", "at_least"]
        assert [proof.aborted_reason for proof in teller.proofs[1:]] == [None] * minutes
        assert teller.timelines.session("s").silent_jobs == 1

    def test_what_names_no_job_is_never_given_up(self, teller: Teller) -> None:
        stark = ev.StarkProofStart(num_activation_layers=1, num_add_layers=1, num_layernorm_layers=1)
        teller.tell(stark, proof_start(), layer_start(3))
        for job in range(2 * MAX_OPEN_JOBS):
            teller.tell(proof_start(), job_id=str(job), step=60_000 * MS)

        assert teller.proofs[0].is_open
        assert teller.layer(3).is_open
        assert len(teller.timelines.open_proofs) <= MAX_OPEN_JOBS + 1

    def test_a_job_that_speaks_again_goes_on_as_a_new_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3), job_id="back")
        for job in range(MAX_OPEN_JOBS):
            teller.tell(proof_start(), job_id=str(job))
        teller.tell(layer_end(3), proof_complete(), job_id="back")

        given_up, *_, again = teller.proofs
        assert (given_up.aborted_reason, given_up.job_id) == (TOO_MANY, "back")
        assert (again.start_seen, again.end_seen, again.aborted_reason, again.job_id) == (False, True, None, "back")
        assert again.proof_ordinal == MAX_OPEN_JOBS + 1
        ordinals = [change.interval.ordinal for change in teller.changes if isinstance(change, Opened)]
        assert ordinals == list(range(len(ordinals)))

    def test_plugins_that_skip_bulk_number_the_proofs_alike(self) -> None:
        def numbered(*, with_bulk: bool) -> list[tuple[int, str | None, str | None]]:
            teller = Teller()
            for number in range(3 * MAX_OPEN_JOBS):
                # Every third job is heard again, by its bulk alone, just before it would be given up.
                teller.tell(proof_start(), layer_start(3), job_id=str(number))
                if with_bulk:
                    teller.tell(activation(), job_id=f"idle-{number}")
                    teller.tell(sumcheck_round(3), activation(), log(), job_id=str(max(0, number - MAX_OPEN_JOBS + 2)))
                teller.now = BEGIN + number * 1000 * MS
            teller.tell(session_closed())
            return [(proof.proof_ordinal, proof.job_id, proof.aborted_reason) for proof in teller.proofs]

        assert numbered(with_bulk=True) == numbered(with_bulk=False)

    def test_parts_outside_a_proof_are_given_up_too(self, teller: Teller) -> None:
        stark = ev.StarkProofStart(num_activation_layers=1, num_add_layers=1, num_layernorm_layers=1)
        for job in range(MAX_OPEN_JOBS + 1):
            teller.tell(stark, job_id=str(job))

        (ended,) = teller.closed
        assert (ended.job_id, ended.aborted_reason, ended.duration_ns) == ("0", TOO_MANY, 0)

    def test_an_abort_that_names_no_job_leaves_nothing_of_the_job_behind(self, teller: Teller) -> None:
        teller.tell(proof_start(), job_id="a")
        teller.tell(ev.ProofAborted(reason="the job failed"))
        assert not teller.timelines.session("s").timelines
        for job in range(MAX_OPEN_JOBS):
            teller.tell(proof_start(), job_id=str(job))

        assert teller.timelines.session("s").silent_jobs == 0

    def test_jobs_that_only_wait_are_bounded(self, teller: Teller) -> None:
        first = activation()
        teller.tell(first, job_id="first")
        for job in range(MAX_WAITING_JOBS):
            teller.tell(activation(), job_id=str(job))

        session = teller.timelines.session("s")
        assert len(session.timelines) == MAX_WAITING_JOBS
        assert teller.home_of(first) is None
        assert (session.silent_jobs, session.proofs) == (0, 0)

    def test_bytes_that_wait_are_bounded_and_the_longest_waiting_job_makes_room(self, teller: Teller) -> None:
        first, second, third = activation(), activation(), activation()
        teller.tell(first, job_id="a", raw=raw_of(MAX_PENDING_BYTES // 2))
        teller.tell(second, job_id="b", raw=raw_of(MAX_PENDING_BYTES // 2))
        assert teller.changes == []
        teller.tell(third, job_id="b", raw=b"x")
        assert teller.home_of(first) is None
        teller.tell(proof_start(), job_id="b")

        assert teller.home_of(second) is teller.home_of(third) is teller.proofs[0]
        assert teller.timelines.session("s").pending.memory_bytes == 0

    def test_the_memory_of_all_sessions_is_bounded_together(self, teller: Teller) -> None:
        late = activation()
        teller.tell(activation(), raw=raw_of(MAX_PENDING_BYTES))
        teller.tell(late, session_id="other")
        assert teller.home_of(late) is None
        teller.tell(session_closed())
        again = activation()
        teller.tell(again, proof_start(), session_id="other")

        assert teller.home_of(again) is teller.proofs[0]

    def test_one_job_alone_cannot_make_room_for_itself(self, teller: Teller) -> None:
        fits, too_many = activation(), activation()
        teller.tell(fits, job_id="a", raw=raw_of(MAX_PENDING_BYTES))
        teller.tell(too_many, job_id="a", raw=b"x")
        assert teller.home_of(too_many) is None
        teller.tell(proof_start(), job_id="a")

        assert teller.home_of(fits) is teller.proofs[0]


class TestBounds:
    @pytest.mark.parametrize("gpus", [None, 10**9])
    def test_layers_without_end_are_bounded(self, teller: Teller, gpus: int | None) -> None:
        teller.tell(proof_start())
        for index in range(MAX_OPEN_INTERVALS + 10):
            teller.tell(layer_start(index, gpu=None if gpus is None else index))

        (proof,) = teller.proofs
        assert len(proof.open_layers) <= MAX_OPEN_INTERVALS // 2 + 10
        assert len(proof.walking) <= len(proof.open_layers)
        assert [interval.key for interval in teller.closed] == list(range(MAX_OPEN_INTERVALS // 2))
        assert not any(interval.end_seen for interval in teller.closed)
        teller.tell(proof_complete())
        assert teller.timelines.session("s").open_intervals == 0

    def test_parts_without_end_are_bounded(self, teller: Teller) -> None:
        teller.tell(proof_start())
        for node in range(MAX_OPEN_INTERVALS + 10):
            teller.tell(ev.WeightOpeningStart(weight_node_id=node % 7, eval_point_len=1))

        assert [interval.ordinal for interval in teller.closed] == list(range(1, MAX_OPEN_INTERVALS // 2 + 1))
        teller.tell(ev.WeightOpeningEnd(weight_node_id=3, duration_ms=0, commitment_hex=""), proof_complete())
        assert len(teller.closed) == MAX_OPEN_INTERVALS + 11

    def test_a_layer_that_has_ended_is_on_no_device(self, teller: Teller) -> None:
        for index in range(100):
            teller.tell(layer_start(index, gpu=index), layer_end(index))

        assert teller.proofs[0].walking == {}
        assert teller.proofs[0].active_layers == []

    def test_losses_are_counted_up_to_what_exporters_can_carry(self, teller: Teller) -> None:
        teller.tell(proof_start())
        for _ in range(3):
            teller.tell(ev.EventsLost(where="intake", counts={"Log": 2**64 - 1}))

        assert teller.timelines.session("s").lost_events == teller.proofs[0].lost_events == MAX_LOST_EVENTS


class TestTimesThatGoBack:
    def test_an_interval_reaches_to_the_latest_event_in_it(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3))
        teller.tell(sumcheck_round(3), step=3600_000 * MS)
        latest = teller.now
        teller.tell(layer_end(3), proof_complete(), step=-1000_000 * MS)

        assert [interval.end_unix_nano for interval in teller.closed] == [latest, latest]
        assert [interval.time_went_back for interval in teller.closed] == [True, True]

    def test_an_event_on_the_proof_itself_counts(self, teller: Teller) -> None:
        status = ev.GpuStatus(devices=[], matmul_done=0, matmul_total=0, layers_done=0, layers_total=0)
        teller.tell(proof_start())
        teller.tell(status, step=1000 * MS)
        latest = teller.now
        teller.tell(proof_complete(), step=-1000 * MS)

        (proof,) = teller.closed
        assert (proof.end_unix_nano, proof.time_went_back) == (latest, True)

    def test_threads_that_overtake_each_other_set_no_clock(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3), sumcheck_round(3))
        teller.tell(sumcheck_round(3), layer_end(3), step=-20 * MS)
        teller.tell(proof_complete())

        assert [interval.time_went_back for interval in teller.closed] == [False, False]

    def test_only_where_time_went_back_is_that_said(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3), layer_end(3))
        teller.tell(layer_start(2), step=-5000 * MS)
        teller.tell(layer_end(2), proof_complete())

        assert [interval.time_went_back for interval in teller.closed] == [False, True, True]
        assert all((interval.duration_ns or 0) >= 0 for interval in teller.closed)

    def test_activations_before_their_proof_show_nothing(self, teller: Teller) -> None:
        teller.tell(activation(), step=10)
        teller.tell(proof_start(), layer_start(3), layer_end(3), proof_complete(), step=5000 * MS)

        assert not teller.proofs[0].time_went_back

    def test_times_of_other_clocks_stretch_no_interval(self, teller: Teller) -> None:
        teller.tell(proof_start())
        teller.tell(log(), origin="plugin", step=10**9 * MS)
        teller.tell(proof_complete(), step=-(10**9) * MS + MS)

        (proof,) = teller.closed
        assert (proof.duration_ns, proof.time_went_back) == (MS, False)


class TestLogs:
    def test_a_log_belongs_to_the_layer_at_work(self, teller: Teller) -> None:
        inside, between, outside = log(), log(), log()
        teller.tell(proof_start(), layer_start(1), inside, layer_end(1), between, proof_complete(), outside)

        assert teller.home_of(inside) is teller.layer(1)
        assert teller.home_of(between) is teller.proofs[0]
        assert teller.home_of(outside) is None

    def test_a_log_while_several_layers_are_at_work_belongs_to_the_proof(self, teller: Teller) -> None:
        text = log()
        teller.tell(proof_start(), layer_start(1, gpu=0), layer_start(0, gpu=1), text)

        assert teller.home_of(text) is teller.proofs[0]


class TestSessions:
    def test_what_is_said_after_the_end_does_not_bring_a_session_back(self, teller: Teller) -> None:
        teller.tell(session_opened(), proof_start(), session_closed())
        lost = ev.EventsLost(where="lane:otel", counts={"Log": 1})
        health = ev.PluginHealth(
            plugin="otel", status="ready", reason=None, depth=0, delivered=0, dropped={}, counters={}, lag_s=0.0
        )
        trace = ev.TraceStarted(proof=0, trace_id="0" * 32, span_id="0" * 16, sampled=True)
        teller.tell(log(), lost, health, trace, session_closed(), ev.ProofAborted(reason="late"))

        assert teller.timelines.sessions == []
        assert all(isinstance(change, Noted) for change in teller.changes[-6:])
        assert (teller.timelines.session("s").proofs, teller.timelines.session("s").aborted) == (1, 1)

    def test_what_only_the_host_says_makes_no_session(self, teller: Teller) -> None:
        health = ev.PluginHealth(
            plugin="otel", status="ready", reason=None, depth=0, delivered=0, dropped={}, counters={}, lag_s=0.0
        )
        teller.tell(health, session_id="host")

        assert teller.timelines.sessions == []
        assert teller.home_of(health) is None

    @pytest.mark.parametrize(
        ("event", "origin", "opens"),
        [
            (ev.EventsLost(where="intake", counts={"Log": 1}), HOST, True),
            (log(), PRODUCER, True),
            (ev.ProofAborted(reason="early"), PRODUCER, True),
            (ev.UnknownEvent(kind="New"), PRODUCER, True),
            (ev.StateProgramRun(program="reset", sequences=1), PRODUCER, True),
            (ev.UnknownEvent(kind="Derived"), "plugin", False),
            (session_closed(), HOST, False),
            (session_closed(), PRODUCER, False),
        ],
    )
    def test_what_shows_that_a_session_exists(self, event: ev.ProofEvent, origin: str, opens: bool) -> None:
        timelines = Timelines()
        timelines.feed(Envelope(seq=0, time_unix_nano=BEGIN, session_id="s", origin=origin, event=event, raw=b"{}"))

        assert timelines.is_open("s") is opens

    def test_an_event_of_a_proof_brings_an_ended_session_back(self, teller: Teller) -> None:
        teller.tell(session_opened(), proof_start(), session_closed(), ev.UnknownEvent(kind="New"))
        assert not teller.timelines.is_open("s")
        teller.tell(proof_start())

        assert teller.timelines.is_open("s")
        assert teller.timelines.session("s").times_ended == 1

    def test_a_session_that_goes_on_repeats_no_ordinal(self, teller: Teller) -> None:
        teller.tell(session_opened(), proof_start(), session_closed(), session_opened(), proof_start())

        first, second = teller.proofs
        assert (first.ordinal, second.ordinal) == (0, 1)
        assert (first.proof_ordinal, second.proof_ordinal) == (0, 1)

    def test_ended_sessions_are_remembered_within_bounds(self, teller: Teller) -> None:
        for number in range(MAX_ENDED + 10):
            teller.tell(proof_start(), session_closed(), session_id=str(number))

        assert teller.timelines.session("0").proofs == 0
        assert teller.timelines.session(str(MAX_ENDED + 9)).proofs == 1

    def test_how_times_came_to_be(self, teller: Teller) -> None:
        assert teller.timelines.session("s").time_source == "envelope"
        teller.tell(session_opened())

        assert teller.timelines.session("s").time_source == "arrival"
        assert [session.session_id for session in teller.timelines.sessions] == ["s"]


# Against the streams


def _streams() -> Iterator[Any]:
    here = Path(__file__).parents[1] / "data" / "wire"
    beside = Path(__file__).parents[3] / "shared" / "wire"
    for folder in (here, beside):
        for path in sorted(folder.glob("*.expect.json")):
            if "proofs" in json.loads(path.read_text()):
                yield pytest.param(path, id=f"{'data' if folder is here else 'shared'}-{path.name.split('.')[0]}")


def _read(expect: Path) -> tuple[Timelines, list[Interval], list[Envelope]]:
    timelines = Timelines()
    stream = expect.with_name(expect.name.replace(".expect.json", ".jsonl"))
    fed = envelopes(read_stream(stream))
    changes = [change for envelope in fed for change in timelines.feed(envelope)]
    opened = [change.interval for change in changes if isinstance(change, Opened)]
    closed = [change.interval for change in changes if isinstance(change, Closed)]
    assert sorted(i.ordinal for i in opened) == sorted(i.ordinal for i in closed) == list(range(len(opened)))
    return timelines, opened, fed


def _layers_of(proof: Interval, intervals: Sequence[Interval]) -> list[Interval]:
    return [i for i in intervals if i.kind is IntervalKind.LAYER and i.proof is proof]


def _told_of(proof: Interval, intervals: Sequence[Interval]) -> dict[str, Any]:
    assert isinstance(proof, Proof)
    layers = _layers_of(proof, intervals)
    ends = [layer.closed.event for layer in layers if layer.closed is not None]
    return {
        "layers_started": sum(layer.start_seen for layer in layers),
        "layers_ended": len(ends),
        "rounds": proof.rounds,
        "aborted": proof.aborted_reason is not None,
        "duration_ms_sum": sum(end.duration_ms for end in ends if isinstance(end, ev.LayerEnd)),
    }


@pytest.mark.parametrize("expect", list(_streams()))
def test_a_stream_is_read_as_it_should_be(expect: Path) -> None:
    wanted = json.loads(expect.read_text())
    timelines, intervals, fed = _read(expect)
    proofs = [interval for interval in intervals if isinstance(interval, Proof)]

    assert [_told_of(proof, intervals) for proof in proofs] == wanted["proofs"]
    assert timelines.session(fed[0].session_id).lost_events == wanted.get("lost_events", 0)
    if "num_layers" in wanted:
        assert {proof.num_layers for proof in proofs} == {wanted["num_layers"]}
    if "aborted_in_layer" in wanted:
        assert proofs[0].last_layer is not None
        assert proofs[0].last_layer.key == wanted["aborted_in_layer"]
    if "layers_without_end" in wanted:
        layers = _layers_of(proofs[0], intervals)
        assert sorted(layer.key or 0 for layer in layers if not layer.end_seen) == wanted["layers_without_end"]
        unseen = set(range(wanted["num_layers"])) - {layer.key for layer in layers}
        assert sorted(unseen) == wanted["layers_without_any_event"]
    if "stark" in wanted:
        starks = [interval for interval in intervals if interval.kind is IntervalKind.STARK_PROOF]
        reported = [
            s.closed.event.duration_ms for s in starks if s.closed and isinstance(s.closed.event, ev.StarkProofEnd)
        ]
        assert (len(starks), sum(reported)) == (wanted["stark"], wanted["stark_duration_ms"])


class TestBatches:
    def test_rounds_of_an_open_layer_are_one_change(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(1), job_id="a")
        batch = batch_of(sumcheck_round(1), sumcheck_round(1), layer_end(1), sumcheck_round(1), job_id="a")

        changes = list(teller.timelines.feed_batch(batch))

        first, closed, unplaced = changes
        assert isinstance(first, NotedRounds)
        assert (first.interval, first.envelopes) == (teller.layer(1), batch[:2])
        assert closed.interval is teller.layer(1)
        assert isinstance(unplaced, Noted)
        (proof,) = teller.proofs
        assert (proof.rounds, proof.rounds_unplaced, teller.layer(1).rounds) == (3, 1, 2)

    def test_rounds_that_show_that_a_proof_goes_on_are_fed_by_themselves(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(1), activation(1))

        held, first, rest = teller.timelines.feed_batch(batch_of(*[sumcheck_round(1)] * 3))

        assert isinstance(held, Noted)
        assert isinstance(held.envelope.event, ev.LayerActivation)
        assert isinstance(first, Noted)
        assert isinstance(rest, NotedRounds)
        assert len(rest.envelopes) == 2


def batch_of(*events: ev.ProofEvent, job_id: str | None = None) -> tuple[Envelope, ...]:
    return tuple(
        Envelope(
            seq=seq,
            time_unix_nano=BEGIN + 100 * MS + seq,
            session_id="s",
            origin=PRODUCER,
            event=event,
            raw=b"{}",
            job_id=job_id,
        )
        for seq, event in enumerate(events)
    )
