"""The Fiat-Shamir transform: challenges are drawn from a hash of all the prover's messages so far.

Prover and verifier each keep a transcript. Both absorb the same messages in the same order, so they draw the same
challenges. The prover cannot choose a message after it knows the challenge that follows.
"""

from __future__ import annotations

import hashlib

import numpy as np

from proofstream_demo.field import LIMBS, M31, PRIME, QM31

_DOMAIN = b"proofstream demo GKR v1"


class Transcript:
    """A running BLAKE2s hash. It covers labels and lengths, so that different messages hash differently."""

    def __init__(self) -> None:
        self._state = hashlib.blake2s(_DOMAIN).digest()

    def absorb(self, label: str, data: bytes) -> None:
        """Absorb one message."""
        name = label.encode()
        sizes = len(name).to_bytes(8, "little") + len(data).to_bytes(8, "little")
        self._state = hashlib.blake2s(self._state + sizes + name + data).digest()

    def absorb_elements(self, label: str, elements: QM31 | M31) -> None:
        """Absorb field elements, four bytes for each limb."""
        self.absorb(label, elements.astype("<u4").tobytes())

    def challenge(self) -> QM31:
        """Draw one QM31 element.

        Its four limbs are 64-bit numbers modulo the prime, so no limb is more than 2^-32 likelier than another.
        """
        self.absorb("challenge", b"")
        limbs = np.frombuffer(self._state, dtype="<u8", count=LIMBS)
        return (limbs % np.uint64(PRIME)).astype(np.uint64)

    def challenges(self, count: int) -> QM31:
        """Draw a point of `count` coordinates: an array of shape (count, 4)."""
        drawn = [self.challenge() for _ in range(count)]
        return np.array(drawn, dtype=np.uint64).reshape(count, LIMBS)


def commit_matrix(matrix: M31) -> bytes:
    """Commit to a matrix by its hash, shape included.

    The commitment is binding but not hiding. Opening it at a point shows the whole matrix, so it is not a polynomial
    commitment. The demo's verifier holds the weights, and hashes and evaluates them itself.
    """
    shape = np.array(matrix.shape, dtype="<u8").tobytes()
    return hashlib.blake2s(shape + matrix.astype("<u4").tobytes()).digest()
