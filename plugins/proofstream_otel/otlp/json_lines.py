"""A file of JSON lines that other programs read while it grows: whole lines, of bounded size, set aside when full.

Each line is written with one call, so that a killed process leaves whole lines. No line is longer than
`MAX_LINE_BYTES`, because readers split longer ones and lose them.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from proofstream import ConfigError, create_beside, private_opener, safe_text
from proofstream_otel.values.signals import SIGNALS, Signal

MAX_LINE_BYTES = 512 * 2**10

_MAX_PATH_CHARS = 1024
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


def open_folder(
    folder: Path, signals: Sequence[Signal], *, reserved: bool, overwrite: bool, log: logging.Logger
) -> Path:
    """Create an empty file for each signal, and return the folder: another one beside it if it holds those of a run.

    Args:
        folder: The folder that was asked for.
        signals: The signals that are written.
        reserved: Whether the files of all signals were created for us.
        overwrite: Whether the files of an earlier run are removed.
        log: The plugin's logger.

    Raises:
        ConfigError: The folder or a file cannot be made.
    """
    try:
        if reserved:
            for signal in SIGNALS:
                if signal not in signals:
                    (folder / signal.file_name).unlink(missing_ok=True)
            return folder
        if overwrite:
            _remove_earlier(folder)
        fresh, number = create_beside(folder, files=tuple(signal.file_name for signal in signals))
    except (OSError, ValueError) as error:
        # A file in the place of one of the folders "exists", which would be a strange reason here.
        is_taken = isinstance(error, FileExistsError)
        reason = os.strerror(errno.ENOTDIR) if is_taken else getattr(error, "strerror", None) or error
        raise ConfigError(f"otel.file: cannot write to {_shown(folder)}: {reason}") from None
    if number > 1:
        log.warning("%s holds an earlier run, so this run writes %s", _shown(folder), _shown(fresh))
    return fresh


def _remove_earlier(folder: Path) -> None:
    """Remove the files of an earlier run. A link stays, as its target may be another program's."""
    stems = "|".join(signal.file_stem for signal in SIGNALS)
    for path in folder.iterdir() if folder.is_dir() else ():
        if re.fullmatch(rf"({stems})(-[0-9]+)?\.jsonl", path.name) and stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


def _shown(path: Path) -> str:
    return safe_text(str(path), _MAX_PATH_CHARS)


class JsonLines:
    """The file of one signal in one run.

    Args:
        folder: The folder that `open_folder` returned.
        signal: The signal.
        max_bytes: The size at which the file is set aside.
        log: The plugin's logger.

    Raises:
        ConfigError: The file cannot be opened.
    """

    def __init__(self, folder: Path, signal: Signal, *, max_bytes: int, log: logging.Logger) -> None:
        self._path = folder / signal.file_name
        self._shown = _shown(self._path)
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
            self._open()
        except OSError as error:
            raise ConfigError(f"otel.file: cannot write to {_shown(folder)}: {error.strerror}") from None

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
            self._set_aside()
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
        self._fd = private_opener(str(self._path), _FLAGS)
        self._size = os.fstat(self._fd).st_size

    def _set_aside(self) -> None:
        with suppress(FileNotFoundError):
            self._path.rename(self._free_path())

    def _free_path(self) -> Path:
        while True:
            aside = self._path.with_name(f"{self._path.stem}-{self._next}{self._path.suffix}")
            if not os.path.lexists(aside):
                return aside
            self._next += 1
