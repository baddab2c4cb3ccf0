"""Openings show a matrix's value; changed, moved or misshapen ones show nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofstream_demo import models
from proofstream_demo.commitment import (
    BLOWUP,
    PUZZLES,
    QUERIES,
    Committed,
    answer_queries,
    check_opening,
    combined_row,
    commit,
    encode,
)
from proofstream_demo.field import PRIME, Integers, embed
from proofstream_demo.models import Example, digits, transformer
from proofstream_demo.multilinear import evaluate_matrix, matrix_variables
from proofstream_demo.proof import Claim, Opening, ProofRejected
from proofstream_demo.prover import prove
from proofstream_demo.transcript import Transcript

BITS = 2
MATRIX: Integers = np.arange(15, dtype=np.int64).reshape(3, 5) - 7


def opened(matrix: Integers, seed: bytes = b"") -> tuple[Claim, Opening]:
    """Make a claim about a matrix at a random point, and open its commitment there."""
    elements = embed(matrix)
    transcript = started(seed)
    rows, cols = matrix_variables(elements.shape)
    point = transcript.challenges(rows + cols)
    claim = Claim(point, evaluate_matrix(elements, point))
    committed = Committed(elements)
    row = combined_row(committed.matrix, point[:rows])
    transcript.absorb_elements("row", row)
    nonces = tuple(transcript.grind(BITS) for _ in range(PUZZLES))
    return claim, answer_queries(committed, row, nonces, transcript)


def started(seed: bytes) -> Transcript:
    transcript = Transcript()
    transcript.absorb("seed", seed)
    return transcript


def check(matrix: Integers, claim: Claim, opening: Opening, seed: bytes = b"", bits: int = BITS) -> None:
    transcript = started(seed)
    transcript.challenges(len(claim.point))
    check_opening(commit(matrix), matrix.shape, claim, opening, transcript, grinding_bits=bits)


@settings(max_examples=30)
@given(rows=st.integers(1, 9), cols=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_an_opening_of_any_matrix_shows_its_value(rows: int, cols: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(-(2**30), 2**30, size=(rows, cols))
    claim, opening = opened(matrix)
    check(matrix, claim, opening)
    wrong = Claim(claim.point, (claim.value + np.uint64(1)) % np.uint64(PRIME))
    with pytest.raises(ProofRejected, match="does not have the claimed value"):
        check(matrix, wrong, opening)


@settings(max_examples=20)
@given(st.data())
def test_a_matrix_with_any_entry_changed_has_another_commitment(data: st.DataObject) -> None:
    other = MATRIX.copy()
    other[data.draw(st.integers(0, 2)), data.draw(st.integers(0, 4))] += data.draw(st.integers(1, PRIME - 1))
    assert commit(other) != commit(MATRIX)
    claim, opening = opened(MATRIX)
    with pytest.raises(ProofRejected, match="column 0 is not in the tree"):
        check(other, claim, opening)


def test_a_code_is_linear_and_two_codes_agree_in_few_places() -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.integers(0, PRIME, size=(1, 16), dtype=np.uint64) for _ in range(2))
    both = (x + y) % np.uint64(PRIME)
    assert np.array_equal(encode(both), (encode(x) + encode(y)) % np.uint64(PRIME))
    assert encode(x).shape == (1, 16 * BLOWUP)
    assert np.count_nonzero(encode(x) == encode(y)) < 16
    assert encode(np.array([[3, 1, 2]], dtype=np.uint64))[0, :3].tolist() == [3, 6, 13]  # 3 + x + 2x^2


def test_queries_are_many_and_not_the_same_ones_for_each_transcript() -> None:
    matrix = np.ones((2, 64), dtype=np.int64)
    columns = [opened(matrix, seed)[1].columns for seed in (b"1", b"2")]
    places = [started(seed).positions(QUERIES, 256) for seed in (b"1", b"2")]
    assert places[0] != places[1]
    assert all(len(drawn) == QUERIES and set(drawn) <= set(range(256)) for drawn in places)
    assert all(QUERIES * 3 // 4 < len(found) <= QUERIES for found in columns)


CHANGES: dict[str, tuple[Callable[[Opening], Opening], str]] = {
    "no row": (lambda o: replace(o, row=o.row[:0]), "elements of the shape"),
    "a row written in another way": (lambda o: replace(o, row=o.row + np.uint64(PRIME)), "a limb is not below"),
    "no work": (lambda o: replace(o, nonces=()), "the proof of work was not done"),
    "less work": (lambda o: replace(o, nonces=o.nonces[1:]), "the proof of work was not done"),
    "other work": (lambda o: replace(o, nonces=(o.nonces[0] + 1, *o.nonces[1:])), "the proof of work was not done"),
    "impossible work": (lambda o: replace(o, nonces=(2**64, *o.nonces[1:])), "the proof of work was not done"),
    "fewer columns": (lambda o: replace(o, columns=o.columns[1:]), "elements of the shape"),
    "columns in another order": (lambda o: replace(o, columns=o.columns[::-1].copy()), "is not in the tree"),
    "fewer paths": (lambda o: replace(o, paths=o.paths[1:]), "the wrong number of paths"),
    "shorter paths": (lambda o: replace(o, paths=tuple(p[1:] for p in o.paths)), "has another height than the tree"),
    "no hashes": (lambda o: replace(o, paths=tuple((b"",) * len(p) for p in o.paths)), "has another height"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_opening_is_rejected(name: str) -> None:
    change, message = CHANGES[name]
    claim, opening = opened(MATRIX)
    with pytest.raises(ProofRejected, match=message):
        check(MATRIX, claim, change(copy.deepcopy(opening)))


def test_an_opening_holds_only_in_its_transcript() -> None:
    claim, opening = opened(MATRIX)
    with pytest.raises(ProofRejected):
        check(MATRIX, claim, opening, seed=b"another")


def test_more_work_than_was_done_is_noticed() -> None:
    claim, opening = opened(MATRIX)
    with pytest.raises(ProofRejected, match="the proof of work was not done"):
        check(MATRIX, claim, opening, bits=BITS + 8)


def test_a_commitment_binds_values_and_shape() -> None:
    entries = np.arange(4)
    roots = {commit(entries.reshape(shape)) for shape in ((1, 4), (2, 2), (4, 1))}
    assert len(roots | {commit(np.array([[0, 1, 2, 4]]))}) == 4


@pytest.mark.parametrize(("example", "hashes"), [(digits, 1_000_000), (transformer, 1_000_000)])
def test_the_demo_itself_does_a_work_that_outlasts_its_layers(
    example: Callable[[], Example],
    hashes: int,
    work_of_the_demo: Mapping[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts hashes, not seconds. Where the layers of the digits take 10 ms, 25,000 hashes do, too."""
    for name, bits in work_of_the_demo.items():
        monkeypatch.setattr(models, name, bits)
    made = example()
    proof = prove(made.model, made.inputs)
    assert sum(nonce + 1 for opening in proof.openings.values() for nonce in opening.nonces) > hashes
