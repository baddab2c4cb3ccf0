"""What the dashboard "Proof latency" shows of layers, weights, STARK proofs and rounds."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.kit import BY_PROOF, PROOF_NAME, WHO, About, Query, bars, lines, number, quantile, rows, traces

LAYER = "proofstream_layer_duration_seconds"


def layers() -> list[Any]:
    """Panels about layers."""
    table = PromQueryFormat.TABLE
    kind = "proofstream_layer_kind"
    spent = f"sum by ({kind}) (increase({LAYER}_sum{{{WHO}}}[$__range]))"
    number_of = f"sum by ({kind}) (increase({LAYER}_count{{{WHO}}}[$__range]))"
    whole = f"scalar(sum(increase({LAYER}_sum{{{WHO}}}[$__range])))"
    to_layers = traces("Traces with such a layer", "layer ${__data.fields.Kind}")
    return [
        rows(
            About(
                title="Slowest kinds of layers",
                text="Where the time of the layers goes: share of all of it, time spent, mean and p95 of one layer. "
                "A click leads to traces with such a layer.",
                unit="short",
                link=to_layers,
            ),
            ("Share", "percentunit", Query(expr=f"{spent} / {whole} >= 0", once=True, shape=table)),
            ("Time spent", "s", Query(expr=spent, once=True, shape=table)),
            ("Mean", "s", Query(expr=f"{spent} / ({number_of} > 0)", once=True, shape=table)),
            ("p95", "s", Query(expr=quantile(0.95, LAYER, WHO, kind, "$__range"), once=True, shape=table)),
            labels={kind: "Kind"},
        ),
        lines(
            About(
                title="Duration of a layer by kind, p95",
                text="Over the window before each moment: of twenty layers of a kind, one took longer. Dots lead to "
                "traces.",
                unit="s",
            ),
            Query(expr=quantile(0.95, LAYER, WHO, kind), legend=f"{{{{{kind}}}}}", exemplars=True),
        ),
        lines(
            About(
                title="Time spent by kind of layer",
                text="What the layers of each kind took together, over the window before each moment.",
                unit="s",
            ),
            Query(expr=f"sum by ({kind}) (increase({LAYER}_sum{{{WHO}}}[$window]))", legend=f"{{{{{kind}}}}}"),
            stacked=True,
        ),
        bars(
            About(
                title="Mean duration by kind of proof",
                text="How long a layer takes, by how it is proved. Layers whose end was not seen have none.",
                unit="s",
            ),
            Query(
                expr=f"sort_desc(sum by (proofstream_layer_proof_kind) (increase({LAYER}_sum{{{WHO}}}[$__range]))"
                f" / (sum by (proofstream_layer_proof_kind) (increase({LAYER}_count{{{WHO}}}[$__range])) > 0))",
                legend="{{proofstream_layer_proof_kind}}",
                once=True,
            ),
        ),
    ]


def parts() -> list[Any]:
    """Panels about what comes beside the layers."""
    metrics = (
        ("proofstream_weight_opening_duration_seconds", "weight opening"),
        ("proofstream_weight_binding_duration_seconds", "weight binding"),
        ("proofstream_stark_duration_seconds", "STARK proof"),
    )
    return [
        lines(
            About(
                title="Duration of openings, bindings and STARK proofs, p95",
                text="What comes beside the layers, over the window before each moment.",
                unit="s",
                width=10,
            ),
            *(Query(expr=quantile(0.95, metric, WHO), legend=name, exemplars=True) for metric, name in metrics),
        ),
        lines(
            About(
                title="Sumcheck rounds by kind of layer",
                text="How many rounds were seen, over the window before each moment.",
                unit="short",
                width=9,
            ),
            Query(
                expr=f"sum by (proofstream_layer_kind) (increase(proofstream_rounds_total{{{WHO}}}[$window]))",
                legend="{{proofstream_layer_kind}}",
            ),
            stacked=True,
        ),
        number(
            About(
                title="Calldata of the last weight binding",
                text="Its estimated size in felts, as the prover reports it: what a verification on chain has to "
                "carry.",
                unit="suffix: felts",
                width=5,
            ),
            Query(
                expr=f"max by ({BY_PROOF})"
                f" (last_over_time(proofstream_weight_binding_estimated_calldata{{{WHO}}}[$__range]))",
                legend=PROOF_NAME,
                once=True,
            ),
        ),
    ]
