"""Spans of phases, of nested proofs and of stages: each in its trace, below what is around it, with what is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import proofstream as ps
from proofstream.testing import START_UNIX_NANO, InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.traces import describe

MS = 1_000_000


def start(name: str, number: int | None = None, **fields: Any) -> ps.PhaseStart:
    """The start of a phase."""
    return ps.PhaseStart(name=name, phase=number, **fields)


def end(name: str, number: int | None = None, **fields: Any) -> ps.PhaseEnd:
    """The end of a phase."""
    return ps.PhaseEnd(name=name, phase=number, **fields)


def export(kit: Any, folder: Path, items: list[Any], *, step_ns: int = 2 * MS, **config: Any) -> list[Any]:
    """Export a session's events to a file; its spans, which hang together."""
    host = InlineHost(OtelPlugin(), {"file": str(folder), **config})
    host.feed(envelopes(items, step_ns=step_ns))
    host.close()
    spans: list[Any] = kit.read_file(folder / "traces.jsonl")
    no_span_hangs_in_the_air(spans)
    return spans


def no_span_hangs_in_the_air(spans: list[Any]) -> None:
    """Every parent is in its trace."""
    in_trace = {(span.trace_id, span.span_id) for span in spans}
    assert len(in_trace) == len(spans)
    for span in spans:
        assert not span.parent_span_id or (span.trace_id, span.parent_span_id) in in_trace, span.name


def tree(spans: list[Any]) -> dict[str, str]:
    """The name of each span's parent, by the span's name."""
    names = {span.span_id: span.name for span in spans}
    return {span.name: names.get(span.parent_span_id, "") for span in spans}


def named(spans: list[Any], name: str) -> Any:
    """The only span of a name."""
    (found,) = [span for span in spans if span.name == name]
    return found


def test_phases_and_layers_lie_in_one_another(kit: Any, tmp_path: Path) -> None:
    items = [
        kit.proof_start(num_layers=1),
        start("walk"),
        kit.layer_start(),
        start("reduce", layer_idx=0),
        start("fold"),
        end("fold"),
        end("reduce"),
        kit.layer_end(),
        end("walk"),
        start("commit"),
        ps.WeightOpeningStart(weight_node_id=1, eval_point_len=1),
        ps.WeightOpeningEnd(weight_node_id=1, duration_ms=1, commitment_hex=""),
        end("commit"),
        kit.proof_complete(),
    ]
    assert tree(export(kit, tmp_path, items)) == {
        "phase fold": "phase reduce",
        "phase reduce": "layer MatMul",
        "layer MatMul": "phase walk",
        "phase walk": "proof",
        "weight_opening": "phase commit",
        "phase commit": "proof",
        "before_layers": "proof",
        "after_layers": "proof",
        "proof": "",
        "session": "",
    }


def test_a_phase_says_what_the_producer_says(kit: Any, tmp_path: Path) -> None:
    about = {"rows": 2**20, "kind": "Merkle", "fast": True, "rate": 0.5, "none": None}
    items = [start("commit", 7, attributes=about), end("commit", 7, duration_ns=1_999_999)]
    span = named(export(kit, tmp_path, items), "phase commit")
    assert (span.start_unix_nano, span.end_unix_nano) == (START_UNIX_NANO + 2 * MS, START_UNIX_NANO + 4 * MS)
    assert span.attributes == {
        "proofstream.session.id": "test-session",
        "proofstream.time.source": "envelope",
        "proofstream.phase.name": "commit",
        "proofstream.phase.number": 7,
        "proofstream.phase.attribute.rows": 2**20,
        "proofstream.phase.attribute.kind": "Merkle",
        "proofstream.phase.attribute.fast": True,
        "proofstream.phase.attribute.rate": 0.5,
        "proofstream.phase.reported_duration_ns": 1_999_999,
        "proofstream.self_time": 0.002,
    }
    assert span.status == (0, "")


def test_what_the_producer_says_is_bounded(kit: Any, tmp_path: Path) -> None:
    about = {f"{number:03}" + "k" * 500: "v" * 5000 for number in range(100)}
    span = named(export(kit, tmp_path, [start("commit", attributes=about), end("commit")]), "phase commit")
    mine = {key: value for key, value in span.attributes.items() if ".attribute." in key}
    assert len(mine) == 32
    assert max(map(len, mine)) <= len("proofstream.phase.attribute.") + 64
    assert max(map(len, mine.values())) == 1024
    assert span.attributes["proofstream.phase.attributes_dropped"] == 68
    long = export(kit, tmp_path / "long", [start("n" * 5000), end("n" * 5000)])
    assert max(len(span.name) for span in long) == len("phase ") + 128


def test_a_phase_that_failed_is_an_error_and_its_proof_is_none(kit: Any, tmp_path: Path) -> None:
    items = [kit.proof_start(), start("commit"), end("commit", failed="out of memory"), kit.proof_complete()]
    spans = export(kit, tmp_path, items)
    assert named(spans, "phase commit").status == (2, "out of memory")
    assert named(spans, "phase commit").attributes["proofstream.aborted.reason"] == "out of memory"
    assert named(spans, "proof").status == (0, "")


def test_alone_it_is_in_the_trace_of_its_session(kit: Any, tmp_path: Path) -> None:
    items = [start("forward pass"), start("embed"), end("embed"), end("forward pass"), *kit.small_proof()]
    spans = export(kit, tmp_path, items)
    assert tree(spans)["phase embed"] == "phase forward pass"
    assert tree(spans)["phase forward pass"] == "session"
    assert named(spans, "phase embed").trace_id == named(spans, "session").trace_id
    assert named(spans, "phase forward pass").resource == named(spans, "session").resource


@pytest.mark.parametrize("job", [None, "a"])
def test_after_its_proof_it_is_in_the_proofs_trace(kit: Any, tmp_path: Path, job: str | None) -> None:
    events = [
        *kit.small_proof(),
        start("attention proof"),
        start("commit"),
        end("commit"),
        end("attention proof"),
    ]
    spans = export(kit, tmp_path, events if job is None else kit.of_job(job, *events))
    proof, attention = named(spans, "proof"), named(spans, "phase attention proof")
    assert (tree(spans)["phase attention proof"], tree(spans)["phase commit"]) == ("proof", "phase attention proof")
    assert attention.trace_id == proof.trace_id
    assert attention.start_unix_nano > proof.end_unix_nano
    assert attention.attributes["proofstream.phase.after_complete"] is True
    assert "proofstream.phase.after_complete" not in proof.attributes


def test_after_a_proof_that_is_not_sampled_it_is_not_either(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "metrics": False, "logs": False})
    items = [kit.proof_start(), start("commit"), kit.proof_complete(), end("commit"), start("tail"), end("tail")]
    host.feed(envelopes(items, step_ns=2 * MS))
    host.close()
    assert not (tmp_path / "traces.jsonl").exists()  # nothing was written to it
    assert host.health()["spans_unsampled"] == 4


class TestSums:
    """Phases without a span: short ones, and those beyond the bound of a proof."""

    def test_short_phases_are_sums_on_what_is_around_them(self, kit: Any, tmp_path: Path) -> None:
        short = [step for name in ("hash", "hash", "fold") for step in (start(name), end(name))]
        items = [start("warm up"), end("warm up"), kit.proof_start(), start("commit"), *short, end("commit")]
        spans = export(kit, tmp_path, [*items, kit.proof_complete()], step_ns=MS // 4)
        assert sorted(span.name for span in spans) == ["phase commit", "proof", "session"]
        summed = {key: value for key, value in named(spans, "phase commit").attributes.items() if ".summed." in key}
        assert summed == {
            "proofstream.phase.summed.names": ["hash", "fold"],
            "proofstream.phase.summed.counts": [2, 1],
            "proofstream.phase.summed.durations": [0.0005, 0.00025],
            "proofstream.phase.summed.longest": [0.00025, 0.00025],
        }
        assert named(spans, "session").attributes["proofstream.phase.summed.names"] == ["warm up"]
        assert "proofstream.phase.summed.names" not in named(spans, "proof").attributes

    def test_many_names_are_bounded_and_no_time_is_lost(self, kit: Any, tmp_path: Path) -> None:
        items = [step for number in range(200) for step in (start(f"n{number}"), end(f"n{number}"))]
        proof = named(
            export(kit, tmp_path, [kit.proof_start(), *items, kit.proof_complete()], step_ns=MS // 4), "proof"
        )
        names = proof.attributes["proofstream.phase.summed.names"]
        assert (len(names), names[-1]) == (128, "other")
        assert proof.attributes["proofstream.phase.summed.counts"] == [1] * 127 + [73]
        assert sum(proof.attributes["proofstream.phase.summed.durations"]) == pytest.approx(200 * 0.00025)

    def test_what_outlives_a_phase_without_a_span_hangs_from_the_one_above(self, kit: Any, tmp_path: Path) -> None:
        items = [kit.proof_start(), start("outer", 1), start("inner", 2), end("outer", 1)]
        items += [kit.layer_start(), *[kit.sumcheck_round()] * 9, end("inner", 2), kit.layer_end()]
        spans = export(kit, tmp_path, [*items, kit.proof_complete()], step_ns=MS // 4)
        assert tree(spans)["phase inner"] == "proof"
        assert tree(spans)["layer MatMul"] == "phase inner"

    def test_a_proof_of_thousands_of_phases_keeps_two_thousand(self, kit: Any, tmp_path: Path) -> None:
        items = [step for _ in range(2100) for step in (start("fold"), end("fold"))]
        spans = export(kit, tmp_path, [kit.proof_start(), *items, kit.proof_complete()])
        assert len([span for span in spans if span.name == "phase fold"]) == 2000
        assert named(spans, "proof").attributes["proofstream.phase.summed.counts"] == [100]


class TestProgress:
    """How far a phase has come."""

    def test_the_last_counts_and_each_tenth_is_an_event(self, kit: Any, tmp_path: Path) -> None:
        steps = [ps.PhaseProgress(name="commit", done=done, total=960) for done in range(1, 961)]
        span = named(export(kit, tmp_path, [start("commit"), *steps, end("commit")]), "phase commit")
        done = [event.attributes["proofstream.phase.done"] for event in span.events]
        assert done == [96 * tenth for tenth in range(1, 11)]
        assert {event.name for event in span.events} == {"proofstream.phase.progress"}
        assert (span.attributes["proofstream.phase.done"], span.attributes["proofstream.phase.total"]) == (960, 960)
        assert span.dropped_events == 0

    def test_without_a_total_each_doubling_is_an_event(self, kit: Any, tmp_path: Path) -> None:
        steps = [ps.PhaseProgress(name="walk", done=done) for done in range(1, 1001)]
        span = named(export(kit, tmp_path, [start("walk"), *steps, end("walk")]), "phase walk")
        done = [event.attributes["proofstream.phase.done"] for event in span.events]
        assert done == [2**power for power in range(10)]
        assert span.attributes["proofstream.phase.done"] == 1000
        assert "proofstream.phase.total" not in span.attributes

    def test_of_no_phase_it_is_counted(self, kit: Any, tmp_path: Path) -> None:
        stray = ps.PhaseProgress(name="unknown", done=1)
        spans = export(kit, tmp_path, [stray, kit.proof_start(), stray, stray, kit.proof_complete()])
        counts = {span.name: span.attributes.get("proofstream.phase.progress_unplaced") for span in spans}
        assert counts == {"session": 1, "proof": 2}
        assert not [event for span in spans for event in span.events]


def test_events_of_phases_are_spans_and_nothing_else(kit: Any, tmp_path: Path) -> None:
    items = [kit.proof_start(), start("commit"), ps.PhaseProgress(name="commit", done=1), end("commit"), end("lost")]
    spans = export(kit, tmp_path, [*items, kit.proof_complete()], rounds="both")
    assert {event.name for span in spans for event in span.events} == {"proofstream.phase.progress"}
    assert kit.read_log_file(tmp_path / "logs.jsonl") == []


class TestNestedProofs:
    """A proof that was started inside another one."""

    def items(self, kit: Any) -> list[ps.Decoded]:
        """An outer proof with two inner ones, which outlive each other."""
        inner, layer = kit.proof_complete(), [kit.layer_start(), kit.layer_end()]
        return [
            *kit.of_job("outer", kit.proof_start(num_layers=1)),
            *kit.of_job("one", kit.proof_start(num_layers=1), inside="outer"),
            *kit.of_job("two", kit.proof_start(num_layers=1), inside="one"),
            *kit.of_job("two", *layer),
            *kit.of_job("one", *layer, inner),
            *kit.of_job("two", inner),
            *kit.of_job("outer", *layer, inner),
        ]

    def test_it_is_below_the_outer_one_in_its_trace(self, kit: Any, tmp_path: Path) -> None:
        spans = export(kit, tmp_path, self.items(kit))
        proofs = {span.attributes["proofstream.job.id"]: span for span in spans if span.name == "proof"}
        assert proofs["outer"].parent_span_id == ""
        assert proofs["one"].parent_span_id == proofs["outer"].span_id
        assert proofs["two"].parent_span_id == proofs["one"].span_id
        assert len({span.trace_id for span in proofs.values()}) == 1
        layers = [span for span in spans if span.name == "layer MatMul"]
        assert {span.parent_span_id for span in layers} == {span.span_id for span in proofs.values()}
        assert {span.status for span in spans} == {(0, "")}
        assert [proofs[job].attributes["proofstream.proof.ordinal"] for job in ("outer", "one", "two")] == [0, 1, 2]

    def test_its_trace_is_published(self, kit: Any, tmp_path: Path) -> None:
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        started = host.feed(envelopes(self.items(kit), step_ns=2 * MS))
        host.close()
        proofs = sorted(
            (span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof"),
            key=lambda span: span.attributes["proofstream.proof.ordinal"],
        )
        assert [(e.proof, e.trace_id, e.span_id) for e in started if isinstance(e, ps.TraceStarted)] == [
            (number, span.trace_id, span.span_id) for number, span in enumerate(proofs)
        ]

    def test_a_traceparent_of_its_own_wins(self, kit: Any, tmp_path: Path) -> None:
        items = envelopes(self.items(kit), step_ns=2 * MS)
        own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        items[2] = msgspec.structs.replace(items[2], traceparent=own)
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        host.feed(items)
        host.close()
        spans = kit.read_file(tmp_path / "traces.jsonl")
        traces = {span.attributes["proofstream.job.id"]: span.trace_id for span in spans if span.name == "proof"}
        assert traces["one"] == traces["two"] == "0af7651916cd43dd8448eb211c80319c"
        assert traces["outer"] != traces["one"]


class TestStages:
    """Spans before and after the layers, which no event delimits."""

    def items(self, kit: Any) -> list[ps.ProofEvent]:
        """A proof with as much before and after its layer as the steps are long."""
        return [kit.proof_start(num_layers=1), kit.layer_start(), kit.layer_end(), kit.proof_complete()]

    def test_they_lie_around_the_layers(self, kit: Any, tmp_path: Path) -> None:
        spans = {span.name: span for span in export(kit, tmp_path, self.items(kit))}
        before, layer, after, proof = (spans[n] for n in ("before_layers", "layer MatMul", "after_layers", "proof"))
        assert (before.start_unix_nano, before.end_unix_nano) == (proof.start_unix_nano, layer.start_unix_nano)
        assert (after.start_unix_nano, after.end_unix_nano) == (layer.end_unix_nano, proof.end_unix_nano)
        assert before.attributes == after.attributes == {"proofstream.derived": True}

    def test_their_ids_are_the_same_in_every_replay_and_differ(self, kit: Any, tmp_path: Path) -> None:
        ids = [
            {span.name: span.span_id for span in export(kit, tmp_path / part, self.items(kit))} for part in ("a", "b")
        ]
        assert ids[0] == ids[1]
        assert len(set(ids[0].values())) == len(ids[0])

    def test_without_work_there_is_none(self, kit: Any, tmp_path: Path) -> None:
        spans = export(kit, tmp_path, self.items(kit), step_ns=MS // 2)
        assert sorted(span.name for span in spans) == ["layer MatMul", "proof", "session"]

    def test_a_proof_that_never_began_its_layers_was_before_them(self, kit: Any, tmp_path: Path) -> None:
        spans = export(kit, tmp_path, [kit.proof_start(), ps.ProofAborted(reason="out of memory")])
        assert tree(spans) == {"before_layers": "proof", "proof": "", "session": ""}
        assert named(spans, "proof").status == (2, "out of memory; before the first layer")


class TestWhereItDied:
    """The status of a proof says where it stood, and not more than is known."""

    def died(self, kit: Any, folder: Path, *events: ps.ProofEvent, step_ns: int = MS) -> Any:
        """The span of a proof that was killed after some events."""
        start = kit.proof_start(num_layers=2)
        return named(export(kit, folder, [start, *events, ps.ProofAborted(reason="killed")], step_ns=step_ns), "proof")

    def test_in_a_layer_while_it_is_open(self, kit: Any, tmp_path: Path) -> None:
        span = self.died(kit, tmp_path, kit.layer_start(1), kit.layer_end(1), kit.layer_start(0))
        assert span.status == (2, "killed; in layer 0 MatMul")
        assert span.attributes["proofstream.aborted.layer"] == 0
        assert span.attributes["proofstream.aborted.layer_kind"] == "MatMul"
        assert span.attributes["proofstream.aborted.phase"] == "layers"

    def test_between_layers(self, kit: Any, tmp_path: Path) -> None:
        span = self.died(kit, tmp_path, kit.layer_start(1), kit.layer_end(1))
        assert span.status == (2, "killed; between layers, after 1 of 2")
        assert "proofstream.aborted.layer" not in span.attributes
        assert span.attributes["proofstream.aborted.phase"] == "layers"

    def test_after_the_last_layer_in_silence(self, kit: Any, tmp_path: Path) -> None:
        layers = [kit.layer_start(1), kit.layer_end(1), kit.layer_start(0), kit.layer_end(0)]
        span = self.died(kit, tmp_path, *layers, step_ns=90_000 * MS)
        assert span.status == (2, "killed; after the last layer (2 of 2), after 1 min 30 s of silence")
        assert "proofstream.aborted.layer" not in span.attributes
        assert span.attributes["proofstream.aborted.phase"] == "after_layers"
        assert span.attributes["proofstream.aborted.silence"] == 90.0

    def test_without_layers_only_the_silence_is_known(self, kit: Any, tmp_path: Path) -> None:
        items = [kit.proof_start(num_layers=0), ps.ProofAborted(reason="killed")]
        span = named(export(kit, tmp_path, items, step_ns=5800 * MS), "proof")
        assert span.status == (2, "killed; after 5.8 s of silence")
        assert "proofstream.aborted.phase" not in span.attributes


def test_proofs_that_overlap_without_job_ids_are_counted_on_the_session(kit: Any, tmp_path: Path) -> None:
    proof = [kit.proof_start(num_layers=1), kit.layer_start(), kit.layer_end()]
    complete = kit.proof_complete()
    spans = export(kit, tmp_path, [*proof, *proof, complete, complete])
    session = named(spans, "session")
    assert session.attributes["proofstream.session.overlaps"] == 1
    assert session.attributes["proofstream.session.proofs"] == 2
    assert session.attributes["proofstream.session.aborted"] == 0
    proofs = [span for span in spans if span.name == "proof"]
    assert [span.status for span in proofs] == [(0, "")] * 2
    assert [span.attributes.get("proofstream.end_ambiguous") for span in proofs] == [True, True]
    assert [span.attributes["proofstream.duration.source"] for span in proofs] == ["unknown"] * 2
    quiet = export(kit, tmp_path / "quiet", [*proof, complete])
    assert "proofstream.session.overlaps" not in named(quiet, "session").attributes


def test_the_worth_of_each_duration_is_on_its_span(kit: Any, tmp_path: Path) -> None:
    laid_out = [
        ps.Decoded(event=event, raw=ps.encode_event(event), time_source="reconstructed")
        for event in (kit.proof_start(num_layers=2), kit.layer_start(1))
    ]
    items = [*laid_out, kit.layer_end(1), kit.layer_start(0), kit.layer_end(0), kit.proof_complete()]
    spans = export(kit, tmp_path, [*items, end("lost", duration_ns=MS)])
    worth = {
        span.attributes.get("proofstream.layer.index", span.name): (
            span.attributes.get("proofstream.duration.source"),
            span.attributes.get("proofstream.start.source"),
        )
        for span in spans
    }
    assert worth == {
        1: ("at_least", "reconstructed"),
        0: (None, None),
        "after_layers": (None, None),
        "proof": ("at_least", "reconstructed"),
        "phase lost": ("reported", "reported"),
        "session": (None, None),
    }
    assert {span.attributes.get("proofstream.time.source") for span in spans if span.name == "proof"} == {"envelope"}


def test_a_session_says_how_exact_its_times_of_arrival_are() -> None:
    opened = ps.SessionOpened(
        source="x", time_source="arrival", traceparent=None, resource={}, time_resolution_ns=500_000
    )
    assert describe.session_opened(opened)["proofstream.time.resolution"] == 0.0005
