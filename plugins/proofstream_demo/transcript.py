"""Fiat-Shamir: the verifier's random choices, taken from a hash of everything that the prover has said so far.

Prover and verifier keep a transcript each. Both absorb the same messages in the same order, hence draw the same
challenges, and the prover cannot choose a message after it knows the challenge that answers it.
"""

from __future__ import annotations

import hashlib

import numpy as np

from proofstream_demo.field import LIMBS, M31, PRIME, QM31

_DOMAIN = b"proofstream demo GKR v1"


class Transcript:
    """A running BLAKE2s hash. Labels and lengths go in with the data, so that no two conversations hash alike."""

    def __init__(self) -> None:
        self._state = hashlib.blake2s(_DOMAIN).digest()

    def absorb(self, label: str, data: bytes) -> None:
        """Take in one message."""
        name = label.encode()
        sizes = len(name).to_bytes(8, "little") + len(data).to_bytes(8, "little")
        self._state = hashlib.blake2s(self._state + sizes + name + data).digest()

    def absorb_elements(self, label: str, elements: QM31 | M31) -> None:
        """Take in field elements, four bytes for each limb."""
        self.absorb(label, elements.astype("<u4").tobytes())

    def challenge(self) -> QM31:
        """Draw one QM31 element.

        Its four limbs are 64-bit numbers modulo the prime, so none is more than 2^-32 likelier than another.
        """
        self.absorb("challenge", b"")
        limbs = np.frombuffer(self._state, dtype="<u8", count=LIMBS)
        return (limbs % np.uint64(PRIME)).astype(np.uint64)

    def challenges(self, count: int) -> QM31:
        """Draw a point of `count` coordinates: an array of shape (count, 4)."""
        drawn = [self.challenge() for _ in range(count)]
        return np.array(drawn, dtype=np.uint64).reshape(count, LIMBS)


def commit(matrix: M31) -> bytes:
    """Commit to a matrix by its hash, shape included.

    This binds but hides nothing, and cannot be opened at a point without showing the whole matrix: it is no polynomial
    commitment scheme. The demo's verifier holds the weights, hashes them and evaluates them itself.
    """
    shape = np.array(matrix.shape, dtype="<u8").tobytes()
    return hashlib.blake2s(shape + matrix.astype("<u4").tobytes()).digest()
