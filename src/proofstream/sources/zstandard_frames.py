"""Unpacks Zstandard, frame by frame and block by block, so that damage costs no block before it.

The library gives nothing of a step that fails, and a small step can expand to much. A block has a header of its own
(RFC 8878) and holds 128 KiB at most, so each step is one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from proofstream.sources.stored import Damaged, Stored, unpack_parts

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

_MAGIC = b"\x28\xb5\x2f\xfd"
# A frame that is skipped begins with a byte between these two, and with the rest.
_SKIPPED_FIRST, _SKIPPED_LAST, _SKIPPED_REST = 0x50, 0x5F, b"\x2a\x4d\x18"
_MAGIC_BYTES = 4
_SIZE_BYTES = 4
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_RLE = 1


def begins_zstandard(head: bytes) -> bool:
    """Return whether the first four bytes, or as many as there are, are those of a frame."""
    return bool(head) and (_MAGIC.startswith(head[:_MAGIC_BYTES]) or _begins_skipped(head[:_MAGIC_BYTES]))


def _begins_skipped(head: bytes) -> bool:
    return _SKIPPED_FIRST <= head[0] <= _SKIPPED_LAST and _SKIPPED_REST.startswith(head[1:])


def unpack_zstandard(stored: Stored) -> Iterator[bytes]:
    """Yield the content of all frames.

    Raises:
        CutShort: The file ends within a frame.
        Damaged: A frame is damaged, something else follows it, or it takes a dictionary or more memory than is allowed.
    """
    return unpack_parts(stored, "frame", begins_part=_begins_frame, unpack=_unpack_frame, padded=False)


def _begins_frame(stored: Stored) -> bool:
    return begins_zstandard(stored.peek(_MAGIC_BYTES))


def _unpack_frame(stored: Stored, part: str) -> Iterator[bytes]:
    if _begins_skipped(stored.peek(_MAGIC_BYTES)):
        stored.take(_MAGIC_BYTES)
        size = stored.take(_SIZE_BYTES)
        if len(size) < _SIZE_BYTES or not stored.skip(int.from_bytes(size, "little")):
            raise stored.cut(part)
        return iter(())
    return _Frame(stored, part).unpack()


class _Frame:
    def __init__(self, stored: Stored, part: str) -> None:
        import zstandard  # an extra

        self._stored = stored
        self._part = part
        self._error = zstandard.ZstdError
        self._inflate: ZstdDecompressionObj = zstandard.ZstdDecompressor().decompressobj()

    def unpack(self) -> Iterator[bytes]:
        head = self._stored.peek(_MAGIC_BYTES + 1)
        descriptor = head[-1] if len(head) > _MAGIC_BYTES else 0
        yield self._step(_header_bytes(descriptor))
        is_last = False
        while not is_last:
            header = int.from_bytes(self._stored.peek(_BLOCK_HEADER_BYTES), "little")
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            # The header alone first: the library refuses one that is impossible before its block is read.
            yield self._step(_BLOCK_HEADER_BYTES)
            yield self._step(1 if kind == _RLE else size)
        if descriptor >> 2 & 1:
            self._check()

    def _step(self, size: int) -> bytes:
        begin = self._stored.offset
        data = self._stored.take(size)
        try:
            unpacked = self._inflate.decompress(data) if data else b""
        except self._error as error:
            raise self._fault(str(error).rpartition(": ")[2], at=begin) from None
        if len(data) < size:
            raise self._stored.cut(self._part)
        return unpacked

    def _check(self) -> None:
        begin = self._stored.offset
        checksum = self._stored.take(_CHECKSUM_BYTES)
        if len(checksum) < _CHECKSUM_BYTES:
            raise self._stored.cut(self._part)
        try:
            self._inflate.decompress(checksum)
        except self._error:
            raise self._stored.wrong_checksum(self._part, "its checksum", at=begin) from None

    def _fault(self, reason: str, *, at: int) -> Damaged:
        where = f"cannot read {self._stored.name} from byte {at} on, {self._part}"
        if "too much memory" in reason:
            return Damaged(f"{where}: it takes more than 128 MiB; zstd -dc --long=31 unpacks it")
        if "ictionary" in reason:
            return Damaged(f"{where}: it refers to a dictionary; zstd -dc -D DICTIONARY unpacks it")
        return self._stored.damaged(self._part, f"it cannot be unpacked ({reason})", at=at)


def _header_bytes(descriptor: int) -> int:
    has_window = not descriptor >> 5 & 1
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    content_size_bytes = (0 if has_window else 1, 2, 4, 8)[descriptor >> 6]
    return _MAGIC_BYTES + 1 + has_window + dictionary_bytes + content_size_bytes
