"""The dashboard "Proof latency": how long proofs and their layers take, and how far the running ones are."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.kit import (
    BAD_ABOVE_ZERO,
    BY_PROOF,
    PROOF_NAME,
    WHO,
    About,
    Query,
    bars,
    board,
    cells,
    choice,
    counted,
    lines,
    number,
    proofs,
    quantile,
    row,
    rows,
    traces,
    window,
)
from boards.layers import layers, parts

PROOF = "proofstream_proof_duration_seconds"
RUNNING_NAME = f"{PROOF_NAME}, slot {{{{proofstream_slot}}}}"
TO_PROOFS = traces("Traces of proofs", "proof")
SILENT = ((None, "green"), (60.0, "yellow"), (300.0, "red"))


def latency() -> Dashboard:
    """The dashboard."""
    made = board(
        uid="proofstream-latency",
        title="Proof latency",
        text="How long proofs take, which layers are slow, and how far the running ones are.",
        variables=[
            choice("model", "Model", "Which models", "label_values(proofstream_proofs_total, proofstream_proof_model)"),
            choice(
                "backend", "Backend", "What proves", "label_values(proofstream_proofs_total, proofstream_proof_backend)"
            ),
            window(),
        ],
    )
    row(made, "Running now", *_running())
    row(made, "How long proofs take", *_durations())
    row(made, "Which layers are slow", *layers())
    row(made, "Weights, STARK proofs and rounds", *parts())
    row(made, "Proofs that were aborted", *_aborted())
    return made


def _running() -> list[Any]:
    table = PromQueryFormat.TABLE
    by = f"{BY_PROOF}, proofstream_slot"

    def now(metric: str) -> Query:
        return Query(expr=f"max by ({by}) ({proofs(metric)})", once=True, shape=table)

    return [
        number(
            About(
                title="Proofs running",
                text="Proofs that have begun and not ended. A process that was killed keeps its last value for 5 "
                "minutes.",
                unit="short",
                width=4,
            ),
            Query(expr=f"sum(proofstream_proofs_running{{{WHO}}})", legend="running"),
            graph=True,
        ),
        bars(
            About(
                title="Progress",
                text="Layers that the walk has left behind, of those announced. Proofs that run at once have slots.",
                unit="percentunit",
                width=8,
                top=1,
            ),
            Query(expr=f"max by ({by}) ({proofs('proofstream_proof_progress_ratio')})", legend=RUNNING_NAME, once=True),
        ),
        lines(
            About(
                title="Seconds since the last event",
                text="Silence of each running proof, by phase. In `layers` something is open that should speak: a "
                "long silence there means stuck. In `before_layers` (the forward pass) and `between` (after the "
                "last layer) it is normal.",
                unit="s",
                steps=SILENT,
                link=TO_PROOFS,
            ),
            Query(
                expr=f"max by ({by}, proofstream_proof_phase) ({proofs('proofstream_proof_silence_seconds')})",
                legend=f"{RUNNING_NAME}: {{{{proofstream_proof_phase}}}}",
            ),
        ),
        rows(
            About(
                title="Running proofs",
                text="Each running proof: how long it has taken so far, and where it stands.",
                unit="short",
                width=24,
                height=6,
            ),
            ("Time so far", "s", now("proofstream_proof_elapsed_seconds")),
            ("Layers left behind", "short", now("proofstream_proof_layers_closed")),
            ("Layers announced", "short", now("proofstream_proof_layers_total")),
            ("Silent for", "s", now("proofstream_proof_silence_seconds")),
            labels={
                "proofstream_proof_model": "Model",
                "proofstream_proof_backend": "Backend",
                "proofstream_slot": "Slot",
            },
        ),
    ]


def _durations() -> list[Any]:
    last = f"last_over_time(proofstream_proof_last_duration_seconds{{{WHO}}}[$__range])"
    ended = f"last_over_time(proofstream_proof_last_end_time_seconds{{{WHO}}}[$__range])"
    on = f"job, instance, {BY_PROOF}, proofstream_proof_outcome"
    complete = f'{WHO}, proofstream_proof_outcome="complete"'
    shares = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    return [
        number(
            About(
                title="Last proof",
                text="How long the proof took that ended last in the time shown, complete or aborted.",
                unit="s",
                width=5,
                height=5,
                link=TO_PROOFS,
            ),
            Query(
                expr=f"{last} and on ({on}) topk(1, {ended})",
                legend=f"{PROOF_NAME}: {{{{proofstream_proof_outcome}}}}",
                once=True,
            ),
        ),
        number(
            About(
                title="Percentiles",
                text="Of complete proofs in the time shown. Half of them took p50 or less; one of a hundred took "
                "more than p99. Between the bounds of a histogram this is an estimate.",
                unit="s",
                width=9,
                height=5,
                link=TO_PROOFS,
            ),
            *(
                Query(expr=quantile(share, PROOF, complete, over="$__range"), legend=name, once=True)
                for share, name in shares
            ),
        ),
        number(
            About(
                title="Proofs completed",
                text="Complete proofs in the time shown.",
                unit="short",
                width=5,
                height=5,
            ),
            Query(expr=counted(f"proofstream_proofs_total{{{complete}}}"), legend="complete", once=True),
        ),
        number(
            About(
                title="Ended last",
                text="How long ago a proof ended, complete or aborted.",
                unit="s",
                width=5,
                height=5,
            ),
            Query(expr=f"time() - max({ended})", legend="ago", once=True),
        ),
        lines(
            About(
                title="Duration of proofs, percentiles",
                text="Of complete proofs, over the window before each moment. The dots are proofs: a click on one "
                "opens its trace.",
                unit="s",
                link=TO_PROOFS,
            ),
            *(Query(expr=quantile(share, PROOF, complete), legend=name, exemplars=True) for share, name in shares),
        ),
        cells(
            About(
                title="Duration of proofs, spread",
                text="How many proofs took how long; the dots are proofs whose trace opens with a click.",
                unit="s",
            ),
            Query(
                expr=f"sum by (le) (increase({PROOF}_bucket{{{complete}}}[$__rate_interval]))",
                legend="{{le}}",
                exemplars=True,
                shape=PromQueryFormat.HEATMAP,
            ),
        ),
        lines(
            About(
                title="Last duration by model and backend",
                text="How long the last complete proof of each model took. A step here is a change of prover, model "
                "or machine.",
                unit="s",
                link=TO_PROOFS,
            ),
            Query(
                expr=f"max by ({BY_PROOF}) (proofstream_proof_last_duration_seconds{{{complete}}})", legend=PROOF_NAME
            ),
            dots=True,
        ),
        bars(
            About(
                title="p95 by model and backend",
                text="Of complete proofs in the time shown: of twenty, one took longer.",
                unit="s",
                link=TO_PROOFS,
            ),
            Query(
                expr=f"sort_desc({quantile(0.95, PROOF, complete, BY_PROOF, '$__range')})", legend=PROOF_NAME, once=True
            ),
        ),
    ]


def _aborted() -> list[Any]:
    ended = f"proofstream_proofs_total{{{WHO}}}"
    aborted = f'proofstream_proofs_total{{{WHO}, proofstream_proof_outcome="aborted"}}'
    to_aborted = traces("Traces of proofs", "proof")
    return [
        number(
            About(
                title="Aborted share",
                text="Proofs that were aborted, of all that ended in the time shown. The span of an aborted proof "
                "has status ERROR, the reason and the last layer.",
                unit="percentunit",
                width=5,
                steps=((None, "green"), (0.01, "yellow"), (0.05, "red")),
                top=1,
                link=to_aborted,
            ),
            Query(expr=f"{counted(aborted)} / ({counted(ended)} > 0)", legend="aborted", once=True),
        ),
        number(
            About(
                title="Proofs aborted",
                text="Proofs that were aborted in the time shown: without end, or because the prover went away.",
                unit="short",
                width=5,
                steps=BAD_ABOVE_ZERO,
                link=to_aborted,
            ),
            Query(expr=counted(aborted), legend="aborted", once=True),
        ),
        lines(
            About(
                title="Proofs ended, by outcome",
                text="Over the window before each moment.",
                unit="short",
                width=14,
            ),
            Query(
                expr=counted(ended, f"{BY_PROOF}, proofstream_proof_outcome", "$window"),
                legend=f"{PROOF_NAME}: {{{{proofstream_proof_outcome}}}}",
            ),
            stacked=True,
        ),
    ]
