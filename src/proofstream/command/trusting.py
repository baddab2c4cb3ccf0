"""Runs ``proofstream trust``: records the user's consent to a folder's configuration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from proofstream.config_files import CONFIG_FILE, PROJECT_FILE, find_config_file, read_config_file
from proofstream.errors import UsageError
from proofstream.trust import give_trust, place_of, revoke_trust


def trust_file(path: Path, environ: Mapping[str, str], note: Callable[[str], None]) -> None:
    """Trust a configuration file with its present content, and say what it sets.

    Args:
        path: The file, or its folder.
        environ: The environment.
        note: Receives one line.

    Raises:
        UsageError: There is not such a file, it cannot be read, or the trust cannot be recorded.
    """
    file = find_config_file(path) if path.is_dir() else read_config_file(path)
    if file is None:
        raise UsageError(f"{path} has neither a {CONFIG_FILE} nor a {PROJECT_FILE} with [tool.proofstream]")
    _check_name(file.path)
    place = place_of(file.path)
    try:
        give_trust(place, file.content, environ)
    except OSError as error:
        raise UsageError(f"the trust cannot be recorded: {error.filename}: {error.strerror}") from None
    note(f"{place} is trusted until it changes; it sets {file.keys or 'nothing'}")


def revoke_file(path: Path, environ: Mapping[str, str], note: Callable[[str], None]) -> None:
    """Forget the trust in a configuration file, or in those of a folder. They need not exist any more.

    Raises:
        UsageError: The record cannot be removed, or the file needs no trust.
    """
    paths = [path / CONFIG_FILE, path / PROJECT_FILE] if path.is_dir() else [path]
    try:
        revoked = [place for place in map(place_of, paths) if revoke_trust(place, environ)]
    except OSError as error:
        raise UsageError(f"the trust cannot be revoked: {error.filename}: {error.strerror}") from None
    for place in revoked:
        note(f"{place} is not trusted any more")
    if not revoked:
        note(f"{path} was not trusted")


def _check_name(path: Path) -> None:
    if path.name not in (CONFIG_FILE, PROJECT_FILE):
        names = f"{CONFIG_FILE} and {PROJECT_FILE}"
        raise UsageError(f"only {names} are looked for in a folder, not {path.name}", hint=f"use it by --config {path}")
