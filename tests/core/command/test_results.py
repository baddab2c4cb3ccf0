"""The list of a command's results: only those that it wrote, in one line each where there is room, else in two."""

from __future__ import annotations

import os
import pty
import struct
import sys
import termios
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from proofstream.command.results import Results, columns_of_standard_error, lines_about
from proofstream.command.voice import LONGEST_LINE
from proofstream.contracts import Artefact, Option, OptionKind
from proofstream.errors import UsageError

RESULTS = [(Path("out/otlp"), "for a Collector"), (Path("out/proof.jsonl"), "replay it: {command} run {path}")]


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(Path("env", "bin", "prove"))])


def test_results_stand_in_one_line_each_where_there_is_room() -> None:
    lines = [
        "  out/otlp         for a Collector",
        "  out/proof.jsonl  replay it: env/bin/prove run out/proof.jsonl",
    ]
    assert lines_about(RESULTS, columns=len(lines[1])) == lines


def test_a_narrow_terminal_has_two_lines_for_each() -> None:
    assert lines_about(RESULTS, columns=60) == [
        "  out/otlp",
        "    for a Collector",
        "  out/proof.jsonl",
        "    replay it: env/bin/prove run out/proof.jsonl",
    ]


def test_a_path_with_a_space_can_be_pasted_and_an_escape_only_shows_itself() -> None:
    results = [(Path("my proof.jsonl"), "replay it: {command} run {path}"), (Path("\x1b[31m"), "look at it")]
    assert lines_about(results, columns=200) == [
        "  my proof.jsonl  replay it: env/bin/prove run 'my proof.jsonl'",
        "  \u241b[31m           look at it",
    ]


def flag(name: str, kind: OptionKind = OptionKind.VALUE, form: str = "{path}") -> tuple[Option, str]:
    artefact = Artefact(name=f"{name}.txt", next_step=f"read {name}", form=form)
    return Option(flag=f"--{name}", key=name, kind=kind, summary="s", artefact=artefact), "writer"


def test_only_what_was_written_since_is_a_result(tmp_path: Path) -> None:
    names = ["old", "rewritten", "written", "never"]
    paths = {name: tmp_path / name for name in names}
    for name in ("old", "rewritten"):
        paths[name].write_text("from before")
        os.utime(paths[name], (1, 1))
    results = Results([flag(name) for name in names], {"writer": {name: str(path) for name, path in paths.items()}})
    for name in ("rewritten", "written"):
        paths[name].write_text("new")
    assert results.written() == [(paths["rewritten"], "read rewritten"), (paths["written"], "read written")]


def test_a_folder_is_a_result_when_something_in_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path):
        os.utime(path, (1, 1))
    results = Results([flag("out")], {"writer": {"out": str(tmp_path)}})
    assert results.written() == []
    (tmp_path / "file").write_text("new")
    assert results.written() == [(tmp_path, "read out")]


def test_values_that_name_no_file_are_no_results_and_folders_are_made(tmp_path: Path) -> None:
    several = flag("show", OptionKind.REPEATED, "file:{path}")
    other = (Option(flag="--to", key="to", kind=OptionKind.VALUE, summary="s"), "writer")
    path = tmp_path / "new" / "deep" / "proof.rrd"
    table = {"show": ["serve", f"file:{path}", 5], "to": "file:x"}
    results = Results([several, other], {"writer": table})
    results.make_folders()
    path.write_text("proof")
    assert results.written() == [(path, "read show")]


@pytest.mark.parametrize("uri", ["{path}", "file:{path}", "file://{path}", "{link}"])
def test_a_result_that_is_the_source_is_refused(tmp_path: Path, uri: str) -> None:
    path, link = tmp_path / "proof.jsonl", tmp_path / "link"
    path.write_text("{}")
    link.symlink_to(path)
    results = Results([flag("out")], {"writer": {"out": str(path)}})
    with pytest.raises(UsageError, match=f"^{path} is what this run reads\n"):
        results.spare_source(uri.format(path=path, link=link))
    for other in ("demo:digits", "-", str(tmp_path / "other"), "unix:x"):
        results.spare_source(other)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    results = Results([flag("out")], {"writer": {"out": str(tmp_path / "file" / "out")}})
    with pytest.raises(UsageError, match=f"^cannot make {tmp_path / 'file'}: "):
        results.make_folders()


def test_a_folder_that_cannot_be_made_is_left_to_a_plugin_that_may_go_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    results = Results([flag("out")], {"writer": {"out": str(tmp_path / "file" / "out")}})
    results.make_folders(optional=["writer"])
    assert results.written() == []


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
        flag("out", OptionKind.SWITCH)


def test_no_results_are_no_lines() -> None:
    assert lines_about([], columns=0) == []


def test_columns_are_those_of_standard_error() -> None:
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    controller, terminal = pty.openpty()
    try:
        os.dup2(terminal, 2)
        found = columns_of_standard_error()
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        sized = columns_of_standard_error()
        os.dup2(nothing, 2)
        piped = columns_of_standard_error()
    finally:
        os.dup2(kept, 2)
        for descriptor in (kept, nothing, controller, terminal):
            os.close(descriptor)
    assert (found, sized, piped) == (LONGEST_LINE, 80, LONGEST_LINE)


def test_a_result_whose_name_was_in_use_is_listed_under_the_name_that_it_got(tmp_path: Path) -> None:
    for name in ("proof.rrd", "proof-2.rrd"):
        (tmp_path / name).write_text("of an earlier run")
    artefact = Artefact(name="proof.rrd", next_step="look at it", form="file:{path}")
    option = Option(flag="--draw", key="draw", kind=OptionKind.VALUE, summary="s", artefact=artefact)
    results = Results([(option, "writer")], {"writer": {"draw": f"file:{tmp_path / 'proof.rrd'}"}})
    assert results.written() == []
    for number in (10, 3):
        (tmp_path / f"proof-{number}.rrd").write_text("of this run")
    (tmp_path / "proof-x.rrd").write_text("of another program")
    assert results.written() == [(tmp_path / "proof-3.rrd", "look at it")]
