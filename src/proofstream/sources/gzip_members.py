"""Unpacks gzip, member by member. Damage costs nothing that comes before it, and a wrong checksum nothing at all."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator

from proofstream.sources.stored import Damaged, Stored, unpack_parts

MAGIC = b"\x1f\x8b"
"""What every member begins with."""

# How much one step of decompression yields at most.
_STEP_BYTES = 256 * 1024
# zlib's `wbits`: the largest window (15), with a gzip header (16).
_GZIP = 31
# A member ends in four bytes of checksum and four of length. zlib complains at the last byte of each.
_CHECKSUM, _LENGTH = "incorrect data check", "incorrect length check"
_CHECKED_BYTES = 4


def unpack_gzip(stored: Stored) -> Iterator[bytes]:
    """Yield the content of all members.

    Raises:
        CutShort: The file ends within a member.
        Damaged: A member is damaged, or something else follows it.
    """
    return unpack_parts(stored, "member", begins_part=_begins_member, unpack=_unpack_member, padded=True)


def _begins_member(stored: Stored) -> bool:
    return MAGIC.startswith(stored.peek(len(MAGIC)))


def _unpack_member(stored: Stored, part: str) -> Iterator[bytes]:
    return _Member(stored, part).unpack()


class _Member:
    def __init__(self, stored: Stored, part: str) -> None:
        self._stored = stored
        self._part = part
        self._inflate = zlib.decompressobj(wbits=_GZIP)

    def unpack(self) -> Iterator[bytes]:
        while not self._inflate.eof:
            data = self._stored.take_block()
            before = self._inflate.copy()
            try:
                unpacked = self._inflate.decompress(data, _STEP_BYTES) if data else self._inflate.flush()
            except zlib.error:
                self._inflate = before
                reason = yield from self._unpack_up_to_fault(data)
                raise self._fault(reason) from None
            yield unpacked
            if not data and not self._inflate.eof:
                raise self._stored.cut(self._part)
            rest = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            self._stored.give_back(len(rest))

    def _unpack_up_to_fault(self, data: bytes) -> Generator[bytes, None, str]:
        """Repeat a step that failed, in ever smaller ones, because zlib gives nothing of a step that fails.

        The bytes behind the one at fault are given back.

        Returns:
            What zlib says of it.
        """
        begin, size, reason = 0, len(data), ""
        while size and begin < len(data):
            # What did not fit into the step before; it must not be lost with this one.
            while pending := self._inflate.decompress(b"", _STEP_BYTES):
                yield pending
            before = self._inflate.copy()
            try:
                unpacked = self._inflate.decompress(data[begin : begin + size], _STEP_BYTES)
            except zlib.error as error:
                self._inflate, reason = before, str(error).rpartition(": ")[2]
                size //= 2
                continue
            yield unpacked
            begin += size - len(self._inflate.unconsumed_tail)
        self._stored.give_back(max(0, len(data) - begin - 1))
        return reason

    def _fault(self, reason: str) -> Damaged:
        if reason == _CHECKSUM:
            fault = self._stored.wrong_checksum(self._part, "its checksum", at=self._stored.offset - _CHECKED_BYTES)
            self._stored.skip(_CHECKED_BYTES)  # the length, behind which the next member begins
            return fault
        if reason == _LENGTH:
            return self._stored.wrong_checksum(self._part, "its length", at=self._stored.offset - _CHECKED_BYTES)
        return self._stored.damaged(self._part, f"it cannot be unpacked ({reason})", at=self._stored.offset - 1)
