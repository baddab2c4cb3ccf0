"""Reads compressed data as it is stored, and names the place where it is cut or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class CutShort(Exception):
    """The compressed data breaks off. Everything before the break has been yielded; the message says how it ends."""


class Damaged(CutShort):
    """The compressed data is damaged. Everything that could be unpacked has been yielded; the message says where."""


class WrongChecksum(Damaged):
    """A part of the compressed data was unpacked to its end, and is not what was packed."""


class Stored:
    """The bytes of a compressed file, as stored.

    Args:
        blocks: The bytes.
        name: The file's name, as shown to the user.

    Attributes:
        name: The file's name.
        offset: How many bytes were taken so far.
    """

    def __init__(self, blocks: Iterator[bytes], name: str) -> None:
        self.name = name
        self.offset: int = 0
        self._blocks = blocks
        self._data = b""
        self._begin = 0

    def peek(self, size: int) -> bytes:
        """Return the next bytes without taking them: so many, or fewer where the file ends."""
        while len(self._data) - self._begin < size and (block := next(self._blocks, b"")):
            self._data = self._data[self._begin :] + block
            self._begin = 0
        return self._data[self._begin : self._begin + size]

    def take(self, size: int) -> bytes:
        """Take so many bytes, or fewer where the file ends."""
        taken = self.peek(size)
        self._begin += len(taken)
        self.offset += len(taken)
        return taken

    def take_block(self) -> bytes:
        """Take all that is at hand. Returns nothing at the end of the file."""
        self.peek(1)
        return self.take(len(self._data) - self._begin)

    def give_back(self, size: int) -> None:
        """Return the last bytes of what was just taken."""
        self._begin -= size
        self.offset -= size

    def skip(self, size: int) -> bool:
        """Pass over so many bytes. Returns False if the file ends before."""
        while size and (data := self.take_block()):
            self.give_back(max(0, len(data) - size))
            size = max(0, size - len(data))
        return not size

    def skip_zeros(self) -> None:
        """Pass over bytes that are zero."""
        while data := self.take_block():
            if rest := data.lstrip(b"\0"):
                self.give_back(len(rest))
                return

    def cut(self, part: str) -> CutShort:
        """Return the exception for a file that ends within this part."""
        return CutShort(f"{self.name} ends in the middle of its compressed data (byte {self.offset}, in {part})")

    def damaged(self, part: str, what: str, *, at: int) -> Damaged:
        """Return the exception for damage in this part, at this byte."""
        return Damaged(f"{self.name} is damaged at byte {at}, in {part}: {what}")

    def wrong_checksum(self, part: str, what: str, *, at: int) -> WrongChecksum:
        """Return the exception for a checksum, or a length, of this part that is not right."""
        text = f"{what} is wrong; all of it was read, and some of it may be wrong"
        return WrongChecksum(*self.damaged(part, text, at=at).args)


def unpack_parts(
    stored: Stored,
    kind: str,
    *,
    begins_part: Callable[[Stored], bool],
    unpack: Callable[[Stored, str], Iterator[bytes]],
    padded: bool,
) -> Iterator[bytes]:
    """Yield the content of a file's parts, one after the other.

    Args:
        stored: The file.
        kind: The word for a part.
        begins_part: Returns whether what comes next begins a part.
        unpack: Yields the content of the next part, which is given with its name.
        padded: Whether zeros may follow a part.

    Raises:
        CutShort: The file ends within a part.
        Damaged: A part is damaged, or something else follows it. If several are, the first of them.
    """
    first_fault: Damaged | None = None
    number = 0
    while stored.peek(1):
        if not begins_part(stored):
            what = f"is damaged at byte {stored.offset}: what follows {kind} {number} is not another {kind}"
            raise first_fault or Damaged(f"{stored.name} {what}")
        number += 1
        try:
            yield from unpack(stored, f"{kind} {number}")
        except WrongChecksum as fault:
            first_fault = first_fault or fault
        except CutShort as fault:
            raise first_fault or fault from None
        if padded:
            stored.skip_zeros()
    if first_fault is not None:
        raise first_fault
