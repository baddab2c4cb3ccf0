"""Files and folders for results."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from proofstream import create_beside, make_private_folder, private_opener


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_new_folder_is_private(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b")
    assert [_mode(tmp_path / "a"), _mode(tmp_path / "a" / "b")] == [0o700, 0o700]


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o755)
    make_private_folder(tmp_path / "a")
    assert _mode(tmp_path / "a") == 0o755


def test_a_file_in_the_folders_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("not a folder")
    with pytest.raises(NotADirectoryError):
        make_private_folder(tmp_path / "a" / "b")


def test_a_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.touch(0o644)
    for name in ("old", "new"):
        open(tmp_path / name, "w", opener=private_opener).close()
    assert [_mode(old), _mode(tmp_path / "new")] == [0o644, 0o600]


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results" / "proof.rrd"
    assert create_beside(path) == (path, 1)
    path.write_text("precious")
    assert create_beside(path) == (path.with_name("proof-2.rrd"), 2)
    assert create_beside(path) == (path.with_name("proof-3.rrd"), 3)
    assert create_beside(path, first=7) == (path.with_name("proof-7.rrd"), 7)
    assert create_beside(path, first=7) == (path.with_name("proof-8.rrd"), 8)
    assert path.read_text() == "precious"
    assert _mode(path) == 0o600


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "proof.rrd").symlink_to(tmp_path / "elsewhere")
    assert create_beside(tmp_path / "proof.rrd") == (tmp_path / "proof-2.rrd", 2)
    assert not (tmp_path / "elsewhere").exists()
