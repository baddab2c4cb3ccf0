"""What histograms and gauges hold of durations: those that are known, as far as they are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.values.semconv import METRICS, Instrument, Metrics

S = 1_000_000_000
DURATIONS = [m for m in METRICS if m.instrument is Instrument.HISTOGRAM] + [Metrics.PROOF_LAST_DURATION]
COMPLETE = ("cpu-gkr", "mlp", "complete")


def laid_out(*events: ps.ProofEvent) -> list[ps.Decoded]:
    """Events whose times were laid out."""
    return [ps.Decoded(event=event, raw=ps.encode_event(event), time_source="reconstructed") for event in events]


def durations(kit: Any, folder: Path, items: list[Any], **config: Any) -> dict[str, dict[tuple[Any, ...], float]]:
    """The durations that a session leaves in metrics: sums and last values, by metric and series."""
    host = InlineHost(OtelPlugin(), {"file": str(folder), **config})
    host.feed(envelopes(items, step_ns=S))
    host.close()
    points = kit.read_metric_file(folder / "metrics.jsonl")
    found = {metric.name.removeprefix("proofstream."): kit.values_of(points, metric.name) for metric in DURATIONS}
    return {name: series for name, series in found.items() if series}


def long_proof(kit: Any, *, took_ms: int) -> list[ps.ProofEvent]:
    """A proof of one layer, and what its producer reports of it."""
    start, end = kit.proof_start(), kit.proof_complete(duration_ms=took_ms)
    return [start, kit.layer_start(), kit.layer_end(), end]


def test_what_was_measured_wins_over_what_is_reported(kit: Any, tmp_path: Path) -> None:
    found = durations(kit, tmp_path, long_proof(kit, took_ms=1717))
    assert found["proof.duration"] == found["proof.last_duration"] == {COMPLETE: 3.0}
    assert found["layer.duration"] == {("MatMul", "Sumcheck", *COMPLETE[:2]): 1.0}
    assert found["proof.phase.duration"] == {
        (*COMPLETE, phase): 1.0 for phase in ("before_layers", "layers", "after_layers")
    }


def test_laid_out_a_duration_is_the_reported_one(kit: Any, tmp_path: Path) -> None:
    found = durations(kit, tmp_path, laid_out(*long_proof(kit, took_ms=1717)))
    assert found["proof.duration"] == found["proof.last_duration"] == {COMPLETE: 1.717}
    assert found["layer.duration"] == {("MatMul", "Sumcheck", *COMPLETE[:2]): 0.003}
    assert (*COMPLETE, "before_layers") not in found["proof.phase.duration"]


def test_without_times_and_reports_nothing_is_known(kit: Any, tmp_path: Path) -> None:
    found = durations(kit, tmp_path, laid_out(*long_proof(kit, took_ms=0)))
    assert set(found) == {"layer.duration", "proof.phase.duration"}
    assert set(found["proof.phase.duration"]) == {(*COMPLETE, "layers")}


def test_a_lower_bound_is_no_duration(kit: Any, tmp_path: Path) -> None:
    start, *rest = long_proof(kit, took_ms=1717)
    found = durations(kit, tmp_path, [*laid_out(start), *rest])
    assert "proof.duration" not in found
    assert "proof.last_duration" not in found


def test_an_end_that_was_not_seen_is_an_upper_bound_and_counts(kit: Any, tmp_path: Path) -> None:
    items = [kit.proof_start(), kit.layer_start(1), kit.layer_start(0), kit.layer_end(0), kit.proof_complete()]
    found = durations(kit, tmp_path, items)
    assert found["layer.duration"] == {("MatMul", *COMPLETE[:2]): 1.0, ("MatMul", "Sumcheck", *COMPLETE[:2]): 1.0}


def test_an_absurd_report_is_no_duration(kit: Any, tmp_path: Path) -> None:
    found = durations(kit, tmp_path, laid_out(*long_proof(kit, took_ms=2**63)))
    assert "proof.duration" not in found


class TestPhases:
    """Phases are a metric only by choice."""

    def items(self, kit: Any) -> list[ps.ProofEvent]:
        """A proof with phases, and one outside."""
        commit = [ps.PhaseStart(name="commit"), ps.PhaseEnd(name="commit", duration_ns=5)]
        failed = [ps.PhaseStart(name="commit"), ps.PhaseEnd(name="commit", failed="no")]
        query = [ps.PhaseStart(name="query"), ps.PhaseEnd(name="query")]
        return [*commit, kit.proof_start(), *commit, *failed, *query, kit.proof_complete()]

    def test_by_default_none_is(self, kit: Any, tmp_path: Path) -> None:
        assert "phase.duration" not in durations(kit, tmp_path, self.items(kit))

    def test_those_that_the_user_names_are(self, kit: Any, tmp_path: Path) -> None:
        found = durations(kit, tmp_path, self.items(kit), phase_metrics=["commit", "open"])
        assert found["phase.duration"] == {
            ("commit", "unknown", "unknown"): 1.0,
            ("commit", "cpu-gkr", "mlp"): 1.0,  # not the one that failed
        }

    def test_a_short_one_that_has_no_span_counts_too(self, kit: Any, tmp_path: Path) -> None:
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "phase_metrics": ["hash"]})
        hashes = [ps.PhaseStart(name="hash"), ps.PhaseEnd(name="hash")] * 3
        host.feed(envelopes([kit.proof_start(), *hashes, kit.proof_complete()], step_ns=1000))
        host.close()
        points = [p for p in kit.read_metric_file(tmp_path / "metrics.jsonl") if p.name == "proofstream.phase.duration"]
        assert (points[-1].count, points[-1].value) == (3, pytest.approx(3e-6))
        spans = kit.read_file(tmp_path / "traces.jsonl")
        proof = next(span for span in spans if span.name == "proof")
        assert {exemplar[2] for exemplar in points[-1].exemplars} == {proof.span_id}


def test_a_proof_whose_end_may_be_anothers_has_no_duration(kit: Any, tmp_path: Path) -> None:
    walk = [kit.proof_start(), kit.layer_start(), kit.layer_end()]
    found = durations(kit, tmp_path, [*walk, *walk, kit.proof_complete(), kit.proof_complete()])
    assert "proof.duration" not in found
    assert "after_layers" not in {series[-1] for series in found["proof.phase.duration"]}


def test_proofs_without_a_known_duration_are_counted(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(envelopes(laid_out(*long_proof(kit, took_ms=0)), step_ns=S))
    host.close()
    points = kit.read_metric_file(tmp_path / "metrics.jsonl")
    assert kit.values_of(points, "proofstream.proofs")[COMPLETE] == 1
