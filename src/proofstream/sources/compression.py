"""Decompresses a file block by block. A file that breaks off, as a killed writer leaves it, is read up to the break."""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from proofstream.errors import SourceError

READ_BYTES = 256 * 1024
"""How much is read at once, and the most that one step of gzip decompression yields."""

# zlib's `wbits`: the largest window (15), with a gzip header (16).
_GZIP = 31
# Four bytes of Zstandard can expand to 128 KiB. Small steps bound the memory that a hostile file can claim.
_ZST_STEP_BYTES = 4096


class CutShort(Exception):
    """The compressed data breaks off. Everything before the break has been yielded; the message says how it ends."""


def is_compressed(path: Path) -> bool:
    """Return whether the file's name marks it as compressed."""
    return path.suffix in {".gz", ".zst"}


def need_zstandard(path: Path) -> None:
    """Check that the package for a `.zst` file is installed. Other files pass.

    Raises:
        SourceError: It is not installed.
    """
    if path.suffix == ".zst" and importlib.util.find_spec("zstandard") is None:
        raise SourceError(
            f"cannot read {path}: the package zstandard is missing", hint="pip install 'proofstream[zst]'"
        )


def blocks(file: BinaryIO, path: Path, *, limit: int | None = None) -> Iterator[bytes]:
    """Yield the file's content in order, decompressed according to the suffix of its name.

    Args:
        file: The open file, at its beginning.
        path: The file's name.
        limit: The most bytes to read from the file, as stored.

    Raises:
        CutShort: A compressed file ends early, or is damaged after a good beginning.
        SourceError: The file cannot be read, or its format is not the one that its name says.
    """
    raw = _raw(file, path, limit)
    if path.suffix == ".gz":
        return _gunzip(_not_empty(raw, path), path)
    if path.suffix == ".zst":
        return _unzstd(_not_empty(raw, path), path)
    return raw


def _raw(file: BinaryIO, path: Path, limit: int | None) -> Iterator[bytes]:
    left = limit
    while left is None or left > 0:
        try:
            block = file.read(READ_BYTES if left is None else min(READ_BYTES, left))
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror or error}") from error
        if not block:
            return
        if left is not None:
            left -= len(block)
        yield block


def _not_empty(raw: Iterator[bytes], path: Path) -> Iterator[bytes]:
    first = next(raw, None)
    if first is None:
        raise CutShort(f"{path} ends before its compressed data begins")
    yield first
    yield from raw


def _gunzip(raw: Iterator[bytes], path: Path) -> Iterator[bytes]:
    inflate = None
    begun = False
    try:
        for stored in raw:
            data = stored
            while data:
                if inflate is None:
                    inflate = zlib.decompressobj(wbits=_GZIP)
                yield inflate.decompress(data, READ_BYTES)
                begun = True
                if inflate.eof:
                    # Another member may follow, after padding with zeros.
                    data, inflate = inflate.unused_data.lstrip(b"\0"), None
                else:
                    data = inflate.unconsumed_tail
        if inflate is not None:
            yield inflate.flush()
    except zlib.error as error:
        raise _damaged(path, "gzip", error, begun=begun) from None
    if inflate is not None and not inflate.eof:
        raise CutShort(f"{path} ends in the middle of its compressed data")


def _unzstd(raw: Iterator[bytes], path: Path) -> Iterator[bytes]:
    import zstandard  # an extra

    frame = None
    begun = False
    try:
        for stored in raw:
            for start in range(0, len(stored), _ZST_STEP_BYTES):
                data = stored[start : start + _ZST_STEP_BYTES]
                while data:
                    if frame is None:
                        frame = zstandard.ZstdDecompressor().decompressobj()
                    yield frame.decompress(data)
                    begun = True
                    data = frame.unused_data
                    if frame.eof:
                        frame = None
    except zstandard.ZstdError as error:
        raise _damaged(path, "Zstandard", error, begun=begun) from None
    if frame is not None:
        raise CutShort(f"{path} ends in the middle of its compressed data")


def _damaged(path: Path, form: str, error: Exception, *, begun: bool) -> Exception:
    if begun:
        return CutShort(f"{path} is damaged: {error}")
    return SourceError(f"{path} is not a {form} file: {error}")
