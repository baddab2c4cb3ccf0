"""Compressed files: whatever happens to them, all that is good comes out, and one line says what is not, and where."""

from __future__ import annotations

import gzip
import importlib.util
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proofstream.errors import SourceError
from proofstream.sources.compression import blocks
from proofstream.sources.stored import CutShort, Damaged

GENUINE = Path(__file__).parents[2] / "data" / "genuine" / "stwo-ml"
LINES = (GENUINE / "mlp.jsonl").read_bytes().splitlines(keepends=True)
TEXT = b"".join(LINES)
FEW = b"".join(line for line in LINES[:20] if b'"SumcheckRound"' not in line)
FIRST, SECOND = TEXT[: len(TEXT) // 2], TEXT[len(TEXT) // 2 :]


def gzip_in_blocks(content: bytes) -> bytes:
    """Compress as a log does: what was written is flushed now and then."""
    deflate = zlib.compressobj(wbits=31)
    middle = len(content) // 2
    packed = deflate.compress(content[:middle]) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return packed + deflate.compress(content[middle:]) + deflate.flush()


def zstd_in_blocks(content: bytes) -> bytes:
    import zstandard

    deflate = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    middle = len(content) // 2
    packed = deflate.compress(content[:middle]) + deflate.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return packed + deflate.compress(content[middle:]) + deflate.flush()


class Packing(NamedTuple):
    """A kind of compression.

    Attributes:
        name: The name of a file.
        part: The word for one of its parts.
        pack: Compresses content.
        checksum_at: Where a part's checksum begins, from its end.
    """

    name: str
    part: str
    pack: Callable[[bytes], bytes]
    checksum_at: int


GZIP = Packing("x.gz", "member", gzip_in_blocks, -8)
ZSTD = Packing("x.zst", "frame", zstd_in_blocks, -4)
needs_zstd = pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the extra zst is not installed")


@pytest.fixture(params=[pytest.param(GZIP, id="gzip"), pytest.param(ZSTD, id="zstd", marks=needs_zstd)])
def packing(request: pytest.FixtureRequest) -> Packing:
    found: Packing = request.param
    return found


def unpack(stored: bytes, name: str) -> tuple[bytes, CutShort | None]:
    """Unpack a file. Returns all that came out, and how it broke off."""
    content = bytearray()
    try:
        for block in blocks(io.BytesIO(stored), Path(name)):
            content += block
    except CutShort as cut:
        return bytes(content), cut
    return bytes(content), None


def flipped(stored: bytes, place: int, mask: int = 0xFF) -> bytes:
    changed = bytearray(stored)
    changed[place] ^= mask
    return bytes(changed)


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_damage_at_any_byte_is_said_and_costs_nothing_that_comes_before(packing: Packing, mask: int) -> None:
    first = packing.pack(FEW)
    good = first + packing.pack(FEW)
    for place in range(len(good)):
        content, cut = unpack(flipped(good, place, mask), packing.name)
        if cut is None:
            # Bytes of a header that mean nothing for the content, such as the time at which it was packed.
            assert content == FEW * 2, place
            continue
        assert packing.name in str(cut)
        if place >= len(first):
            assert content.startswith(FEW), (place, cut)
        if type(cut) is not CutShort:
            assert isinstance(cut, Damaged)
            assert " byte " in str(cut)


def begun_gzip(content: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=31)
    return deflate.compress(content) + deflate.flush(zlib.Z_SYNC_FLUSH)


def begun_zstd(content: bytes) -> bytes:
    import zstandard

    deflate = zstandard.ZstdCompressor().compressobj()
    return deflate.compress(content) + deflate.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


@pytest.mark.parametrize(
    ("begin", "name", "part"),
    [(begun_gzip, "x.gz", "member"), pytest.param(begun_zstd, "x.zst", "frame", marks=needs_zstd)],
)
@pytest.mark.parametrize("part_before", [b"", gzip.compress(b"x\n")], ids=["first", "second"])
def test_a_bad_block_is_named_with_its_place_and_costs_nothing_before_it(
    begin: Callable[[bytes], bytes], name: str, part: str, part_before: bytes
) -> None:
    if part_before and part == "frame":
        part_before = zstd_in_blocks(b"x\n")
    stored = part_before + begin(TEXT)
    # A block of the type that both formats reserve. All of it is one step, together with the good bytes.
    content, cut = unpack(stored + b"\xff\xff\xff" + bytes(50_000), name)
    assert content == (b"x\n" if part_before else b"") + TEXT
    assert isinstance(cut, Damaged)
    expected = f"{name} is damaged at byte {len(stored)}, in {part} {2 if part_before else 1}: it cannot be unpacked ("
    assert str(cut).startswith(expected)


def test_a_wrong_checksum_costs_nothing(packing: Packing) -> None:
    good = packing.pack(TEXT)
    place = len(good) + packing.checksum_at
    content, cut = unpack(flipped(good, place + 1), packing.name)
    assert content == TEXT
    assert str(cut) == (
        f"{packing.name} is damaged at byte {place}, in {packing.part} 1:"
        " its checksum is wrong; all of it was read, and some of it may be wrong"
    )


def test_a_wrong_length_costs_nothing() -> None:
    good = gzip.compress(TEXT)
    content, cut = unpack(flipped(good, len(good) - 1), "x.gz")
    assert content == TEXT
    assert f"at byte {len(good) - 4}, in member 1: its length is wrong" in str(cut)


def test_what_follows_a_wrong_checksum_is_read_too(packing: Packing) -> None:
    first = packing.pack(FIRST)
    bad = flipped(first, len(first) + packing.checksum_at)
    content, cut = unpack(bad + packing.pack(SECOND), packing.name)
    assert content == TEXT
    assert isinstance(cut, Damaged)
    assert f"in {packing.part} 1: its checksum is wrong" in str(cut)


def test_damage_comes_before_a_cut_that_follows_it(packing: Packing) -> None:
    first = packing.pack(FIRST)
    bad = flipped(first, len(first) + packing.checksum_at)
    content, cut = unpack(bad + packing.pack(SECOND)[:-20], packing.name)
    assert content.startswith(FIRST)
    assert "its checksum is wrong" in str(cut)


@pytest.mark.parametrize("garbage", [b"garbage", b"{}\n", b"\xff"])
def test_garbage_after_the_last_part_is_damage(packing: Packing, garbage: bytes) -> None:
    good = packing.pack(FIRST) + packing.pack(SECOND)
    content, cut = unpack(good + garbage, packing.name)
    assert content == TEXT
    assert isinstance(cut, Damaged)
    assert str(cut) == (
        f"{packing.name} is damaged at byte {len(good)}: what follows {packing.part} 2 is not another {packing.part}"
    )


@pytest.mark.parametrize("zeros", [1, 512, 300_000])
def test_zeros_may_follow_members_of_gzip(zeros: int) -> None:
    padding = bytes(zeros)
    assert unpack(gzip.compress(TEXT) + padding, "x.gz") == (TEXT, None)
    assert unpack(gzip.compress(FIRST) + padding + gzip.compress(SECOND), "x.gz") == (TEXT, None)
    content, cut = unpack(gzip.compress(TEXT) + padding + b"x", "x.gz")
    assert content == TEXT
    assert f"at byte {len(gzip.compress(TEXT)) + zeros}: what follows member 1" in str(cut)


@needs_zstd
def test_frames_that_are_to_be_skipped_are_skipped() -> None:
    skipped = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 300_000) + bytes(300_000)
    stored = skipped + zstd_in_blocks(FIRST) + skipped + zstd_in_blocks(SECOND) + skipped
    assert unpack(stored, "x.zst") == (TEXT, None)
    content, cut = unpack(stored[:-1], "x.zst")
    assert content == TEXT
    assert type(cut) is CutShort
    assert "in frame 5" in str(cut)


@needs_zstd
@pytest.mark.parametrize("level", [-5, 1, 19])
@pytest.mark.parametrize("content", [b"", b"a", b"a" * 1_000_000, bytes(range(256)) * 2000, TEXT * 50])
def test_every_form_of_frame_is_read(level: int, content: bytes) -> None:
    import zstandard

    for checksum in (False, True):
        for size in (False, True):
            packer = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=size)
            stored = packer.compress(content)
            assert unpack(stored * 2, "x.zst") == (content * 2, None)


@needs_zstd
def test_what_the_library_would_unpack_with_other_settings_is_not_called_damaged() -> None:
    import zstandard

    settings = zstandard.ZstdCompressionParameters(compression_level=1, window_log=28)
    # Without its length, the frame states the window, as one that was made from a pipe does.
    wide = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    content, cut = unpack(wide.compress(TEXT) + wide.flush(), "x.zst")
    assert content == b""
    assert str(cut) == (
        "cannot read x.zst from byte 0 on, frame 1: it takes more than 128 MiB; zstd -dc --long=31 unpacks it"
    )
    samples: Any = [line * 3 for line in LINES] * 20
    dictionary = zstandard.train_dictionary(4096, samples)
    content, cut = unpack(zstandard.ZstdCompressor(dict_data=dictionary).compress(TEXT), "x.zst")
    assert content == b""
    assert "it refers to a dictionary" in str(cut)


def test_a_cut_anywhere_is_said_and_is_not_called_damage(packing: Packing) -> None:
    first = packing.pack(FIRST)
    good = first + packing.pack(SECOND)
    for size in range(len(good)):
        content, cut = unpack(good[:size], packing.name)
        assert TEXT.startswith(content)
        if size == 0:
            assert content == b""
        elif size == len(first):
            assert (content, cut) == (FIRST, None)  # a whole file
        else:
            assert type(cut) is CutShort, size
            assert f"byte {size}" in str(cut)


def test_no_block_is_large_however_well_it_is_compressed(packing: Packing) -> None:
    content = bytes(20_000_000)
    stored = packing.pack(content)
    assert max(map(len, blocks(io.BytesIO(stored), Path(packing.name)))) <= 256 * 1024
    assert unpack(stored, packing.name) == (content, None)


@pytest.mark.parametrize("name", ["x.log", "x.gz", "x.zst", "x"])
def test_the_first_bytes_decide_and_not_the_name(packing: Packing, name: str) -> None:
    assert unpack(packing.pack(TEXT), name) == (TEXT, None)
    assert unpack(TEXT, name) == (TEXT, None)


def test_a_compressed_file_with_a_damaged_beginning_says_so(packing: Packing) -> None:
    stored = flipped(packing.pack(TEXT), 0)
    content, cut = unpack(stored, packing.name)
    assert content == b""
    assert isinstance(cut, Damaged)
    assert f"{packing.name} is damaged at byte 0: it begins with {stored[:4].hex(' ')}" in str(cut)


@needs_zstd
def test_zstandard_under_another_name_needs_its_package_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> Any:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    with pytest.raises(SourceError, match=r"cannot read x\.log: the package zstandard is missing") as caught:
        unpack(zstd_in_blocks(TEXT), "x.log")
    assert caught.value.hint == "pip install 'proofstream[zst]'"
