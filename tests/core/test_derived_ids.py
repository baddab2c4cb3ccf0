"""Ids derived from the stream: each part counts with its length in bytes, whatever it is written in."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from proofstream import derived_id


@given(st.lists(st.text(st.characters())))
def test_an_id_is_the_beginning_of_a_hash_of_all_parts(parts: list[str]) -> None:
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    told = b"".join(b"%d:%b" % (len(part), part) for part in encoded)
    assert derived_id(8, *parts) == hashlib.sha256(told).hexdigest()[:16]


def test_parts_that_are_cut_elsewhere_give_another_id() -> None:
    assert derived_id(8, "a", "bc") != derived_id(8, "ab", "c")
