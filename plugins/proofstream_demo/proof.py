"""The proof that the prover hands to the verifier, and the exceptions for a proof that is not made or not accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proofstream_demo.field import M31, QM31, is_canonical


class ProofRejected(Exception):
    """The proof does not show its claim; the message says where."""


class ProverError(Exception):
    """The prover found by its own checks that it would prove something false; the message says where."""


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
class Opening:
    """Shows the value of a committed weight matrix at the point of the claim about it; see `commitment`.

    Attributes:
        row: The combination of the matrix's rows: shape (columns, 4).
        nonces: The parts of the proof of work before the queries.
        columns: The encoded matrix's columns that the queries asked for: shape (queries, rows).
        paths: Each column's path to the root.
    """

    row: QM31
    nonces: tuple[int, ...]
    columns: M31
    paths: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True, slots=True)
class GkrProof:
    """A proof that a model with committed weights computes `output` from an input that the verifier knows.

    Attributes:
        output: The last layer's values.
        commitments: The root of each weight matrix's tree, by name.
        layers: By layer index. The prover makes them from the last to the first.
        openings: By the weight matrix's name.
    """

    output: M31
    commitments: Mapping[str, bytes]
    layers: tuple[LayerProof, ...]
    openings: Mapping[str, Opening]


def check_elements(elements: QM31 | M31, shape: tuple[int, ...]) -> None:
    """Check the form of a part of a proof.

    Raises:
        ProofRejected: The array has another shape, or an element that could be written in another way.
    """
    if elements.shape != shape or elements.dtype != np.uint64:
        raise ProofRejected(f"elements of the shape {elements.shape} instead of {shape}")
    if not is_canonical(elements):
        raise ProofRejected("a limb is not below the prime")
