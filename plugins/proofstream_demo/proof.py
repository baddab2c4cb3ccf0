"""The proof that the prover hands to the verifier, and the exception for a proof that the verifier rejects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proofstream_demo.field import M31, QM31


class ProofRejected(Exception):
    """The proof does not show its claim; the message says where."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that a matrix's multilinear extension has this value at this point.

    Attributes:
        point: Row coordinates, then column coordinates: shape (n, 4).
        value: One element.
    """

    point: QM31
    value: QM31


@dataclass(frozen=True, slots=True)
class Reduction:
    """One step from claims about a layer's output to claims about its inputs.

    Attributes:
        rounds: The sumcheck's polynomials: shape (rounds, degree + 1, 4); no rounds for a linear reduction.
        finals: The values that become the next claims: shape (m, 4).
    """

    rounds: QM31
    finals: QM31


LayerProof = tuple[Reduction, ...]
"""A layer's reductions, in order; none for an input."""


@dataclass(frozen=True, slots=True)
class GkrProof:
    """A proof that a model with committed weights computes `output` from an input that the verifier knows.

    Attributes:
        output: The last layer's values.
        commitments: The hash of each weight matrix, by name.
        layers: By layer index. The prover makes them from the last to the first.
    """

    output: M31
    commitments: Mapping[str, bytes]
    layers: tuple[LayerProof, ...]
