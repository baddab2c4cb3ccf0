"""The worth of durations, the stages of a proof, and where it died."""

from __future__ import annotations

import pytest
from stories import MS, Teller, layer_end, layer_start, log, proof_complete, proof_start, session_closed

from proofstream import events as ev
from proofstream.intervals import Proof


@pytest.fixture
def teller() -> Teller:
    return Teller()


def stages(proof: Proof) -> list[tuple[str, int | None, str | None]]:
    return [
        (stage.name, None if stage.duration_ns is None else stage.duration_ns // MS, stage.duration_source)
        for stage in proof.stages
    ]


def tell_laid_out(teller: Teller, *events: ev.ProofEvent) -> None:
    teller.tell(*events, time_source="reconstructed")


class TestDurationSource:
    def test_between_events_with_times_it_is_measured(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(0))
        assert [i.duration_source for i in (teller.proofs[0], teller.layer(0))] == [None, None]
        teller.tell(layer_end(0), proof_complete(duration_ms=17))

        assert [i.duration_source for i in teller.closed] == ["measured", "measured"]

    def test_laid_out_it_is_what_the_producer_reports_or_unknown(self, teller: Teller) -> None:
        tell_laid_out(teller, proof_start(), layer_start(0), layer_end(0), proof_complete(duration_ms=0))
        tell_laid_out(teller, proof_start(), layer_start(0), proof_complete(duration_ms=1717))

        assert [i.duration_source for i in teller.closed] == ["reported", "unknown", "unknown", "reported"]

    def test_what_began_before_it_was_observed_took_at_least_so_long(self, teller: Teller) -> None:
        tell_laid_out(teller, proof_start(), layer_start(1), layer_end(1), layer_start(0))
        teller.tell(layer_end(0), proof_complete())

        assert [i.duration_source for i in teller.closed] == ["reported", "at_least", "at_least"]

    def test_without_its_start_too_unless_its_end_reports_it(self, teller: Teller) -> None:
        teller.tell(layer_end(0, duration_ms=3), proof_complete())

        assert [i.duration_source for i in teller.closed] == ["reported", "at_least"]

    def test_an_end_that_was_not_seen_is_derived(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(1), layer_start(0), layer_end(0), proof_complete())

        assert teller.layer(1).duration_source == "derived"

    def test_times_that_went_back_measure_nothing(self, teller: Teller) -> None:
        teller.tell(proof_start(), step=5000 * MS)
        teller.tell(proof_complete(), step=-2000 * MS)

        assert teller.proofs[0].duration_source == "unknown"

    def test_the_sessions_own_source_holds_for_events_that_name_none(self, teller: Teller) -> None:
        teller.tell(ev.SessionOpened(source="f", time_source="reconstructed", traceparent=None, resource={}))
        teller.tell(proof_start())
        teller.tell(proof_complete(), time_source="arrival")

        assert (teller.proofs[0].start_source, teller.proofs[0].end_source) == ("reconstructed", "arrival")


class TestStages:
    def test_they_are_delimited_by_the_layers(self, teller: Teller) -> None:
        teller.tell(proof_start(2), log(), layer_start(1), layer_end(1))
        (proof,) = teller.proofs
        assert (proof.stage, stages(proof)) == ("layers", [("before_layers", 2, "measured"), ("layers", None, None)])
        teller.tell(layer_start(0), layer_end(0))
        assert (proof.stage, stages(proof)[-1]) == ("after_layers", ("after_layers", None, None))
        teller.tell(proof_complete(), step=50 * MS)

        assert stages(proof) == [
            ("before_layers", 2, "measured"),
            ("layers", 3, "measured"),
            ("after_layers", 50, "measured"),
        ]

    def test_a_walk_whose_end_was_never_announced_ends_with_its_last_layer(self, teller: Teller) -> None:
        teller.tell(proof_start(9), layer_start(1), layer_end(1), layer_start(0), layer_end(0))
        assert teller.proofs[0].stage == "layers"
        teller.tell(proof_complete(), step=50 * MS)

        assert stages(teller.proofs[0])[-1] == ("after_layers", 50, "measured")

    def test_a_proof_that_completed_without_a_word_of_its_layers_has_none(self, teller: Teller) -> None:
        teller.tell(proof_start(2))
        (proof,) = teller.proofs
        told = [proof.stage]
        teller.tell(proof_complete())
        told.append(proof.stage)

        assert told == ["before_layers", None]
        assert stages(proof) == []

    def test_a_proof_without_layers_has_none(self, teller: Teller) -> None:
        teller.tell(proof_start(0), log(), proof_complete())

        assert (teller.proofs[0].stage, stages(teller.proofs[0])) == (None, [])

    def test_lines_that_arrived_in_one_read_do_not_tell_how_long_one_took(self, teller: Teller) -> None:
        teller.tell(proof_start(1), time_source="arrival")
        teller.tell(layer_start(0), time_source="arrival", step=1)
        teller.tell(layer_end(0), proof_complete(), time_source="arrival")

        assert [source for _, _, source in stages(teller.proofs[0])] == ["unknown", "measured", "measured"]

    def test_laid_out_they_are_known_as_far_as_the_proof_is(self, teller: Teller) -> None:
        for reported in (0, 1717):
            tell_laid_out(teller, proof_start(1), layer_start(0), layer_end(0), proof_complete(duration_ms=reported))

        assert [[source for _, _, source in stages(proof)] for proof in teller.proofs] == [
            ["unknown", "derived", "unknown"],
            ["unknown", "derived", "derived"],
        ]


class TestWalked:
    def test_it_tells_how_many_layers_of_those_announced_are_done(self, teller: Teller) -> None:
        teller.tell(proof_start(3), layer_start(2), layer_end(2))
        assert teller.proofs[0].walked == "1 of 3"

    def test_more_than_were_announced_are_not_a_part_of_them(self, teller: Teller) -> None:
        teller.tell(proof_start(1), layer_start(1), layer_end(1), layer_start(0), layer_end(0))
        assert teller.proofs[0].walked == "2, 1 announced"

    def test_without_an_announcement_it_is_a_number(self, teller: Teller) -> None:
        teller.tell(layer_start(1), layer_end(1))
        assert teller.proofs[0].walked == "1"


class TestWhereItDied:
    def test_in_the_layer_that_was_open(self, teller: Teller) -> None:
        teller.tell(proof_start(3), layer_start(2), layer_end(2), layer_start(1), session_closed("lost"))

        (proof,) = teller.proofs
        assert proof.aborted_layer is teller.layer(1)
        assert proof.stage == "layers"

    def test_after_the_last_layer_it_is_in_none(self, teller: Teller) -> None:
        teller.tell(proof_start(1), layer_start(0), layer_end(0))
        teller.tell(session_closed("lost"), step=5800 * MS)

        (proof,) = teller.proofs
        assert (proof.aborted_layer, proof.stage, proof.silent_ns) == (None, "after_layers", 5800 * MS)

    def test_between_layers_it_is_in_none_either(self, teller: Teller) -> None:
        teller.tell(proof_start(3), layer_start(2), layer_end(2), ev.ProofAborted(reason="out of memory"))

        (proof,) = teller.proofs
        assert (proof.aborted_layer, proof.stage, proof.layers_left_behind) == (None, "layers", 1)

    def test_before_the_first(self, teller: Teller) -> None:
        teller.tell(proof_start(3), session_closed("lost"))

        assert (teller.proofs[0].aborted_layer, teller.proofs[0].stage) == (None, "before_layers")

    def test_events_in_an_open_layer_end_the_silence(self, teller: Teller) -> None:
        teller.tell(proof_start(1), layer_start(0), log())
        teller.tell(session_closed("lost"), step=40 * MS)

        assert teller.proofs[0].silent_ns == 40 * MS

    def test_in_a_file_without_times_the_silence_is_not_known(self, teller: Teller) -> None:
        tell_laid_out(teller, proof_start(1), layer_start(0))
        teller.tell(session_closed())

        assert teller.proofs[0].silent_ns is None


class TestEndsThatWereNotSeen:
    def test_of_a_proof_that_another_one_follows_only_the_latest_end_is_known(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(1), proof_start())

        assert [i.duration_source for i in teller.closed] == ["derived", "derived"]
        assert [source for _, _, source in stages(teller.proofs[0])] == ["measured", "derived"]

    def test_what_a_recording_breaks_off_in_took_at_least_so_long(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(1), layer_start(0))
        teller.tell(session_closed(), time_source="reconstructed")

        layers = [teller.layer(1), teller.layer(0)]
        assert [i.duration_source for i in layers] == ["derived", "at_least"]
        assert teller.proofs[0].duration_source == "at_least"
        assert teller.proofs[0].silent_ns is None

    def test_a_last_layer_without_an_end_ends_with_its_proof_which_says_nothing_of_it(self, teller: Teller) -> None:
        teller.tell(proof_start(), layer_start(1), layer_start(0), proof_complete())

        assert [teller.layer(1).duration_source, teller.layer(0).duration_source] == ["derived", "unknown"]
        assert [source for _, _, source in stages(teller.proofs[0])] == ["measured", "unknown", "unknown"]
        assert teller.proofs[0].duration_source == "measured"
