"""The command's log: a line for a message, a line for each line of a traceback, and nothing that a terminal obeys."""

from __future__ import annotations

import logging

import pytest

from proofstream.command.logs import set_up_logging, traceback_hint
from proofstream.command.voice import LONGEST_LINE

EVIL = "\x1b]52;c;cHdu\x07\x9b31m\u202e\u2028\r\nproofstream: forged"


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.split("\n")[:-1]


@pytest.fixture(autouse=True)
def logging_everything() -> None:
    """The log of the command with -vv."""
    set_up_logging(verbose=2, environ={})


def test_a_message_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("proofstream.test").warning("refused: %s", EVIL)
    (line,) = said(capsys)
    assert line.startswith("proofstream: refused: ")
    assert line.isprintable()


def test_a_traceback_is_harmless_lines(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise RuntimeError(EVIL)
    except RuntimeError:
        logging.getLogger("proofstream.test").exception("it failed")
    first, *rest = said(capsys)
    assert first == "proofstream: it failed"
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in rest), "none looks like a line of ours"
    assert "forged" in rest[-1]


def test_tracebacks_are_shown_without_all_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("proofstream.test")
    set_up_logging(verbose=0, tracebacks=True, environ={})
    assert traceback_hint() == ""
    log.debug("a detail")
    log.warning("a warning")
    log.debug("it failed", exc_info=RuntimeError("the cause"))
    assert said(capsys) == ["proofstream: a warning", "proofstream: it failed", "  RuntimeError: the cause"]


@pytest.mark.parametrize(
    ("said_level", "lines"), [("debug", []), ("", []), ("loud", ["PROOFSTREAM_LOG: 'loud' is no level"])]
)
def test_a_level_that_does_not_exist_is_named(
    capsys: pytest.CaptureFixture[str], said_level: str, lines: list[str]
) -> None:
    set_up_logging(verbose=0, environ={"PROOFSTREAM_LOG": said_level})
    known = "; known are debug, info, warning and error"
    assert said(capsys) == [f"proofstream: {line}{known}" for line in lines]


def test_a_long_message_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("proofstream.test").warning("x" * 100_000)
    (line,) = said(capsys)
    assert len(line) == LONGEST_LINE


class Unreadable:
    """A value that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("value", ["a word", Unreadable()])
def test_a_message_whose_arguments_do_not_fit_is_still_said(capsys: pytest.CaptureFixture[str], value: object) -> None:
    record = logging.LogRecord("proofstream.test", logging.WARNING, __file__, 1, "%d of %s", (value, value), None)
    for handler in logging.getLogger("proofstream").handlers:
        if type(handler).__module__ == "proofstream.command.logs":  # pytest has one of its own, which raises
            handler.handle(record)
    assert said(capsys) == ["proofstream: %d of %s"]
