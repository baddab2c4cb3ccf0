"""Commitments to weight matrices, and openings of their multilinear extensions at a point.

To commit, each row of a matrix is encoded (Reed-Solomon, four times as long), and a Merkle tree is built whose leaves
are the columns of the result; its root is the commitment. The value at a point (r, c) is the sum over all rows i and
columns j of eq(r, i) * W(i, j) * eq(c, j). To open it, the prover sends the row u = sum over i of eq(r, i) * W(i, .),
and the verifier computes the rest. Encoding is linear. So the encoded u is, at each place, the same combination of that
place's column, and the verifier checks this at columns that the transcript draws, each with its path to the root. It
needs the root, but not the matrix.

If no matrix's encoding is near the columns, a query notices it with probability 3/8 or more; all `QUERIES` miss it
with probability 2^-32 at most. Before the draw the prover also does a proof of work, as STARK provers do
("grinding"), so that trying again for better places costs as much again. It has `PUZZLES` parts, which makes the time
depend less on luck. These are figures of a demonstration.

After S. Ames, C. Hazay, Y. Ishai, M. Venkitasubramaniam, "Ligero", 2017, and B. Diamond, J. Posen, "Proximity testing
with logarithmic randomness", 2023, by which a combination with eq(r, .) shows that the columns are near an encoding.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proofstream_demo.circuit import Circuit
from proofstream_demo.field import LIMBS, M31, PRIME, QM31, Integers, embed, equal, lift, mul, total
from proofstream_demo.merkle import HASH_BYTES, MerkleTree, root_of_path
from proofstream_demo.multilinear import equality_table, matrix_variables, padded
from proofstream_demo.proof import Claim, Opening, ProofRejected, check_elements
from proofstream_demo.transcript import Transcript

BLOWUP = 4
QUERIES = 48
PUZZLES = 16

_P = np.uint64(PRIME)


class Committed:
    """A matrix with its encoding and its tree, as the prover keeps them."""

    def __init__(self, matrix: M31) -> None:
        self.shape: tuple[int, int] = matrix.shape
        self.matrix = padded(matrix)
        self.columns = np.ascontiguousarray(encode(self.matrix).T)
        self.tree = MerkleTree([_leaf(column) for column in self.columns])


def published(circuit: Circuit) -> Mapping[str, bytes]:
    """Return the commitments to a circuit's weights, by name: what the owner of a model publishes, once."""
    return {name: commit(matrix) for name, matrix in circuit.weights.items()}


def commit(matrix: Integers) -> bytes:
    """Return the commitment to one matrix."""
    return Committed(embed(matrix)).tree.root


def combined_row(matrix: M31, point: QM31) -> QM31:
    """Return the combination of a padded matrix's rows that stands in an opening: shape (columns, 4)."""
    selector = equality_table(point).reshape(-1, 1, LIMBS)
    return total(mul(np.broadcast_to(selector, (*matrix.shape, LIMBS)), lift(matrix)))


def value_of_row(row: QM31, point: QM31) -> QM31:
    """Return the value at a point of the matrix whose rows were combined into `row`."""
    return total(mul(row, equality_table(point)))


def answer_queries(committed: Committed, row: QM31, nonces: tuple[int, ...], transcript: Transcript) -> Opening:
    """Open the columns that the transcript draws, once it has absorbed the combined row and the proof of work."""
    places = _draw_places(transcript, len(committed.columns))
    paths = tuple(committed.tree.path(place) for place in places)
    return Opening(row=row, nonces=nonces, columns=committed.columns[places], paths=paths)


def check_opening(
    root: bytes, shape: tuple[int, int], claim: Claim, opening: Opening, transcript: Transcript, *, grinding_bits: int
) -> None:
    """Check that the matrix behind a commitment takes the claimed value at the claimed point.

    Raises:
        ProofRejected: The opening does not show it.
    """
    row_bits, col_bits = matrix_variables(shape)
    check_elements(opening.row, (1 << col_bits, LIMBS))
    row_point, col_point = claim.point[:row_bits], claim.point[row_bits:]
    if not equal(value_of_row(opening.row, col_point), claim.value):
        raise ProofRejected("the combined row does not have the claimed value")
    transcript.absorb_elements("row", opening.row)
    if len(opening.nonces) != PUZZLES or not all(transcript.check_grinding(n, grinding_bits) for n in opening.nonces):
        raise ProofRejected("the proof of work was not done")
    places = _draw_places(transcript, BLOWUP << col_bits)
    check_elements(opening.columns, (len(places), 1 << row_bits))
    _check_paths(root, places, opening, height=col_bits + BLOWUP.bit_length() - 1)
    expected = combined_row(np.ascontiguousarray(opening.columns.T), row_point)
    if not equal(_encode_elements(opening.row)[places], expected):
        raise ProofRejected("the combined row is not one of the committed columns")


def encode(rows: M31) -> M31:
    """Encode rows: a row holds a polynomial's coefficients, its code the values at the places 0, 1, 2, ..."""
    places = np.arange(BLOWUP * rows.shape[1], dtype=np.uint64)
    values = np.zeros((rows.shape[0], len(places)), dtype=np.uint64)
    for coefficients in rows.T[::-1]:
        values = (values * places + coefficients[:, np.newaxis]) % _P
    return values


def _encode_elements(row: QM31) -> QM31:
    return np.ascontiguousarray(encode(np.ascontiguousarray(row.T)).T)


def _draw_places(transcript: Transcript, count: int) -> list[int]:
    """Draw the columns to open; a column that is drawn twice is opened once."""
    return sorted(set(transcript.positions(QUERIES, count)))


def _leaf(column: M31) -> bytes:
    return column.astype("<u4").tobytes()


def _check_paths(root: bytes, places: list[int], opening: Opening, *, height: int) -> None:
    if len(opening.paths) != len(places):
        raise ProofRejected("the wrong number of paths")
    for place, column, path in zip(places, opening.columns, opening.paths, strict=True):
        if len(path) != height or any(len(beside) != HASH_BYTES for beside in path):
            raise ProofRejected(f"the path of column {place} has another height than the tree")
        if root_of_path(_leaf(column), place, path) != root:
            raise ProofRejected(f"column {place} is not in the tree")
