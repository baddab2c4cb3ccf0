"""A page of OpenTelemetry SDK code that exports a prover's stream, as a user would write it by hand.

python sdk_page.py STREAM URL

It makes the spans of the session, of proofs and layers, with the events and the reported attributes that proofstream
exports by default, under the same names. It makes no metrics; times are those of reading; it checks nothing, keeps one
proof at a time, survives no line that it does not know, and its queue has no bound that would ever drop a span.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

ROUND, ACTIVATION = "proofstream.sumcheck.round", "proofstream.layer.activation"


def present(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}


def coefficients(polynomial: dict[str, dict[str, int]]) -> str:
    return ";".join(",".join(map(str, limbs.values())) for limbs in polynomial.values())


def main() -> None:  # noqa: C901 - written down as it comes to mind, as such pages are
    provider = TracerProvider(span_limits=SpanLimits(max_events=1024))
    exporter = OTLPSpanExporter(endpoint=f"{sys.argv[2]}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=1_000_000))
    tracer = provider.get_tracer("page")
    session = tracer.start_span("session", attributes={"proofstream.session.source": sys.argv[1]})
    proof, context, layers, activations = None, None, {}, []
    for line in Path(sys.argv[1]).open("rb"):  # noqa: SIM115
        ((kind, event),) = msgspec.json.decode(line).items()
        if kind == "SumcheckRound":
            polynomial = event["poly_deg2"] or event["poly_deg3"]
            layer, first_claim, total = layers[event["layer_idx"]]
            layers[event["layer_idx"]] = layer, first_claim, total + 1
            claim, number = event["claim_value_approx"], event["round"]
            if number and first_claim and math.isclose(claim, first_claim / 2**number, rel_tol=1e-6):
                claim = None  # made up: the layer's first claim, halved once a round
            attributes = {
                "proofstream.round.index": number,
                "proofstream.round.total": event["total_rounds"],
                "proofstream.round.degree": 2 if event["poly_deg2"] else 3,
                "proofstream.round.coefficients": coefficients(polynomial),
                "proofstream.round.claim": claim,
            }
            layer.add_event(ROUND, present(attributes))
        elif kind == "LayerStart":
            attributes = {
                "proofstream.layer.index": event["layer_idx"],
                "proofstream.layer.kind": event["kind"],
                "proofstream.layer.input_shape": event["input_shape"],
                "proofstream.layer.output_shape": event["output_shape"],
                "proofstream.layer.trace_cost": event["trace_cost"],
                "proofstream.layer.claim": event["claim_value_approx"],
            }
            layer = tracer.start_span(f"layer {event['kind']}", context=context, attributes=present(attributes))
            layers[event["layer_idx"]] = layer, event["claim_value_approx"], 0
        elif kind == "LayerEnd":
            layer, _, total = layers.pop(event["layer_idx"])
            attributes = {
                "proofstream.layer.proof_kind": event["kind"],
                "proofstream.layer.final_claim": event["final_claim_value_approx"],
                "proofstream.layer.reported_duration_ms": event["duration_ms"],
                "proofstream.rounds.total": total,
            }
            layer.set_attributes(present(attributes))
            layer.end()
        elif kind == "LayerActivation":
            stats = {f"proofstream.stats.{name}": value for name, value in event["stats"].items()}
            attributes = {
                "proofstream.layer.index": event["layer_idx"],
                "proofstream.layer.node_id": event["node_id"],
                "proofstream.layer.kind": event["kind"],
                "proofstream.layer.output_shape": event["output_shape"],
                "proofstream.stats.sample_size": len(event["output_sample"]),
                **stats,
            }
            activations.append(present(attributes))
        elif kind == "ProofStart":
            attributes = {
                "proofstream.proof.model": event["model_name"],
                "proofstream.proof.backend": event["backend"],
                "proofstream.proof.num_layers": event["num_layers"],
                "proofstream.proof.input_shape": event["input_shape"],
                "proofstream.proof.output_shape": event["output_shape"],
            }
            links = [trace.Link(session.get_span_context())]
            proof = tracer.start_span("proof", attributes=present(attributes), links=links)
            context = trace.set_span_in_context(proof)
            for attributes in activations:
                proof.add_event(ACTIVATION, attributes)
            activations.clear()
        elif kind == "ProofComplete" and proof:
            attributes = {
                "proofstream.proof.reported_layer_proofs": event["num_layer_proofs"],
                "proofstream.proof.reported_weight_openings": event["num_weight_openings"],
                "proofstream.proof.reported_weight_binding_mode": event["weight_binding_mode"],
            }
            proof.set_attributes(attributes)
            proof.end()
    session.end()
    provider.shutdown()


main()
