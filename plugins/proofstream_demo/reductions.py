"""The steps that prover and verifier share: start the transcript, combine claims, place the next claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proofstream_demo.circuit import Circuit, Input, Layer, MatMul, Product, Sum
from proofstream_demo.field import M31, QM31, mul, powers, total
from proofstream_demo.multilinear import equality, equality_table, evaluate_matrix, matrix_variables, variables
from proofstream_demo.proof import Claim
from proofstream_demo.transcript import Transcript


@dataclass(frozen=True, kw_only=True, slots=True)
class ReductionShape:
    """A reduction's number of rounds, their degree, and the number of values that become claims."""

    rounds: int
    degree: int
    finals: int


def first_claim(
    transcript: Transcript, circuit: Circuit, commitments: Mapping[str, bytes], inputs: M31, output: M31
) -> Claim:
    """Absorb all public data, then claim the output's value at a random point."""
    # The repr holds the names of the layer classes: renaming one changes every challenge, and so every event.
    transcript.absorb("circuit", repr(circuit.layers).encode())
    for name, commitment in sorted(commitments.items()):
        transcript.absorb(f"commitment {name}", commitment)
    transcript.absorb_elements("input", inputs)
    transcript.absorb_elements("output", output)
    point = transcript.challenges(sum(matrix_variables(circuit.output.shape)))
    return Claim(point, evaluate_matrix(output, point))


def combine_claims(claims: Sequence[Claim], transcript: Transcript) -> tuple[list[QM31], QM31]:
    """Combine several claims about one matrix into one, by a random linear combination.

    With a random a, v0 + a*v1 + a^2*v2 + ... is the sum over x of (eq(r0, x) + a*eq(r1, x) + ...) * t(x). If one of the
    claims is wrong, the sum is wrong, too, except with probability (number of claims) / |QM31|.

    Returns:
        The factors 1, a, a^2, ... and the combined value.
    """
    factors = powers(transcript.challenge(), len(claims))
    return factors, total(np.array([mul(f, c.value) for f, c in zip(factors, claims, strict=True)], dtype=np.uint64))


def selector_table(claims: Sequence[Claim], factors: Sequence[QM31]) -> QM31:
    """Return the table of eq(r0, .) + a*eq(r1, .) + ..., one of the prover's factors."""
    return total(np.array([mul(f, equality_table(c.point)) for f, c in zip(factors, claims, strict=True)]))


def selector_at(claims: Sequence[Claim], factors: Sequence[QM31], point: QM31) -> QM31:
    """Return the value of `selector_table`'s function at one point; the verifier needs no other."""
    return total(np.array([mul(f, equality(c.point, point)) for f, c in zip(factors, claims, strict=True)]))


def split_point(layer: MatMul, point: QM31) -> tuple[QM31, QM31]:
    """Split a point of the product into its row's and its column's coordinates."""
    rows, _ = matrix_variables(layer.shape)
    return point[:rows], point[rows:]


def factor_points(layer: MatMul, point: QM31, inner: QM31) -> tuple[QM31, QM31]:
    """Return the points to evaluate the two factors at, once the sumcheck over the inner dimension ends at `inner`."""
    row, col = split_point(layer, point)
    right = (col, inner) if layer.transposed else (inner, col)
    return np.concatenate((row, inner)), np.concatenate(right)


def reduction_shapes(circuit: Circuit, layer: Layer, claims: int) -> tuple[ReductionShape, ...]:
    """Return the shapes of the reductions that a layer with `claims` claims takes, in order."""
    entries = sum(matrix_variables(layer.shape))
    match layer:
        case Input():
            return ()
        case MatMul():
            inner = ReductionShape(rounds=variables(circuit.layers[layer.left].shape[1]), degree=2, finals=2)
            merge = ReductionShape(rounds=entries, degree=2, finals=1)
            return (merge, inner) if claims > 1 else (inner,)
        case Product():
            return (ReductionShape(rounds=entries, degree=3, finals=len(layer.inputs)),)
        case Sum():
            return (ReductionShape(rounds=0, degree=0, finals=2 * claims),)
