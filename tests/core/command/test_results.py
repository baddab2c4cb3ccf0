"""The list of a command's results: only those that it wrote, in one line each where there is room, else in two."""

from __future__ import annotations

import os
import pty
import struct
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from proofstream.command.results import columns_of_standard_error, lines_about, make_folders, spare_source
from proofstream.command.voice import LONGEST_LINE
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


@pytest.mark.parametrize("uri", ["{path}", "file:{path}", "file://{path}", "{link}"])
def test_a_result_that_is_the_source_is_refused(tmp_path: Path, uri: str) -> None:
    path, link = tmp_path / "proof.jsonl", tmp_path / "link"
    path.write_text("{}")
    link.symlink_to(path)
    with pytest.raises(UsageError, match=f"^{path} is what this run reads\n"):
        spare_source(uri.format(path=path, link=link), [(tmp_path / "another", "writer"), (path, "writer")])
    for other in ("demo:digits", "-", str(tmp_path / "other"), "unix:x"):
        spare_source(other, [(path, "writer")])


def test_a_result_that_is_a_source_yet_to_come_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is what this run reads"):
        spare_source(str(tmp_path / "proof.jsonl"), [(tmp_path / "." / "proof.jsonl", "writer")])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    results = [(tmp_path / "new" / "out", "writer"), (tmp_path / "file" / "out", "writer")]
    with pytest.raises(UsageError, match=f"^cannot make {tmp_path / 'file'}: "):
        make_folders(results, optional=[])
    assert (tmp_path / "new").is_dir()
    make_folders(results, optional=["writer"])  # the plugin says what it cannot write


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
