"""The Fiat-Shamir transform: challenges are drawn from a hash of all the prover's messages so far.

Prover and verifier each keep a transcript. Both absorb the same messages in the same order, so they draw the same
challenges. The prover cannot choose a message after it knows the challenge that follows.
"""

from __future__ import annotations

import hashlib

import numpy as np

from proofstream_demo.field import LIMBS, M31, PRIME, QM31

_DOMAIN = b"proofstream demo GKR v2"
_GRINDING = b"grinding"
_NONCE_BYTES = 8


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

    def positions(self, count: int, bound: int) -> list[int]:
        """Draw numbers below `bound`, a power of two: each is as likely as any other."""
        drawn: list[int] = []
        while len(drawn) < count:
            self.absorb("positions", b"")
            drawn += [int(number) % bound for number in np.frombuffer(self._state, dtype="<u8")]
        return drawn[:count]

    def grind(self, bits: int) -> int:
        """Do a proof of work: find and absorb a number whose hash with the state ends in `bits` zero bits.

        It takes 2^bits hashes on average, and the same number of hashes every time that the same proof is made.
        """
        mask = (1 << bits) - 1
        base = hashlib.blake2s(_GRINDING + self._state)
        nonce = 0
        while True:
            attempt = base.copy()
            attempt.update(nonce.to_bytes(_NONCE_BYTES, "little"))
            if not int.from_bytes(attempt.digest()[:_NONCE_BYTES], "little") & mask:
                self._absorb_nonce(nonce)
                return nonce
            nonce += 1

    def check_grinding(self, nonce: int, bits: int) -> bool:
        """Absorb a number that `grind` found; return whether it is one."""
        if not 0 <= nonce < 1 << 8 * _NONCE_BYTES:
            return False
        digest = hashlib.blake2s(_GRINDING + self._state + nonce.to_bytes(_NONCE_BYTES, "little")).digest()
        self._absorb_nonce(nonce)
        return not int.from_bytes(digest[:_NONCE_BYTES], "little") & ((1 << bits) - 1)

    def _absorb_nonce(self, nonce: int) -> None:
        self.absorb("nonce", nonce.to_bytes(_NONCE_BYTES, "little"))
