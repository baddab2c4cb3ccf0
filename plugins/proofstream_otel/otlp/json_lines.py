"""A file of JSON lines that other programs read while it grows: whole lines, of bounded size, set aside when full.

Each line is written with one call, so that a killed process leaves whole lines. No line is longer than
`MAX_LINE_BYTES`, because readers split longer ones and lose them.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

from proofstream import ConfigError, make_private_folder, private_opener, safe_text
from proofstream_otel.values.signals import Signal

MAX_LINE_BYTES = 512 * 2**10

_MAX_PATH_CHARS = 1024
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class JsonLines:
    """The file of one signal in one run. A file of an earlier run is set aside first."""

    def __init__(self, folder: Path, signal: Signal, *, max_bytes: int, log: logging.Logger) -> None:
        """Open the file.

        Raises:
            ConfigError: The folder or the file cannot be made.
        """
        self._path = folder / f"{signal.file_stem}.jsonl"
        self._shown = safe_text(str(self._path), _MAX_PATH_CHARS)
        self._signal = signal
        self._max_bytes = max_bytes
        self._log = log
        self._owner = os.getpid()
        self._written = 0
        self._lost = 0
        # The items in the file that is open, and its bytes.
        self._kept = 0
        self._size = 0
        self._next = 1
        self._fd: int | None = None
        try:
            make_private_folder(folder)
            self._open()
        except OSError as error:
            # A file in the place of one of the folders "exists", which would be a strange reason here.
            reason = os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror
            shown = safe_text(str(folder), _MAX_PATH_CHARS)
            raise ConfigError(f"otel.file: cannot write to {shown}: {reason}") from None

    def append_line(self, line: bytes, count: int = 1) -> None:
        """Append a line that holds `count` items. Count what cannot be written, and warn once."""
        if os.getpid() != self._owner:
            return  # the child of a fork shares the file with its parent
        try:
            self._append(line)
        except OSError as error:
            if not self._lost:
                name = self._signal.name
                self._log.warning("%s are being lost: cannot write %s: %s", name, self._shown, error.strerror)
            self._lost += count
        else:
            self._written += count
            self._kept += count

    def counters(self) -> dict[str, int]:
        """Count the items that were written to the file, and those that could not be."""
        return {self._signal.written: self._written, self._signal.lost: self._lost}

    def close(self) -> None:
        """Close the file."""
        self._close()
        if self._lost:
            self._log.warning("%d %s could not be written to %s", self._lost, self._signal.items, self._shown)

    def _append(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._max_bytes:
            self._close()
        if self._fd is None:
            self._open()
        assert self._fd is not None
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            # Remove half a line: a reader would lose the next one with it.
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)

    def _close(self) -> None:
        if self._fd is None:
            return
        is_removed = not os.fstat(self._fd).st_nlink  # writes to a removed file succeed
        os.close(self._fd)
        self._fd = None
        if is_removed and self._kept:
            self._log.warning("%s are lost: %s was removed while it was written", self._signal.name, self._shown)
            self._written -= self._kept
            self._lost += self._kept
        self._kept = 0

    def _open(self) -> None:
        """Set a file with content aside, and begin a new file."""
        try:
            if self._path.stat().st_size:
                self._path.rename(self._free_path())
        except FileNotFoundError:
            pass
        self._fd = private_opener(str(self._path), _FLAGS)
        self._size = os.fstat(self._fd).st_size

    def _free_path(self) -> Path:
        while True:
            aside = self._path.with_name(f"{self._path.stem}-{self._next}{self._path.suffix}")
            if not aside.exists():
                return aside
            self._next += 1
