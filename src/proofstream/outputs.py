"""Creates files and folders for a run's results: readable by the user alone, and never in place of another file.

A result whose name is in use gets a fresh one beside it: `proof-2.jsonl.gz`, `otlp-2`. All results of a run get the
same number, and each file is created exclusively, so runs never share one, not even if they start at once.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

ITSELF = (".",)
"""The files of a result that is one file."""

_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
# A folder with this many results of one name needs another name, not another number.
_MOST_NAMES = 10_000
_PACKED = frozenset({".gz", ".zst"})
# What is named there is a stream of a process, or a device.
_SPECIAL_FOLDERS = frozenset({"/dev", "/dev/fd", "/proc/self/fd"})


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The name that a result got.

    Attributes:
        path: Where to write it.
        asked: The name that was asked for.
        number: The number in the name; 1 if it is the one that was asked for.
    """

    path: Path
    asked: Path
    number: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A result that a run is going to write.

    Attributes:
        path: The name that was asked for.
        files: The files that are created for it: `ITSELF`, or names in it if it is a folder. Without any, its name is
            only chosen.
    """

    path: Path
    files: tuple[str, ...] = ITSELF

    @property
    def is_folder(self) -> bool:
        """Whether it is known to be a folder."""
        return bool(self.files) and self.files != ITSELF

    def numbered(self, number: int) -> Path:
        """Return the name with a number: `proof.jsonl.gz`, `proof-2.jsonl.gz`, `proof-3.jsonl.gz`."""
        if number == 1:
            return self.path
        path = self.path if self.path.name not in ("", "..") else self.path.resolve()
        suffix = "" if self.is_folder else _suffix_of(path)
        return path.with_name(f"{path.name.removesuffix(suffix)}-{number}{suffix}")

    def is_possible(self) -> bool:
        """Return whether a fresh name beside it could help: not for a device, or a folder where a file belongs."""
        if str(self.path.parent) in _SPECIAL_FOLDERS:
            return False
        try:
            mode = self.path.stat().st_mode
        except FileNotFoundError:
            return True
        except (OSError, ValueError):  # such as a NUL in it
            return False
        return (stat.S_ISREG(mode) and not self.is_folder) or (stat.S_ISDIR(mode) and self.files != ITSELF)

    def is_in_use(self, path: Path) -> bool:
        """Return whether one of its names is in use. A link is, also one that leads nowhere: its target is not ours."""
        if self.files:
            return any(os.path.lexists(path / name) for name in self.files)
        return os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir()))

    def create(self, path: Path) -> list[Path]:
        """Create its files, and missing folders; return the files, after the folder that holds them if that is new.

        Raises:
            FileExistsError: One of them exists; then none is left.
            OSError: One of them cannot be created; then none is left.
        """
        made = [path] if self.is_folder and not path.is_dir() else []
        make_private_folder(path if self.is_folder else path.parent)
        try:
            for name in self.files:
                os.close(private_opener(str(path / name), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                made.append(path / name)
        except OSError:
            remove_unwritten(made)
            raise
        return made


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, with mode 0700 less the process's umask. An existing one is left alone.

    Raises:
        OSError: It cannot be created, or another file is in its place.
    """
    missing = itertools.takewhile(lambda path: not path.is_dir(), (folder, *folder.parents))
    for path in reversed(list(missing)):
        # `Path.mkdir(parents=True)` gives the mode to the last folder only.
        try:
            path.mkdir(_PRIVATE_FOLDER, exist_ok=True)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error


def private_opener(path: str, flags: int) -> int:
    """Open a file for the built-in `open`, as its `opener`. A new file gets mode 0600 less the process's umask.

    Raises:
        OSError: It cannot be opened.
    """
    return os.open(path, flags, _PRIVATE_FILE)


def create_beside(path: Path, *, first: int = 1, files: tuple[str, ...] = ITSELF) -> tuple[Path, int]:
    """Create an empty private file at `path`, or beside it if that exists: `proof.rrd`, `proof-2.rrd`, `proof-3.rrd`.

    Missing parent folders are created, too. Each name is created exclusively, so two runs never share a file.

    Args:
        path: The first name.
        first: The number of the name to begin with. A run that writes thousands of files knows which it has used.
        files: For a folder: the names of the files to create in it. A folder that has one of them is in use.

    Returns:
        The path of the new file or folder, and its number.

    Raises:
        OSError: It cannot be created.
    """
    wanted = Wanted(path=path, files=files)
    for number in range(first, first + _MOST_NAMES):
        fresh = wanted.numbered(number)
        with suppress(FileExistsError):
            wanted.create(fresh)
            return fresh, number
    raise FileExistsError(f"{path} and {_MOST_NAMES} numbered names beside it exist")


def reserve_together(wanted: Sequence[Wanted]) -> dict[Wanted, tuple[Output, list[Path]]]:
    """Create the files of several results under the first number for which all their names are free.

    Returns:
        The name of each result, and what was created for it. A result that cannot be created is left out: the plugin
        that writes it meets the reason.
    """
    # In one order, whatever that of the flags: of two runs that start at once, the first name tells which has them all.
    possible = sorted((each for each in wanted if each.is_possible()), key=lambda each: each.path)
    for number in range(1, _MOST_NAMES):
        reserved: dict[Wanted, tuple[Output, list[Path]]] = {}
        if all(_reserve(each, number, reserved) for each in possible):
            return reserved
        for _, made in reserved.values():
            remove_unwritten(made)
    return {}


def _reserve(wanted: Wanted, number: int, reserved: dict[Wanted, tuple[Output, list[Path]]]) -> bool:
    """Create the files of one result, if that can be done; return False if its name is in use."""
    try:
        path = wanted.numbered(number)
        if wanted.is_in_use(path):
            return False
        reserved[wanted] = (Output(path=path, asked=wanted.path, number=number), wanted.create(path))
    except FileExistsError:
        return False
    except (OSError, ValueError):  # no permission, no space, no name that could have a number
        return True
    return True


def remove_unwritten(made: Sequence[Path]) -> None:
    """Remove what was created for a result, unless something was written to one of its files."""
    if any(_is_written(path) for path in made):
        return
    for path in reversed(made):
        with suppress(OSError):  # it is gone, or a folder with other files in it
            (path.rmdir if path.is_dir() else path.unlink)()


def _is_written(path: Path) -> bool:
    try:
        return not path.is_dir() and path.stat().st_size > 0
    except FileNotFoundError:  # its plugin did not need it
        return False
    except OSError:
        return True  # for all that is known


def _suffix_of(path: Path) -> str:
    if path.suffix in _PACKED:
        return path.with_suffix("").suffix + path.suffix
    return path.suffix
