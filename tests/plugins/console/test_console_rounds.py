"""Rounds that follow one another are added at once: the summary is the same as if each had been added by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream import (
    Envelope,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    Log,
    LogLevel,
    ProofEvent,
    ProofStart,
    SumcheckRound,
    Timelines,
)
from proofstream.testing import envelopes
from proofstream_console.run_summary import RunSummary

SECOND = 10**9

START = ProofStart(model_name="mlp", backend="cpu", num_layers=3, input_shape=(1, 4), output_shape=(1, 2))


def a_round(layer: int) -> SumcheckRound:
    return SumcheckRound(
        layer_idx=layer, round=0, total_rounds=4, poly_deg2=None, poly_deg3=None, claim_value_approx=None
    )


def begin(layer: int) -> LayerStart:
    return LayerStart(
        layer_idx=layer,
        kind=LayerKind.MatMul,
        input_shape=(1, 4),
        output_shape=(1, 2),
        trace_cost=8,
        claim_value_approx=0.5,
        gpu_device=None,
    )


def end(layer: int) -> LayerEnd:
    return LayerEnd(
        layer_idx=layer, kind=LayerProofKind.Sumcheck, final_claim_value_approx=0.5, duration_ms=1, rounds_completed=1
    )


class OneByOne(Timelines):
    """Leaves every round to `feed`."""

    def feed_rounds(self, batch: Sequence[Envelope], at: int) -> None:
        return None


EVENTS: st.SearchStrategy[ProofEvent] = st.one_of(
    st.integers(0, 2).map(a_round),
    st.just(0).map(a_round),
    st.integers(0, 2).map(begin),
    st.integers(0, 2).map(end),
    st.sampled_from([START, Log(level=LogLevel.Info, message="a line")]),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Envelope]:
    sent = envelopes([START, begin(0), *draw(st.lists(EVENTS, max_size=40))], close=False)
    time = sent[0].time_unix_nano
    made: list[Envelope] = []
    for envelope in sent:
        time += draw(st.sampled_from([0, 1, SECOND, 70 * SECOND, -2 * SECOND, 30 * 3600 * SECOND]))
        odd = draw(st.integers(0, 9)) == 0 and isinstance(envelope.event, SumcheckRound)
        made.append(
            msgspec.structs.replace(
                envelope,
                time_unix_nano=time,
                job_id=draw(st.sampled_from([None, None, None, "a"])),
                origin="another" if odd else envelope.origin,
                time_source=draw(st.sampled_from([None, None, None, "reconstructed", "arrival"])),
            )
        )
    return made


def told(summary: RunSummary) -> dict[str, Any]:
    """All that the views ask of a summary."""
    proofs = summary.open_proofs
    return {
        "totals": summary.totals,
        "rounds": summary.rounds,
        "time sources": summary.time_sources,
        "sessions": list(summary.sessions.values()),
        "proofs": [
            (p.rounds, p.heard_unix_nano, p.heard_in, p.silence_told, p.layers_done, p.heard_after_layers)
            for p in proofs
        ],
        "silences": [summary.silences.longest_ns(stage) for stage in ("before_layers", "layers", "after_layers", None)],
        "last layers": list(summary.last_layers),
        "logs": summary.log_counts,
    }


@given(streams(), st.integers(1, 50), st.booleans())
def test_rounds_at_once_are_the_same_as_one_by_one(stream: list[Envelope], size: int, live: bool) -> None:
    at_once, singly = (RunSummary(clock=lambda: 5.0, live=live) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(singly, "_timelines", OneByOne())
        for first in range(0, len(stream), size):
            at_once.add_batch(tuple(stream[first : first + size]))
            singly.add_batch(tuple(stream[first : first + size]))
    assert told(at_once) == told(singly)
