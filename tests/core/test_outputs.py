"""Files and folders for results."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from proofstream import create_beside, make_private_folder, private_opener
from proofstream.outputs import Wanted, remove_unwritten, reserve_together


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


@pytest.mark.parametrize(
    ("path", "second"),
    [
        ("proof.rrd", "proof-2.rrd"),
        ("out/proof.jsonl.gz", "out/proof-2.jsonl.gz"),
        ("proof.zst", "proof-2.zst"),
        ("v1.2/proof", "v1.2/proof-2"),
        ("a.b.jsonl", "a.b-2.jsonl"),
        (".jsonl.gz", ".jsonl-2.gz"),
    ],
)
def test_the_number_stands_before_the_whole_suffix(path: str, second: str) -> None:
    assert Wanted(path=Path(path)).numbered(2) == Path(second)
    assert Wanted(path=Path(path)).numbered(1) == Path(path)


def test_a_folder_has_no_suffix_and_the_current_one_has_a_name() -> None:
    assert Wanted(path=Path("otlp.d"), files=("a",)).numbered(3) == Path("otlp.d-3")
    here = Path.cwd()
    assert Wanted(path=Path(), files=("a",)).numbered(2) == here.with_name(f"{here.name}-2")


def test_a_folder_is_taken_by_the_files_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "otlp"
    assert create_beside(folder, files=("a", "b")) == (folder, 1)
    (folder / "a").unlink()
    assert create_beside(folder, files=("a", "b")) == (tmp_path / "otlp-2", 2)
    assert sorted(path.name for path in folder.iterdir()) == ["b"]  # nothing is left of the attempt


def test_runs_that_start_at_once_never_share_a_name(tmp_path: Path) -> None:
    wanted = [Wanted(path=tmp_path / "r.jsonl"), Wanted(path=tmp_path / "otlp", files=("traces.jsonl", "logs.jsonl"))]
    runs = 8
    start = Barrier(runs)

    def reserve(run: int) -> list[tuple[str, int]]:
        start.wait()
        order = wanted if run % 2 else wanted[::-1]
        return [(output.path.name, output.number) for output, _ in reserve_together(order).values()]

    with ThreadPoolExecutor(runs) as pool:
        found = list(pool.map(reserve, range(runs)))
    numbers = [{number for _, number in names} for names in found]
    assert [len(names) for names in found] == [2] * runs
    assert [len(each) for each in numbers] == [1] * runs
    assert len({number for each in numbers for number in each}) == runs
    kept = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert len(kept) == 3 * runs


def test_a_result_of_which_a_file_is_gone_is_kept_if_another_was_written(tmp_path: Path) -> None:
    gone, written = tmp_path / "gone", tmp_path / "written"
    written.write_text("line")
    remove_unwritten([tmp_path, gone, written])
    assert written.read_text() == "line"
