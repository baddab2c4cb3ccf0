"""The names of a run's results: free ones, the same number for all, and only what was written is a result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from proofstream.contracts import Artefact, Option, OptionKind
from proofstream.errors import UsageError
from proofstream.reservations import Reservations

FOLDER = ("traces.jsonl", "logs.jsonl")


def flag(
    name: str,
    *,
    kind: OptionKind = OptionKind.VALUE,
    form: str = "{path}",
    files: tuple[str, ...] = (".",),
    plugin: str = "writer",
) -> tuple[Option, str]:
    artefact = Artefact(name=f"{name}.txt", next_step=f"read {name}", form=form, files=files)
    return Option(flag=f"--{name}", key=name, kind=kind, summary="s", artefact=artefact), plugin


def reserve(*flags: tuple[Option, str], **table: Any) -> Reservations:
    return Reservations(flags, {"writer": table})


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def outputs(reservations: Reservations) -> list[str]:
    return [result.output.path.name for result in reservations.results]


def test_all_results_of_a_run_get_the_first_number_that_is_free_for_all(tmp_path: Path) -> None:
    (tmp_path / "proof-2.rrd").write_text("of an earlier run")
    (tmp_path / "proof.jsonl.gz").write_text("of an earlier run")
    flags = (flag("record"), flag("draw", kind=OptionKind.REPEATED, form="file:{path}"), flag("otlp", files=FOLDER))
    table: dict[str, Any] = {
        "record": str(tmp_path / "proof.jsonl.gz"),
        "draw": ["serve", f"file:{tmp_path / 'proof.rrd'}"],
        "otlp": tmp_path / "otlp",
    }
    reserved = reserve(*flags, **table)
    assert outputs(reserved) == ["proof-3.jsonl.gz", "proof-3.rrd", "otlp-3"]
    assert reserved.table_of("writer") == {
        "record": str(tmp_path / "proof-3.jsonl.gz"),
        "draw": ["serve", f"file:{tmp_path / 'proof-3.rrd'}"],
        "otlp": str(tmp_path / "otlp-3"),
    }
    assert table["draw"][1] == f"file:{tmp_path / 'proof.rrd'}"  # the user's own table is left alone
    assert names_in(tmp_path / "otlp-3") == ["logs.jsonl", "traces.jsonl"]
    assert reserved.notice == (
        f"{tmp_path}/proof.jsonl.gz exists, so this run writes "
        f"{tmp_path}/proof-3.jsonl.gz, {tmp_path}/proof-3.rrd and {tmp_path}/otlp-3"
    )
    assert {output.number for output in reserved.outputs_of("writer").values()} == {3}


def test_names_that_are_free_are_kept_and_nothing_is_said(tmp_path: Path) -> None:
    reserved = reserve(flag("record"), record=tmp_path / "new" / "deep" / "proof.jsonl")
    assert outputs(reserved) == ["proof.jsonl"]
    assert reserved.notice is None
    assert (tmp_path / "new" / "deep" / "proof.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_plugin_that_may_overwrite_keeps_its_name_and_takes_no_part(tmp_path: Path) -> None:
    path, other = tmp_path / "proof.jsonl", tmp_path / "notes.txt"
    path.write_text("precious")
    tables: Mapping[str, Mapping[str, Any]] = {
        "writer": {"record": str(path), "overwrite": "true"},
        "noter": {"notes": str(other)},
    }
    reserved = Reservations([flag("record"), flag("notes", plugin="noter")], tables)
    assert outputs(reserved) == ["proof.jsonl", "notes.txt"]
    assert (path.read_text(), reserved.outputs_of("writer")) == ("precious", {})
    assert list(reserved.outputs_of("noter")) == [other]


def test_a_folder_is_in_use_only_if_it_holds_such_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    first = reserve(flag("otlp", files=FOLDER), otlp=tmp_path)
    assert first.results[0].output.path == tmp_path
    (tmp_path / "traces.jsonl").unlink()
    again = reserve(flag("otlp", files=FOLDER), otlp=tmp_path)
    assert again.results[0].output.path == tmp_path.with_name(f"{tmp_path.name}-2")


def test_a_result_without_files_gets_a_free_name_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    reserved = reserve(flag("notes", files=()), notes=str(tmp_path / "notes.txt"))
    assert reserved.table_of("writer") == {"notes": str(tmp_path / "notes-2.txt")}
    assert reserved.outputs_of("writer") == {}
    assert names_in(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/new", "folder", "pipe", "file/below", "with\0nul"])
def test_what_no_fresh_name_can_help_is_left_to_its_plugin(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    reserved = reserve(flag("record"), flag("notes"), record=str(tmp_path / path), notes=str(tmp_path / "notes"))
    assert outputs(reserved) == ["notes"]
    assert reserved.table_of("writer")["record"] == str(tmp_path / path)
    assert names_in(tmp_path) == ["file", "folder", "notes", "pipe"]


def test_two_results_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "proof"
    with pytest.raises(UsageError, match=r"^writer\.record and writer\.notes name the same result"):
        reserve(flag("record"), flag("notes"), record=str(path), notes=str(tmp_path / "." / "proof"))
    assert names_in(tmp_path) == []


def test_what_was_not_written_is_removed_and_what_was_written_is_a_result(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("from before")
    flags = [flag("old"), flag("written"), flag("never"), flag("out", files=FOLDER), flag("empty", files=FOLDER)]
    table = {name: tmp_path / name for name in ("old", "written", "never", "out", "empty")}
    reserved = Reservations(flags, {"writer": {**table, "overwrite": False}})
    assert names_in(tmp_path) == ["empty-2", "never-2", "old", "old-2", "out-2", "written-2"]
    (tmp_path / "written-2").write_text("new")
    (tmp_path / "out-2" / "logs.jsonl").write_text("new")
    reserved.release("writer")
    assert [(result.output.path.name, result.next_step) for result in reserved.written] == [
        ("written-2", "read written"),
        ("out-2", "read out"),
    ]
    assert names_in(tmp_path) == ["old", "out-2", "written-2"]
    assert names_in(tmp_path / "out-2") == ["logs.jsonl", "traces.jsonl"]


def test_an_older_file_that_was_left_alone_is_no_result(tmp_path: Path) -> None:
    for name in ("left", "rewritten"):
        (tmp_path / name).write_text("from before")
        os.utime(tmp_path / name, (1, 1))
    flags = (flag("left"), flag("rewritten"))
    reserved = reserve(*flags, left=tmp_path / "left", rewritten=tmp_path / "rewritten", overwrite=True)
    (tmp_path / "rewritten").write_text("new")
    reserved.release("writer")
    assert [result.output.path.name for result in reserved.written] == ["rewritten"]
    assert names_in(tmp_path) == ["left", "rewritten"]


@pytest.mark.parametrize(
    ("artefact", "says"),
    [
        ({"form": "file:"}, r"must hold \{path\} once"),
        ({"next_step": "open {file}"}, r"may hold \{path\}, \{command\} and \{folder\} only"),
        ({"next_step": "open {0}"}, "only"),
        ({"next_step": "open {"}, "only"),
    ],
)
def test_an_artefact_that_could_not_be_listed_is_refused_at_once(artefact: dict[str, Any], says: str) -> None:
    fields: dict[str, Any] = {"name": "x.txt", "next_step": "read it", **artefact}
    with pytest.raises(ValueError, match=says):
        Artefact(**fields)


def test_a_switch_has_no_artefact() -> None:
    with pytest.raises(ValueError, match="--out' is a switch"):
        flag("out", kind=OptionKind.SWITCH)
