"""Records which folders' configuration files the user trusts: the place of each, and its exact content."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from pathlib import Path

from proofstream.errors import UsageError
from proofstream.inputs import read_small_file
from proofstream.outputs import make_private_folder

_PROJECT = "proofstream"
_LONGEST_RECORD = 2**16


class Trust(enum.Enum):
    """The user's consent to one file."""

    GIVEN = "given"
    """For this place and this content."""
    OUTDATED = "outdated"
    """For this place, but the content was another."""
    NEVER = "never"
    """Not for this place."""


def users_config_file(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the user's own configuration, ``proofstream/config.toml`` in the XDG folder."""
    folder = _xdg_folder(environ, "XDG_CONFIG_HOME", ".config")
    return None if folder is None else folder / "config.toml"


def trust_in(place: Path, content: bytes, environ: Mapping[str, str]) -> Trust:
    """Return whether the user trusts a file.

    Args:
        place: Its absolute path; see `place_of`.
        content: The bytes that were read from it. Read them once: they are checked, and then used.
        environ: The environment.
    """
    record = _record_of(place, environ)
    try:
        recorded = b"" if record is None else read_small_file(record, _LONGEST_RECORD)
    except OSError:
        return Trust.NEVER
    if not recorded:
        return Trust.NEVER
    return Trust.GIVEN if recorded == _text_of(place, content) else Trust.OUTDATED


def give_trust(place: Path, content: bytes, environ: Mapping[str, str]) -> None:
    """Record that the user trusts a file with this content, in place of any other content.

    Raises:
        UsageError: There is not a folder for the record.
        OSError: It cannot be written.
    """
    record = _record_of(place, environ)
    if record is None:
        raise UsageError("the trust cannot be recorded: neither XDG_STATE_HOME nor HOME names a folder")
    make_private_folder(record.parent)
    import tempfile

    with tempfile.NamedTemporaryFile(dir=record.parent, delete=False) as file:
        file.write(_text_of(place, content))
    Path(file.name).replace(record)


def revoke_trust(place: Path, environ: Mapping[str, str]) -> bool:
    """Forget that the user trusts a file; return whether this was recorded.

    Raises:
        OSError: The record cannot be removed.
    """
    record = _record_of(place, environ)
    if record is None or not record.exists():
        return False
    record.unlink()
    return True


def place_of(path: Path) -> Path:
    """Return a file's absolute path, with its folder's links resolved but not its own.

    A link in another folder is thus another place: relative paths in the file would mean other files there.
    """
    return path.parent.resolve() / path.name


def _record_of(place: Path, environ: Mapping[str, str]) -> Path | None:
    folder = _xdg_folder(environ, "XDG_STATE_HOME", ".local", "state")
    return None if folder is None else folder / "trusted" / _sha256(os.fsencode(place))


def _text_of(place: Path, content: bytes) -> bytes:
    """Return a record in the form of the program sha256sum."""
    return _sha256(content).encode() + b"  " + os.fsencode(place) + b"\n"


def _xdg_folder(environ: Mapping[str, str], variable: str, *in_home: str) -> Path | None:
    """Return the project's folder in one of XDG's. The specification ignores relative paths, and so do we."""
    named, home = Path(environ.get(variable, "")), Path(environ.get("HOME", ""))
    if named.is_absolute():
        return named / _PROJECT
    return home.joinpath(*in_home, _PROJECT) if home.is_absolute() else None


def _sha256(content: bytes) -> str:
    import hashlib  # slow to load, and most folders have no such file

    return hashlib.sha256(content).hexdigest()
