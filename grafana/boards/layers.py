"""Panels of the dashboard "Proof latency" about layers, weights, STARK proofs and rounds."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.kit import BY_PROOF, PROOF_NAME, WHO, About, Query, bars, lines, number, quantile, rows, traces

LAYER = "proofstream_layer_duration_seconds"


def layers() -> list[Any]:
    """Build the panels about layers."""
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
                text="Where the layers' time goes: share of the total, time spent, mean and p95 of one layer. "
                "Click a value to see traces with such a layer.",
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
                text="One of twenty layers took longer than this, over the window before each point. Click a dot to "
                "open its trace.",
                unit="s",
            ),
            Query(expr=quantile(0.95, LAYER, WHO, kind), legend=f"{{{{{kind}}}}}", exemplars=True),
        ),
        lines(
            About(
                title="Time spent by kind of layer",
                text="Total time of the layers of each kind, over the window before each point.",
                unit="s",
            ),
            Query(expr=f"sum by ({kind}) (increase({LAYER}_sum{{{WHO}}}[$window]))", legend=f"{{{{{kind}}}}}"),
            stacked=True,
        ),
        bars(
            About(
                title="Mean duration by kind of proof",
                text="Mean duration of a layer by the kind of its proof. Layers without an end event do not count.",
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
    """Build the panels about weights, STARK proofs and rounds."""
    metrics = (
        ("proofstream_weight_opening_duration_seconds", "weight opening"),
        ("proofstream_weight_binding_duration_seconds", "weight binding"),
        ("proofstream_stark_duration_seconds", "STARK proof"),
    )
    return [
        lines(
            About(
                title="Duration of openings, bindings and STARK proofs, p95",
                text="One of twenty took longer than this, over the window before each point.",
                unit="s",
                width=10,
            ),
            *(Query(expr=quantile(0.95, metric, WHO), legend=name, exemplars=True) for metric, name in metrics),
        ),
        lines(
            About(
                title="Sumcheck rounds by kind of layer",
                text="Number of sumcheck rounds, over the window before each point.",
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
                text="The prover's estimate, in felts, of the calldata that an on-chain verification needs.",
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
