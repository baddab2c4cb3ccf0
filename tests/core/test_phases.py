"""Phases: which start an end belongs to, where a phase lies, and how many of them are shown."""

from __future__ import annotations

import pytest
from stories import BEGIN, MS, Teller, layer_end, layer_start, log, proof_complete, proof_start, session_closed

from proofstream import events as ev
from proofstream.intervals import Closed, Noted, Phase
from proofstream.observed import MAX_COMPLETED_JOBS, MAX_PHASE_NAME_CHARS, MAX_PHASE_NAMES, OTHER_PHASE
from proofstream.open_intervals import MOST_SHOWN_PHASES


@pytest.fixture
def teller() -> Teller:
    return Teller()


def start(name: str, number: int | None = None, parent: int | None = None, layer: int | None = None) -> ev.PhaseStart:
    return ev.PhaseStart(name=name, phase=number, parent=parent, layer_idx=layer)


def end(name: str, number: int | None = None, took_ms: int | None = None, failed: str | None = None) -> ev.PhaseEnd:
    took_ns = None if took_ms is None else took_ms * MS
    return ev.PhaseEnd(name=name, phase=number, duration_ns=took_ns, failed=failed)


class TestPairing:
    def test_an_end_belongs_to_the_phase_of_its_number(self, teller: Teller) -> None:
        teller.tell(start("commit", 1), start("commit", 2), end("commit", 1), log(), end("commit", 2))

        first, second = teller.phases
        assert (first.key, first.duration_ns) == (1, 2 * MS)
        assert (second.key, second.duration_ns) == (2, 3 * MS)

    def test_without_a_number_it_belongs_to_the_latest_of_its_name(self, teller: Teller) -> None:
        teller.tell(start("fold"), start("fold"), end("fold"), log(), end("fold"))

        outer, inner = teller.phases
        assert (outer.duration_ns, inner.duration_ns) == (4 * MS, MS)
        assert inner.parent is outer

    def test_an_end_with_a_number_finds_a_start_without_one(self, teller: Teller) -> None:
        teller.tell(start("commit"), end("commit", 7))

        (phase,) = teller.phases
        assert phase.start_seen
        assert phase.end_seen

    def test_jobs_do_not_end_one_anothers_phases(self, teller: Teller) -> None:
        teller.tell(start("commit", 1), job_id="a")
        teller.tell(start("commit", 1), job_id="b")
        teller.tell(end("commit", 1), job_id="a")

        of_a, of_b = teller.phases
        assert (of_a.is_open, of_b.is_open) == (False, True)

    def test_an_end_whose_start_was_not_seen_believes_the_reported_duration(self, teller: Teller) -> None:
        teller.tell(end("commit", took_ms=250))

        (phase,) = teller.phases
        assert (phase.duration_ns, phase.start_seen, phase.duration_source) == (250 * MS, False, "reported")

    def test_a_phase_that_failed_says_why_and_its_proof_goes_on(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("commit"), end("commit", failed="out of memory"))

        (phase,) = teller.phases
        assert phase.aborted_reason == "out of memory"
        assert teller.timelines.open_proofs

    def test_the_end_of_the_session_ends_it(self, teller: Teller) -> None:
        teller.tell(start("commit"), session_closed("lost"))

        (phase,) = teller.phases
        assert phase.aborted_reason == "the session was lost"
        assert not phase.end_seen

    def test_an_end_without_a_number_belongs_to_the_latest_of_its_name_that_has_one(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("fold", 1), start("fold", 2), start("open", 3), end("fold"))

        assert [phase.key for phase in teller.phases if not phase.is_open] == [2]
        assert len(teller.phases) == 3

    def test_what_was_reported_to_begin_before_its_proof_lasted_at_least_since_then(self, teller: Teller) -> None:
        teller.tell(proof_start(), log(), end("commit", took_ms=5000), layer_end(3, 5000))

        assert [(i.duration_ns, i.duration_source) for i in (*teller.phases, teller.layer(3))] == [
            (2 * MS, "at_least"),
            (3 * MS, "at_least"),
        ]

    def test_a_short_one_that_outlives_the_phase_around_it_is_summed_up_in_the_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("commit", 1), start("hash", 2))
        teller.tell(end("commit", 1), end("hash", 2), step=MS // 10)

        (proof,) = teller.proofs
        assert {name: found.count for name, found in proof.summed.items()} == {"hash": 1}
        assert teller.timelines.session("s").summed == {}


class TestPlace:
    def test_it_lies_in_the_innermost_open_phase_or_else_in_the_proof(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("walk"), start("commit"), end("commit"), start("open"))

        (proof,) = teller.proofs
        walk, commit, opening = teller.phases
        assert [phase.parent for phase in (walk, commit, opening)] == [proof, walk, walk]
        assert [phase.depth for phase in (walk, commit, opening)] == [0, 1, 1]
        assert {phase.proof for phase in teller.phases} == {proof}
        assert proof.running_phases == [walk, opening]
        assert opening.path == [walk, opening]

    def test_a_named_parent_wins_over_the_innermost(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("thread one", 1), start("thread two", 2), start("fold", 3, parent=1))

        assert teller.phase("fold").parent is teller.phase("thread one")

    def test_a_parent_that_is_not_open_is_no_phase(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("thread one", 1), start("thread two", 2, parent=0), layer_start(3))
        teller.tell(start("reduce", 8, parent=1, layer=3), start("fold", 9, parent=0, layer=3))

        assert teller.phase("thread two").parent is teller.proofs[0]
        assert [teller.phase(name).parent for name in ("reduce", "fold")] == [teller.layer(3)] * 2

    def test_a_layer_holds_its_phases_and_their_phases(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(3), start("reduce", layer=3), start("fold"), start("open", layer=3))

        layer = teller.layer(3)
        reduce = teller.phase("reduce")
        assert (reduce.parent, reduce.layer, reduce.depth) == (layer, layer, 0)
        assert [teller.phase(name).parent for name in ("fold", "open")] == [reduce, teller.phase("fold")]
        assert teller.phase("open").layer is layer

    def test_layers_lie_in_the_phase_around_them_but_not_in_one_of_another_layer(self, teller: Teller) -> None:
        teller.tell(
            proof_start(), start("walk"), layer_start(3, gpu=0), start("reduce", layer=3), layer_start(2, gpu=1)
        )

        walk = teller.phase("walk")
        assert [teller.layer(index).parent for index in (3, 2)] == [walk, walk]

    def test_outside_of_any_proof_it_stands_alone(self, teller: Teller) -> None:
        teller.tell(start("forward pass"), log(), end("forward pass"), proof_start())

        (phase,) = teller.phases
        assert (phase.proof, phase.parent, phase.after_complete) == (None, None, False)

    def test_after_the_proof_it_belongs_to_that_one_without_moving_its_end(self, teller: Teller) -> None:
        teller.tell(proof_start(), proof_complete())
        completed_at = teller.now
        teller.tell(start("attention proof"), start("commit"), end("commit"), log(), end("attention proof"))

        (proof,) = teller.proofs
        attention = teller.phase("attention proof")
        assert proof.end_unix_nano == completed_at
        assert (attention.proof, attention.parent, attention.after_complete) == (proof, proof, True)
        assert attention.duration_ns == 4 * MS
        assert teller.phase("commit").proof is proof

    def test_after_the_proof_of_a_named_job_too(self, teller: Teller) -> None:
        teller.tell(proof_start(), proof_complete(), job_id="a")
        teller.tell(proof_start(), proof_complete(), job_id="b")
        teller.tell(start("attention proof"), end("attention proof"), job_id="a")
        teller.tell(start("attention proof"), job_id="a")

        of_a, _ = teller.proofs
        assert [(phase.proof, phase.after_complete) for phase in teller.phases] == [(of_a, True), (of_a, True)]

    def test_of_too_many_jobs_only_the_latest_have_phases_after_their_proofs(self, teller: Teller) -> None:
        for number in range(MAX_COMPLETED_JOBS + 1):
            teller.tell(proof_start(), proof_complete(), job_id=f"j{number}")
        teller.tell(start("attention proof"), job_id="j0")
        teller.tell(start("attention proof"), job_id="j1")

        assert [phase.proof for phase in teller.phases] == [None, teller.proofs[1]]

    def test_one_that_is_open_when_its_proof_completes_goes_on_until_its_own_end(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("prove"), start("attention"), proof_complete(), log(), end("attention"))
        teller.tell(end("prove"))

        (proof,) = teller.proofs
        prove, attention = teller.phases
        assert proof.duration_ns == 3 * MS
        assert (prove.duration_ns, attention.duration_ns) == (5 * MS, 3 * MS)
        assert prove.after_complete
        assert prove.aborted_reason is None

    def test_one_that_is_open_when_its_proof_dies_dies_with_it(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("commit"), ev.ProofAborted(reason="out of memory"))

        (phase,) = teller.phases
        assert (phase.aborted_reason, phase.end_unix_nano) == ("out of memory", teller.now)


class TestProgress:
    def test_it_goes_to_the_phase_of_its_number_or_name_or_to_the_innermost(self, teller: Teller) -> None:
        teller.tell(start("commit", 1), start("fold"), start("query"))
        teller.tell(
            ev.PhaseProgress(phase=1, done=30, total=96),
            ev.PhaseProgress(name="fold", done=3),
            ev.PhaseProgress(done=5, total=8),
        )

        assert [(phase.done, phase.total) for phase in teller.phases] == [(30, 96), (3, None), (5, 8)]

    def test_without_its_phase_it_is_noted_in_the_proof(self, teller: Teller) -> None:
        progress = ev.PhaseProgress(name="commit", done=1)
        teller.tell(proof_start(), progress)

        assert teller.home_of(progress) is teller.proofs[0]


class TestSelfTime:
    def test_it_leaves_out_what_lies_inside_and_counts_what_overlaps_once(self, teller: Teller) -> None:
        teller.tell(start("prove", 1))
        teller.tell(start("commit", 2, parent=1), step=10 * MS)
        teller.tell(start("commit", 3, parent=1), step=5 * MS)
        teller.tell(end("commit", 2), step=10 * MS)
        teller.tell(end("commit", 3), step=10 * MS)
        teller.tell(end("prove", 1), step=7 * MS)

        prove = teller.phase("prove")
        assert (prove.duration_ns, prove.self_ns) == (42 * MS, 17 * MS)
        assert teller.phases[1].self_ns == 15 * MS

    def test_a_proof_has_one_too(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(0), layer_end(0), start("commit"), end("commit"), proof_complete())

        (proof,) = teller.proofs
        assert (proof.duration_ns, proof.self_ns) == (5 * MS, 3 * MS)

    def test_what_ends_later_than_what_is_around_it_counts_until_then(self, teller: Teller) -> None:
        teller.tell(start("prove", 1), start("commit", 2), end("prove", 1), end("commit", 2))

        assert [phase.self_ns for phase in teller.phases] == [MS, 2 * MS]


class TestBounds:
    def test_a_long_name_is_cut(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("x" * 10**6), end("x" * 10**6))

        (phase,) = teller.phases
        assert (phase.name, phase.is_open) == ("x" * MAX_PHASE_NAME_CHARS, False)

    def test_those_below_a_millisecond_are_summed_up_where_they_lie(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("commit"))
        for took in (MS // 10, MS // 2, MS // 5):
            teller.tell(start("hash"))
            teller.tell(end("hash"), step=took)
        teller.tell(end("commit"))

        commit = teller.phase("commit")
        assert [phase.is_summed for phase in teller.phases] == [False, True, True, True]
        (found,) = commit.summed.values()
        assert (found.count, found.total_ns, found.max_ns) == (3, MS * 8 // 10, MS // 2)

    def test_a_short_one_that_failed_is_shown(self, teller: Teller) -> None:
        teller.tell(start("hash"))
        teller.tell(end("hash", failed="bad leaf"), step=MS // 10)

        assert not teller.phases[0].is_summed

    def test_a_short_one_with_a_layer_in_it_is_shown(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("walk"))
        teller.tell(layer_start(0), layer_end(0), end("walk"), step=MS // 10)

        assert not teller.phases[0].is_summed

    def test_sums_move_outwards_with_a_phase_that_is_summed_itself(self, teller: Teller) -> None:
        teller.tell(start("commit"))
        teller.tell(start("hash"), end("hash"), end("commit"), step=MS // 10)

        summed = teller.timelines.session("s").summed
        assert {name: found.count for name, found in summed.items()} == {"commit": 1, "hash": 1}

    def test_beyond_the_bound_of_a_proof_only_those_around_a_shown_one_are_shown(self, teller: Teller) -> None:
        teller.tell(proof_start(), start("commit"))
        for _ in range(MOST_SHOWN_PHASES + 5):
            teller.tell(start("fold"), end("fold"))
        teller.tell(end("commit"), start("open"), end("open"), proof_complete())

        (proof,) = teller.proofs
        commit, *folds, opening = teller.phases
        assert sum(not fold.is_summed for fold in folds) == MOST_SHOWN_PHASES
        assert (commit.is_summed, opening.is_summed) == (False, True)
        assert commit.summed["fold"].count == 5
        assert proof.summed["open"].count == 1

    def test_each_proof_has_the_whole_bound(self, teller: Teller) -> None:
        teller.tell(proof_start())
        for _ in range(MOST_SHOWN_PHASES):
            teller.tell(start("fold"), end("fold"))
        teller.tell(proof_complete(), proof_start(), start("fold"), end("fold"))

        assert not teller.phases[-1].is_summed

    def test_further_names_are_called_other_and_still_pair(self, teller: Teller) -> None:
        for number in range(MAX_PHASE_NAMES + 2):
            teller.tell(start(f"n{number}"))
        teller.tell(end(f"n{MAX_PHASE_NAMES}"))

        last, beyond = teller.phases[-2:]
        assert [last.name, beyond.name] == [OTHER_PHASE, OTHER_PHASE]
        assert (last.end_seen, beyond.is_open) == (True, True)

    def test_a_deep_stack_needs_no_deep_recursion(self, teller: Teller) -> None:
        for number in range(5000):
            teller.tell(start("deeper", number))
        teller.tell(session_closed())

        assert len([c for c in teller.changes if isinstance(c, Closed)]) == 5000


def test_children_close_before_their_parent(teller: Teller) -> None:
    teller.tell(proof_start(), start("commit"), layer_start(1), start("reduce", layer=1), session_closed())

    kinds = [(i.name if isinstance(i, Phase) else i.kind.value) for i in teller.closed]
    assert kinds.index("reduce") < kinds.index("commit") < kinds.index("proof")
    assert kinds[-1] == "proof"
    assert not [c for c in teller.changes if isinstance(c, Noted) and isinstance(c.envelope.event, ev.PhaseStart)]
    assert teller.proofs[0].start_unix_nano == BEGIN + MS
