"""Merkle trees with the hashes of RFC 6962: SHA-256, and before each leaf and each node a byte that tells them apart.

Without these bytes, a node's two hashes could pass for a leaf, and one root would fit two lists of leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

HASH_BYTES = 32

_LEAF = b"\x00"
_NODE = b"\x01"


class MerkleTree:
    """The hashes over a list of leaves; the root commits to all of them and to their order.

    Raises:
        ValueError: The number of leaves is not a power of two.
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        if not leaves or len(leaves) & (len(leaves) - 1):
            raise ValueError(f"a tree has a power of two of leaves, not {len(leaves)}")
        level = [_hash_leaf(leaf) for leaf in leaves]
        self._levels = [level]
        while len(level) > 1:
            level = [_hash_node(left, right) for left, right in zip(level[0::2], level[1::2], strict=True)]
            self._levels.append(level)

    @property
    def root(self) -> bytes:
        """The hash of the whole tree."""
        return self._levels[-1][0]

    def path(self, index: int) -> tuple[bytes, ...]:
        """Return the hashes beside the way from a leaf up to the root, which show that the leaf is in the tree."""
        return tuple(level[(index >> height) ^ 1] for height, level in enumerate(self._levels[:-1]))


def root_of_path(leaf: bytes, index: int, path: Sequence[bytes]) -> bytes:
    """Return the root of the tree that has this leaf at this index and these hashes beside its way."""
    found = _hash_leaf(leaf)
    for height, beside in enumerate(path):
        found = _hash_node(beside, found) if (index >> height) & 1 else _hash_node(found, beside)
    return found


def _hash_leaf(leaf: bytes) -> bytes:
    return hashlib.sha256(_LEAF + leaf).digest()


def _hash_node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()
