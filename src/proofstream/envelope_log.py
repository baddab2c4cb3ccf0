"""The envelope log: writes envelopes as JSON lines, and reads them back even if the writer was killed.

Each line is one envelope in the form of `wire.encode_envelope`. It holds the event exactly as the producer wrote it, so
kinds, fields and words that this version does not know survive. A file name that ends in `.gz` or `.zst` selects
compression.

Flushed lines survive the death of the process, also in a compressed log. They may not survive a power cut, because
nothing is forced onto the disk. A log ends at its first gap: once the disk is full or the size limit is reached,
nothing more is written, because a proof with a hole in the middle would replay as something that never happened.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

from proofstream.catalog import Catalog
from proofstream.envelopes import Envelope
from proofstream.errors import ProofstreamError, SourceError
from proofstream.notices import warn_user
from proofstream.outputs import make_private_folder, private_opener
from proofstream.text import safe_text
from proofstream.wire import MAX_LINE_BYTES, Decoded, LineDecoder, Refusal, encode_envelope

FLUSH_AT = frozenset({"SessionOpened", "ProofStart", "LayerEnd", "ProofComplete", "ProofAborted", "SessionClosed"})
"""The kinds after which a log is flushed: each of them begins or completes a piece of work."""
FLUSH_AFTER_S = 0.5
"""The age, in seconds, at which a waiting line is flushed together with the next envelope.

An owner that also calls `flush` twice a second loses at most the last second when it is killed."""

# Flush at the latest when this much waits after a batch, and write about so much at once.
_BUFFER_BYTES = 64 * 1024
# Longer than any path that a user would type, and short enough for one line.
_LONGEST_PATH = 500
# zlib's `wbits`: the largest window (15), with a gzip header (16).
_GZIP = 31


class LogError(ProofstreamError):
    """An envelope log cannot be written: no permission, no space, or another file is in the way."""


class _Codec(Protocol):
    """Compresses the lines of a log."""

    def compress_block(self, data: bytes) -> bytes:
        """Compress `data` so that it can be read back from the bytes returned so far."""
        ...

    def trailer(self) -> bytes:
        """Return the bytes that end a complete file."""
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
            raise LogError(f"cannot write {_shown(path)}: the package zstandard is missing", hint=hint) from error
        # With a checksum, as gzip always has one: otherwise a damaged number would be read as another number.
        self._deflate = zstandard.ZstdCompressor(write_checksum=True).compressobj()
        self._at_block = zstandard.COMPRESSOBJ_FLUSH_BLOCK

    def compress_block(self, data: bytes) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(self._at_block)

    def trailer(self) -> bytes:
        return self._deflate.flush()


class EnvelopeLogWriter:
    """Writes one log. Not thread-safe.

    Args:
        path: The file. Missing parent folders are created.
        overwrite: Replace an existing file. It is emptied only when the first envelope is written.
        max_bytes: How large the file may grow. The first envelope that does not fit is dropped, with all that follow.
        clock: Returns monotonic seconds.

    Attributes:
        path: The file.
        dropped: Envelopes that were not written because of `max_bytes`.
        lost: Envelopes that are not in the file because writing failed or the file was removed.

    Raises:
        LogError: The file cannot be created, it exists and `overwrite` is not set, another log is being written there,
            or its name ends in `.zst` and the package zstandard is not installed.
    """

    def __init__(
        self,
        path: Path,
        *,
        overwrite: bool = False,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.dropped: int = 0
        self.lost: int = 0
        self._max_bytes = max_bytes
        self._clock = clock
        self._codec = _codec(path)
        self._file, self._was_there = _create(path, overwrite=overwrite)
        _lock(self._file, path)
        self._lines: list[bytes] = []
        self._buffered = 0
        self._oldest_at = 0.0
        self._written = 0
        self._kept = 0
        self._failed = False
        self._is_empty = True

    def append(self, envelopes: Iterable[Envelope]) -> None:
        """Add envelopes. Flushes if the kind of one is in `FLUSH_AT`, a line has waited `FLUSH_AFTER_S`, or much waits.

        Raises:
            LogError: They cannot be written. Nothing more is written after that: `lost` counts them and all later ones.
        """
        envelopes = list(envelopes)
        if not envelopes:
            return
        error = self._add_all(envelopes)
        wanted = any(type(envelope.event).__name__ in FLUSH_AT for envelope in envelopes)
        if wanted or self._buffered >= _BUFFER_BYTES or self._clock() - self._oldest_at >= FLUSH_AFTER_S:
            error = error or self._try_flush()
        if error is not None:
            raise error

    def _add_all(self, envelopes: Sequence[Envelope]) -> LogError | None:
        """Add envelopes at once if all of them fit, or else as many as do."""
        if self._is_empty:
            self._is_empty = False
            self._file.truncate(0)
        lines = [encode_envelope(envelope) + b"\n" for envelope in envelopes]
        size = sum(map(len, lines))
        if self.dropped or self._failed or not self._has_room(size):
            errors = [self._add(line) for line in lines]
            return next((error for error in errors if error is not None), None)
        if not self._lines:
            self._oldest_at = self._clock()
        self._lines += lines
        self._buffered += size
        return None

    def _add(self, line: bytes) -> LogError | None:
        if self.dropped:
            self.dropped += 1
            return None
        error = None if self._has_room(len(line)) else self._try_flush()
        if self._failed:
            self.lost += 1
            return error
        if not self._has_room(len(line)):
            self.dropped += 1
            return None
        if not self._lines:
            self._oldest_at = self._clock()
        self._lines.append(line)
        self._buffered += len(line)
        return None

    def _has_room(self, size: int) -> bool:
        # Buffered lines count uncompressed, so the limit holds even if they do not compress at all.
        return self._max_bytes is None or self._written + self._buffered + size <= self._max_bytes

    def flush(self) -> None:
        """Hand all appended envelopes to the operating system.

        Raises:
            LogError: They cannot be written.
        """
        error = self._try_flush()
        if error is not None:
            raise error

    def close(self) -> None:
        """Flush and end the file. Calling it again does nothing.

        A log without envelopes leaves no file behind, or leaves the earlier file unchanged.

        Raises:
            LogError: The rest cannot be written, or the file was removed. In that case all of it counts as lost.
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
            raise LogError(f"{_shown(self.path)} was removed while it was written")

    def _try_flush(self) -> LogError | None:
        if not self._lines:
            return None
        lines, self._lines = self._lines, []
        self._buffered = 0
        left = len(lines)
        # In pieces, so that a disk that becomes full in the middle still keeps what fits.
        for piece in _pieces(lines):
            try:
                self._write(self._codec.compress_block(b"".join(piece)))
            except OSError as error:
                self.lost += left
                self._give_up()
                return _cannot_write(self.path, error)
            left -= len(piece)
            self._kept += len(piece)
        return None

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._written += len(data)

    def _give_up(self) -> None:
        """Cut the file back to the end of the last flush, so that it does not end within a line."""
        self._failed = True
        try:
            self._file.truncate(self._written)
        except OSError:
            return


def _pieces(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    begin = size = 0
    for end, line in enumerate(lines, 1):
        size += len(line)
        if size >= _BUFFER_BYTES or end == len(lines):
            yield lines[begin:end]
            begin, size = end, 0


def _codec(path: Path) -> _Codec:
    if path.suffix == ".gz":
        return _Gzip()
    if path.suffix == ".zst":
        return _Zstandard(path)
    return _Plain()


def _cannot_write(path: Path, error: OSError) -> LogError:
    return LogError(f"cannot write {_shown(path)}: {error.strerror or error}")


def _shown(path: Path) -> str:
    return safe_text(str(path), _LONGEST_PATH)


def _create(path: Path, *, overwrite: bool) -> tuple[IO[bytes], bool]:
    """Open the file. Returns it, and whether it existed before."""
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        was_there = path.exists()
        if was_there and not stat.S_ISREG(path.stat().st_mode):
            hint = f"name a file in it: {_shown(path / 'proof.jsonl')}" if path.is_dir() else "name a file"
            raise LogError(f"cannot write {_shown(path)}: it exists and is not a regular file", hint=hint)
        if not overwrite:
            return open(path, "xb", buffering=0, opener=private_opener), False
        # Not truncated yet: a run that fails before its first envelope must not cost the earlier recording.
        return open(path, "r+b" if was_there else "xb", buffering=0, opener=private_opener), was_there
    except FileExistsError as error:
        hint = "remove it or choose another name"
        raise LogError(f"{_shown(path)} exists and is not overwritten", hint=hint) from error
    except OSError as error:
        raise _cannot_write(path, error) from error


def _lock(file: IO[bytes], path: Path) -> None:
    """Hold the file until it is closed, so that no other log replaces what is still being written.

    Raises:
        LogError: Another log holds it.
    """
    try:
        import fcntl  # not on Windows

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise LogError(f"another run is writing {_shown(path)}", hint="choose another name") from error
    except (ImportError, OSError):  # a file system without locks
        return


def read_envelope_log(
    path: Path, catalog: Catalog | None = None, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Decoded | Refusal]:
    """Read a log in order, as far as it is intact. Its writer may have been killed: then a warning says where it ends.

    Args:
        path: The file, plain or compressed with gzip or Zstandard.
        catalog: The event types to read with. By default the core's own.
        max_line_bytes: The longest line that is read.

    Yields:
        A `Decoded` for each event, and a `Refusal` for each line that cannot be read.

    Raises:
        SourceError: The file does not exist, or it is damaged. In that case, all that can be read was yielded before.
    """
    # Imported here because `import proofstream` loads this module, and few programs read a log.
    from proofstream.sources.compression import blocks
    from proofstream.sources.files import open_file
    from proofstream.sources.lines import LineReader
    from proofstream.sources.stored import CutShort, Damaged

    reader = LineReader(LineDecoder(catalog if catalog is not None else Catalog()), max_line_bytes)
    cut: CutShort | None = None
    with open_file(path) as file:
        try:
            for block in blocks(file, path):
                yield from reader.read_bytes(block)
        except CutShort as broken_off:
            cut = broken_off
    yield from reader.finish(cut_short=cut is not None)
    if isinstance(cut, Damaged):
        raise SourceError(str(cut)) from cut
    if cut is not None:
        warn_user(str(cut))
