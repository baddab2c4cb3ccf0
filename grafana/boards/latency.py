"""The dashboard "Proof latency", which shows durations of proofs and layers, and the progress of running proofs."""

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
PHASE = "proofstream_proof_phase"


def latency() -> Dashboard:
    """Build the dashboard."""
    made = board(
        uid="proofstream-latency",
        title="Proof latency",
        text="How long proofs take, which layers are slow, and how far running proofs are.",
        variables=[
            choice(
                "model", "Model", "Models to show", "label_values(proofstream_proofs_total, proofstream_proof_model)"
            ),
            choice(
                "backend",
                "Backend",
                "Backends to show",
                "label_values(proofstream_proofs_total, proofstream_proof_backend)",
            ),
            window(),
        ],
    )
    row(made, "Running now", *_running())
    row(made, "How long proofs take", *_durations())
    row(made, "What proofs spend their time on", *_stages())
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
                text="Proofs that have started and not ended. The last value of a killed process stays for 5 minutes.",
                unit="short",
                width=4,
            ),
            Query(expr=f"sum(proofstream_proofs_running{{{WHO}}})", legend="running"),
            graph=True,
        ),
        bars(
            About(
                title="Progress",
                text="Share of the announced layers that are finished. Proofs that run at the same time have "
                "different slots.",
                unit="percentunit",
                width=8,
                top=1,
            ),
            Query(expr=f"max by ({by}) ({proofs('proofstream_proof_progress_ratio')})", legend=RUNNING_NAME, once=True),
        ),
        lines(
            About(
                title="Seconds since the last event",
                text="Silence of each running proof, by phase. Compare it with the longest silence of the "
                "last proof. Silence is normal in `before_layers` (the forward pass) and "
                "`after_layers` (commitments).",
                unit="s",
                link=TO_PROOFS,
            ),
            Query(
                expr=f"max by ({by}, proofstream_proof_phase) ({proofs('proofstream_proof_silence_seconds')})",
                legend=f"{RUNNING_NAME}: {{{{proofstream_proof_phase}}}}",
            ),
        ),
        bars(
            About(
                title="Longest silence of the last proof",
                text="Longest time without an event in the proof that completed last, by phase. More than three times "
                "the longest of the last day fires ProofStuck.",
                unit="s",
                width=8,
                height=6,
            ),
            Query(
                expr=f"max by ({BY_PROOF}, {PHASE}) (proofstream_proof_longest_silence_seconds{{{WHO}}})",
                legend=f"{PROOF_NAME}: {{{{{PHASE}}}}}",
                once=True,
            ),
        ),
        rows(
            About(
                title="Running proofs",
                text="Time and progress of each running proof.",
                unit="short",
                width=16,
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
                text="Duration of the last proof that ended in the time range, complete or aborted.",
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
                text="Percentiles of the durations of complete proofs in the time range. Half took p50 or less; one "
                "of a hundred took more than p99. Values are estimated between the bounds of a histogram.",
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
                text="Number of complete proofs in the time range.",
                unit="short",
                width=5,
                height=5,
            ),
            Query(expr=counted(f"proofstream_proofs_total{{{complete}}}"), legend="complete", once=True),
        ),
        number(
            About(
                title="Ended last",
                text="Time since the last proof ended, complete or aborted.",
                unit="s",
                width=5,
                height=5,
            ),
            Query(expr=f"time() - max({ended})", legend="ago", once=True),
        ),
        lines(
            About(
                title="Duration of proofs, percentiles",
                text="Complete proofs, over the window before each point. Each dot is a proof; click it to open its "
                "trace.",
                unit="s",
                link=TO_PROOFS,
            ),
            *(Query(expr=quantile(share, PROOF, complete), legend=name, exemplars=True) for share, name in shares),
        ),
        cells(
            About(
                title="Duration of proofs, spread",
                text="Number of complete proofs by duration. Each dot is a proof; click it to open its trace.",
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
                text="Duration of the last complete proof of each model and backend. A step means that the prover, "
                "the model or the machine changed.",
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
                text="One of twenty complete proofs in the time range took longer than this.",
                unit="s",
                link=TO_PROOFS,
            ),
            Query(
                expr=f"sort_desc({quantile(0.95, PROOF, complete, BY_PROOF, '$__range')})", legend=PROOF_NAME, once=True
            ),
        ),
    ]


def _stages() -> list[Any]:
    stage, phase = "proofstream_proof_phase_duration_seconds", "proofstream_phase_duration_seconds"
    complete = f'{WHO}, proofstream_proof_outcome="complete"'
    name = "proofstream_phase_name"
    return [
        lines(
            About(
                title="Time before, in and after the layers",
                text="Total time of complete proofs in each phase, over the window before each point.",
                unit="s",
            ),
            Query(expr=f"sum by ({PHASE}) (increase({stage}_sum{{{complete}}}[$window]))", legend=f"{{{{{PHASE}}}}}"),
            stacked=True,
        ),
        lines(
            About(
                title="Duration of each phase, p95",
                text="In one of twenty complete proofs the phase took longer than this, over the window before each "
                "point. Click a dot to open the proof's trace.",
                unit="s",
                link=TO_PROOFS,
            ),
            Query(expr=quantile(0.95, stage, complete, PHASE), legend=f"{{{{{PHASE}}}}}", exemplars=True),
        ),
        lines(
            About(
                title="Duration of the producer's own phases, p95",
                text="One of twenty took longer than this, over the window before each point. Shows the phases that "
                "otel.phase_metrics names.",
                unit="s",
                width=24,
            ),
            Query(expr=quantile(0.95, phase, WHO, name), legend=f"{{{{{name}}}}}", exemplars=True),
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
                text="Share of aborted proofs among those that ended in the time range. The span of an aborted proof "
                "has the status ERROR, the reason, and where it died.",
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
                text="Number of proofs aborted in the time range: without an end event, or because the prover "
                "disconnected.",
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
                text="Number of proofs that ended, over the window before each point.",
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
