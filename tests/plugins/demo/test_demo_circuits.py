"""Honest proofs of random circuits verify, however the layers are connected; forged proofs do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proofstream_demo.circuit import Circuit, Input, Layer, MatMul, Product, Sum, evaluate_circuit
from proofstream_demo.field import PRIME, Integers
from proofstream_demo.models import DemoModel
from proofstream_demo.proof import GkrProof, ProofRejected
from proofstream_demo.prover import prove
from proofstream_demo.verifier import verify

SIDES = (1, 2, 3, 4)
"""A side of 1 has no variables, so that some sumchecks have no rounds; 3 is padded."""


def random_matrix(draw: Callable[[st.SearchStrategy[int]], int], side: int) -> Integers:
    return np.random.default_rng(draw(st.integers(0, 2**32))).integers(-3, 4, size=(side, side))


@st.composite
def runs(draw: Callable[..., int]) -> tuple[DemoModel, Integers]:
    """Draw a circuit of square matrices whose layers use any earlier layers, and an input that fits into the field."""
    side = draw(st.sampled_from(SIDES))
    shape = (side, side)
    layers: list[Layer] = [Input("input", shape)]
    weights: dict[str, Integers] = {}
    for number in range(draw(st.integers(1, 5))):
        left, right = (draw(st.integers(0, len(layers) - 1)) for _ in range(2))
        match draw(st.integers(0, 3)):
            case 0:
                weights[f"W{number}"] = random_matrix(draw, side)
                layers.append(MatMul(f"m{number}", shape, left, f"W{number}", transposed=bool(right % 2)))
            case 1:
                layers.append(MatMul(f"a{number}", shape, left, right, transposed=bool(draw(st.booleans()))))
            case 2:
                layers.append(Product(f"p{number}", shape, left, right))
            case _:
                layers.append(Sum(f"s{number}", shape, left, right))
    _use_all(layers, shape)
    model = DemoModel("any", "any circuit", Circuit(tuple(layers), weights))
    inputs = random_matrix(draw, side)
    assume(_fits(model, inputs))
    return model, inputs


def _use_all(layers: list[Layer], shape: tuple[int, int]) -> None:
    """Add up the unused layers until only the output is unused."""
    used = {source for layer in layers for source in layer.inputs}
    idle = [index for index in range(len(layers)) if index not in used]
    while len(idle) > 1:
        layers.append(Sum(f"u{len(layers)}", shape, idle[0], idle[1]))
        idle = [*idle[2:], len(layers) - 1]


def _fits(model: DemoModel, inputs: Integers) -> bool:
    try:
        evaluate_circuit(model.circuit, inputs)
    except ValueError:
        return False
    return True


@settings(max_examples=60)
@given(runs())
def test_an_honest_proof_of_any_circuit_verifies(run: tuple[DemoModel, Integers]) -> None:
    model, inputs = run
    proof = prove(model, inputs)
    assert verified(model, proof, inputs)


@settings(max_examples=40)
@given(runs(), st.data())
def test_another_output_of_any_circuit_is_rejected(run: tuple[DemoModel, Integers], data: st.DataObject) -> None:
    model, inputs = run
    proof = prove(model, inputs)
    entry = data.draw(st.integers(0, proof.output.size - 1))
    flat = proof.output.reshape(-1)
    flat[entry] = (int(flat[entry]) + data.draw(st.integers(1, PRIME - 1))) % PRIME
    assert not verified(model, proof, inputs)


def verified(model: DemoModel, proof: GkrProof, inputs: Integers) -> bool:
    try:
        verify(model, proof, inputs)
    except ProofRejected:
        return False
    return True
