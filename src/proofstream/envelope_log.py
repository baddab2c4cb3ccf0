"""The envelope log: envelopes written as JSON lines, and read back whatever became of the writer.

One line is one envelope in the form of `wire.encode_envelope`; the event stands there as the producer wrote it, so
kinds, fields and words that nobody here knows survive. A name that ends in `.gz` or `.zst` makes it compressed.

What was flushed survives the death of the process, also in a compressed log; it does not survive the death of the
machine, since nothing is forced onto the disk. A log ends at its first gap: when the disk is full or the size bound is
reached, nothing more is written, because a proof with a hole in the middle replays as something that never happened.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Protocol

from proofstream.catalog import Catalog
from proofstream.envelopes import Envelope
from proofstream.errors import ProofstreamError
from proofstream.wire import MAX_LINE_BYTES, Decoded, LineDecoder, Refusal, encode_envelope

FLUSH_AT = frozenset({"LayerEnd", "ProofComplete", "ProofAborted", "SessionClosed"})
"""The kinds after which a log is flushed: what comes before them is a piece of work that is done."""

_BUFFER_BYTES = 64 * 1024
_GZIP = 31


class LogError(ProofstreamError):
    """An envelope log cannot be written: no permission, no space, or a file is in the way."""


class _Codec(Protocol):
    """Compresses what a log writes."""

    def compress_block(self, data: bytes) -> bytes:
        """All of `data` and all before it, so that it can be read from what has been returned so far."""
        ...

    def trailer(self) -> bytes:
        """What stands at the end of a complete file."""
        ...


class _Plain:
    def compress_block(self, data: bytes) -> bytes:
        return data

    def trailer(self) -> bytes:
        return b""


class _Gzip:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(wbits=_GZIP)

    def compress_block(self, data: bytes) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def trailer(self) -> bytes:
        return self._deflate.flush(zlib.Z_FINISH)


class _Zstandard:
    def __init__(self, path: Path) -> None:
        try:
            import zstandard  # an extra
        except ModuleNotFoundError as error:
            hint = "pip install 'proofstream[zst]'"
            raise LogError(f"cannot write {path}: the package zstandard is missing", hint=hint) from error
        self._deflate = zstandard.ZstdCompressor().compressobj()
        self._at_block = zstandard.COMPRESSOBJ_FLUSH_BLOCK

    def compress_block(self, data: bytes) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(self._at_block)

    def trailer(self) -> bytes:
        return self._deflate.flush()


class EnvelopeLogWriter:
    """Writes one log. Not for several threads at once.

    Args:
        path: The file; folders that are missing above it are made.
        overwrite: Whether a file that is there is replaced, by the first envelope.
        max_bytes: How large the file may grow. What would make it larger is dropped, and all that follows.

    Attributes:
        path: The file.
        dropped: Envelopes that were not written because of `max_bytes`.
        lost: Envelopes that were appended and are not in the file because writing failed or the file was removed.

    Raises:
        LogError: The file cannot be made, there is one and `overwrite` is not set, or its name ends in `.zst` and the
            package for that is not installed.
    """

    def __init__(self, path: Path, *, overwrite: bool = False, max_bytes: int | None = None) -> None:
        self.path = path
        self.dropped: int = 0
        self.lost: int = 0
        self._max_bytes = max_bytes
        self._codec = _codec(path)
        self._file, self._was_there = _create(path, overwrite=overwrite)
        self._lines: list[bytes] = []
        self._buffered = 0
        self._written = 0
        self._kept = 0
        self._failed = False
        self._is_empty = True

    def append(self, envelopes: Iterable[Envelope]) -> None:
        """Add envelopes; flushes if one of them is of a kind in `FLUSH_AT`, or if much is waiting.

        Raises:
            LogError: They cannot be written. The log is over then: `lost` counts these and all that are still appended.
        """
        error: LogError | None = None
        wanted = False
        for envelope in envelopes:
            error = self._add(envelope) or error
            wanted = wanted or envelope.kind in FLUSH_AT
        if wanted:
            error = error or self._try_flush()
        if error is not None:
            raise error

    def _add(self, envelope: Envelope) -> LogError | None:
        if self._is_empty:
            self._is_empty = False
            self._file.truncate(0)
        if self.dropped:
            self.dropped += 1
            return None
        line = encode_envelope(envelope) + b"\n"
        error = None if self._has_room(len(line)) else self._try_flush()
        if self._failed:
            self.lost += 1
            return error
        if not self._has_room(len(line)):
            self.dropped += 1
            return None
        self._lines.append(line)
        self._buffered += len(line)
        return self._try_flush() if self._buffered >= _BUFFER_BYTES else None

    def _has_room(self, size: int) -> bool:
        # What is not written yet counts at its full length, so that the bound holds whatever compression makes of it.
        return self._max_bytes is None or self._written + self._buffered + size <= self._max_bytes

    def flush(self) -> None:
        """Hand all that was appended to the operating system.

        Raises:
            LogError: It cannot be written.
        """
        error = self._try_flush()
        if error is not None:
            raise error

    def close(self) -> None:
        """Flush, and end the file. Calling it again does nothing.

        A log that nothing was appended to leaves no file, or the one that was there.

        Raises:
            LogError: It cannot be written, or the file was removed: all of it counts as lost then.
        """
        if self._file.closed:
            return
        try:
            if self._is_empty:
                self._file.close()
                if not self._was_there:
                    self.path.unlink(missing_ok=True)
                return
            with self._file:
                self.flush()
                if not self._failed:
                    self._write(self._codec.trailer())
                is_removed = os.fstat(self._file.fileno()).st_nlink == 0
        except OSError as error:
            raise _cannot_write(self.path, error) from error
        if is_removed:
            self.lost, self._kept = self.lost + self._kept, 0
            raise LogError(f"{self.path} was removed while it was written")

    def _try_flush(self) -> LogError | None:
        if not self._lines:
            return None
        lines, self._lines = self._lines, []
        self._buffered = 0
        try:
            self._write(self._codec.compress_block(b"".join(lines)))
            self._kept += len(lines)
        except OSError as error:
            self.lost += len(lines)
            self._give_up()
            return _cannot_write(self.path, error)
        return None

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._written += len(data)

    def _give_up(self) -> None:
        """End the log where the last flush ended it, so that it does not end within a line."""
        self._failed = True
        try:
            self._file.truncate(self._written)
        except OSError:
            return


def _codec(path: Path) -> _Codec:
    if path.suffix == ".gz":
        return _Gzip()
    if path.suffix == ".zst":
        return _Zstandard(path)
    return _Plain()


def _cannot_write(path: Path, error: OSError) -> LogError:
    return LogError(f"cannot write {path}: {error.strerror or error}")


def _create(path: Path, *, overwrite: bool) -> tuple[IO[bytes], bool]:
    """Open the file; says also whether it was there before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        was_there = path.exists()
        if not overwrite:
            return path.open("xb", buffering=0), False
        if was_there and not stat.S_ISREG(path.stat().st_mode):
            raise LogError(f"cannot write {path}: something that is no regular file is there")
        # Emptied by the first envelope only: a run that fails before that must not cost the recording that is there.
        return path.open("r+b" if was_there else "xb", buffering=0), was_there
    except FileExistsError as error:
        raise LogError(f"{path} exists and is not overwritten", hint="remove it or choose another name") from error
    except OSError as error:
        raise _cannot_write(path, error) from error


def read_envelope_log(
    path: Path, catalog: Catalog | None = None, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Decoded | Refusal]:
    """Read a log, in order, as far as it goes: what a killed writer left, what is damaged after a good beginning.

    Args:
        path: The file, plain, `.gz` or `.zst`.
        catalog: The event types to read with; the core's own by default.
        max_line_bytes: The longest line that is read.

    Yields:
        A `Decoded` for each event, a `Refusal` for each line that cannot be read.

    Raises:
        SourceError: There is no such file, or it cannot be read at all.
    """
    # This module is on the way of every `import proofstream`, and hardly anybody reads a log.
    from proofstream.sources.compression import CutShort, blocks
    from proofstream.sources.files import open_file
    from proofstream.sources.lines import LineReader

    reader = LineReader(LineDecoder(catalog if catalog is not None else Catalog()), max_line_bytes)
    cut_short = False
    with open_file(path) as file:
        try:
            for block in blocks(file, path):
                yield from reader.read_bytes(block)
        except CutShort:
            cut_short = True
    yield from reader.finish(cut_short=cut_short)
