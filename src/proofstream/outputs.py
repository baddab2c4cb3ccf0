"""Creates files and folders for a run's results: readable by the user alone, and never in place of another file."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
# A folder with this many results of one name needs another name, not another number.
_MOST_NAMES = 10_000


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


def create_beside(path: Path, *, first: int = 1) -> tuple[Path, int]:
    """Create an empty private file at `path`, or beside it if that exists: `proof.rrd`, `proof-2.rrd`, `proof-3.rrd`.

    Missing parent folders are created, too. Each name is created exclusively, so two runs never share a file.

    Args:
        path: The first name.
        first: The number of the name to begin with. A run that writes thousands of files knows which it has used.

    Returns:
        The path of the new file, and its number.

    Raises:
        OSError: It cannot be created.
    """
    make_private_folder(path.parent)
    for number in range(first, first + _MOST_NAMES):
        fresh = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            os.close(private_opener(str(fresh), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return fresh, number
    raise FileExistsError(f"{path} and {_MOST_NAMES} numbered names beside it exist")
