"""Compares the trees with the ones of Certificate Transparency, which RFC 6962 describes."""

from __future__ import annotations

import pytest

from proofstream_demo.merkle import MerkleTree, root_of_path

LEAVES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""The leaves and roots of the tests of github.com/google/certificate-transparency."""


@pytest.mark.parametrize("count", ROOTS)
def test_roots_are_those_of_certificate_transparency(count: int) -> None:
    assert MerkleTree(LEAVES[:count]).root.hex() == ROOTS[count]


@pytest.mark.parametrize("count", ROOTS)
def test_each_leafs_path_leads_to_the_root_and_no_other_does(count: int) -> None:
    tree = MerkleTree(LEAVES[:count])
    for index in range(count):
        path = tree.path(index)
        assert root_of_path(LEAVES[index], index, path) == tree.root
        assert root_of_path(b"another", index, path) != tree.root
        for height in range(len(path)):
            assert root_of_path(LEAVES[index], index ^ (1 << height), path) != tree.root
            changed = (*path[:height], bytes(32), *path[height + 1 :])
            assert root_of_path(LEAVES[index], index, changed) != tree.root


def test_a_node_cannot_pass_for_a_leaf() -> None:
    tree = MerkleTree(LEAVES[:4])
    upper = [tree.path(2)[1], tree.path(0)[1]]
    assert MerkleTree([b"".join(upper)]).root != tree.root


@pytest.mark.parametrize("count", [0, 3, 6])
def test_a_tree_needs_a_power_of_two_of_leaves(count: int) -> None:
    with pytest.raises(ValueError, match=f"a power of two of leaves, not {count}"):
        MerkleTree(LEAVES[:count])
