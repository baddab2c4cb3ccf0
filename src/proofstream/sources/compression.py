"""Unpacks a file that is compressed. Its first bytes say whether it is, not its name.

A file that breaks off, as a killed writer leaves it, is read up to the break, and a damaged one up to the damage.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from proofstream.errors import SourceError
from proofstream.sources import gzip_members, zstandard_frames
from proofstream.sources.forms import HEAD_BYTES, is_binary, packed_form
from proofstream.sources.stored import CutShort, Damaged, Stored

READ_BYTES = 256 * 1024
"""How much is read at once."""

MAGIC_BYTES = 4
"""How many bytes say whether a file is compressed."""


def is_compressed(path: Path) -> bool:
    """Return whether the file's name marks it as compressed."""
    return path.suffix in {".gz", ".zst"}


def begins_compressed(head: bytes) -> bool:
    """Return whether data that begins in this way, with four bytes at least, is compressed and is unpacked here."""
    return head.startswith(gzip_members.MAGIC) or (len(head) >= MAGIC_BYTES and zstandard_frames.begins_zstandard(head))


def may_begin_compressed(head: bytes) -> bool:
    """Return whether more bytes may show that the data is compressed."""
    return len(head) < MAGIC_BYTES and (gzip_members.MAGIC.startswith(head) or zstandard_frames.begins_zstandard(head))


def need_zstandard(path: Path) -> None:
    """Check that the package for a Zstandard file is installed. Others pass, and also those that cannot be read.

    Raises:
        SourceError: It is not installed.
    """
    if not path.is_file():  # to open a pipe would wait for its writer
        return
    try:
        with path.open("rb") as file:
            head = file.read(MAGIC_BYTES)
    except OSError:
        return
    if len(head) == MAGIC_BYTES and zstandard_frames.begins_zstandard(head):
        _need_zstandard(str(path))


def _need_zstandard(name: str) -> None:
    if importlib.util.find_spec("zstandard") is None:
        raise SourceError(
            f"cannot read {name}: the package zstandard is missing", hint="pip install 'proofstream[zst]'"
        )


def blocks(file: BinaryIO, path: Path, *, limit: int | None = None) -> Iterator[bytes]:
    """Yield the file's content in order, unpacked if its first bytes say that it is compressed.

    Args:
        file: The open file, at its beginning.
        path: The file's name.
        limit: The most bytes to read from the file, as stored.

    Raises:
        CutShort: A compressed file ends early. `Damaged`, which is one, if it is damaged.
        SourceError: The file cannot be read.
    """
    raw = _raw(file, path, limit)
    head = b""
    while len(head) < MAGIC_BYTES and (block := next(raw, b"")):
        head += block
    raw = chain([head], raw) if head else raw
    if head.startswith(gzip_members.MAGIC):
        yield from gzip_members.unpack_gzip(Stored(raw, str(path)))
    elif begins_compressed(head):
        _need_zstandard(str(path))
        yield from zstandard_frames.unpack_zstandard(Stored(raw, str(path)))
    else:
        if is_compressed(path):
            _check_beginning(head, path)
        yield from raw


def _check_beginning(head: bytes, path: Path) -> None:
    """Check that a file which is not compressed, although its name says so, may still hold something that is known."""
    if may_begin_compressed(head):
        raise CutShort(f"{path} ends before its compressed data begins (byte {len(head)})")
    if is_binary(head[:HEAD_BYTES]) and packed_form(head) is None:
        begin = head[:MAGIC_BYTES].hex(" ")
        raise Damaged(f"{path} is damaged at byte 0: it begins with {begin}, as neither compressed data nor text does")


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
