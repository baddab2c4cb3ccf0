"""Describes circuits and layers in the vocabulary of events: their kinds, shapes, costs and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofstream import (
    AttentionHeatmap,
    CircuitCompiled,
    CircuitNode,
    LayerActivation,
    LayerKind,
    LayerProofKind,
    LayerStart,
    activation,
    attention_heatmap,
    claim_approx,
    matmul_trace_cost,
)
from proofstream_demo.circuit import Circuit, Input, Layer, MatMul, Product, Sum
from proofstream_demo.field import QM31, Integers, as_secure_field, embed
from proofstream_demo.models import DemoModel, attention_weights
from proofstream_demo.proof import Claim


def compiled(circuit: Circuit) -> CircuitCompiled:
    """Make the event of the circuit's graph; a layer's node has the layer's index."""
    return CircuitCompiled(
        total_layers=len(circuit.layers),
        input_shape=circuit.layers[0].shape,
        output_shape=circuit.output.shape,
        nodes=[
            CircuitNode(
                layer_idx=index,
                node_id=index,
                kind=kind_of_layer(layer),
                input_shape=input_shape(circuit, layer),
                output_shape=layer.shape,
                trace_cost=trace_cost(circuit, layer),
                input_layers=layer.inputs,
            )
            for index, layer in enumerate(circuit.layers)
        ],
        has_simd=False,
        simd_num_blocks=0,
    )


def layer_start(circuit: Circuit, index: int, claim: Claim) -> LayerStart:
    """Make the event at the start of a layer's reduction."""
    layer = circuit.layers[index]
    return LayerStart(
        layer_idx=index,
        kind=kind_of_layer(layer),
        input_shape=input_shape(circuit, layer),
        output_shape=layer.shape,
        trace_cost=trace_cost(circuit, layer),
        claim_value_approx=approx(claim.value),
        gpu_device=None,
    )


def kind_of_layer(layer: Layer) -> LayerKind:
    """Return the vocabulary's kind for the layer's computation."""
    match layer:
        case Input():
            return LayerKind.Input
        case MatMul():
            return LayerKind.MatMul
        case Product():
            return LayerKind.Activation if layer.is_square else LayerKind.Mul
        case Sum():
            return LayerKind.Add


def proof_kind_of(layer: Layer) -> LayerProofKind:
    """Return the kind of the layer's proof. The input needs no proof, because the verifier evaluates it itself."""
    match layer:
        case Input():
            return LayerProofKind.Skipped
        case MatMul() | Product():
            return LayerProofKind.Sumcheck
        case Sum():
            return LayerProofKind.Linear


def input_shape(circuit: Circuit, layer: Layer) -> tuple[int, int]:
    """Return the shape of the first layer that `layer` is computed from; for the input, its own shape."""
    return circuit.layers[layer.inputs[0]].shape if layer.inputs else layer.shape


def trace_cost(circuit: Circuit, layer: Layer) -> int:
    """Count trace cells: those of the whole product for matrices, otherwise one for each entry."""
    rows, cols = layer.shape
    if isinstance(layer, MatMul):
        return matmul_trace_cost(rows, circuit.layers[layer.left].shape[1], cols)
    return rows * cols


def activation_of(index: int, layer: Layer, values: Integers) -> LayerActivation:
    """Make the event of a layer's values, as raw M31 integers."""
    return activation(
        layer_idx=index,
        node_id=index,
        kind=kind_of_layer(layer),
        output_shape=layer.shape,
        values=[int(value) for value in embed(values).reshape(-1)],
    )


def heatmaps(model: DemoModel, values: Sequence[Integers]) -> Iterator[AttentionHeatmap]:
    """Make an event for each head: the share of attention that each token gives to each other, by magnitude."""
    for head, index in enumerate(model.attention):
        yield attention_heatmap(
            layer_idx=index,
            head_idx=head,
            num_heads=len(model.attention),
            scores=attention_weights(values[index]),
        )


def approx(value: QM31) -> float:
    """Return a claim's value as a number from 0 to 1, for display."""
    return claim_approx(as_secure_field(value))
