"""Standard input is read early, but only where the command line certainly names it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from proofstream.command.early import begin_reading, names_standard_input
from proofstream.sources.arrivals import arrivals_at, stop_early


@pytest.mark.parametrize(
    "line",
    [
        "run -",
        "run - --otlp",
        "run --quiet -",
        "run -vv -",
        "run -- -",
        "run --plugin console -",
        "run --record=x.jsonl -",
        "run --record x.jsonl -",
        "run --record - --set otel.a=b -",
        "--plugin-file my.py run -",
        "--plugin-file=my.py --plugin-file other.py run -",
    ],
)
def test_standard_input_is_named(line: str) -> None:
    assert names_standard_input(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-",
        "run",
        "run proof.jsonl",
        "run --record - proof.jsonl",
        "run --no-console -",
        "run --plugin -",
        "run - --help",
        "run -h -",
        "demo -",
        "plugins -",
        "state-cost -",
        "--plugin-file run -",
        "--typo run -",
    ],
)
def test_it_is_not_certain_that_standard_input_is_named(line: str) -> None:
    assert not names_standard_input(line.split())


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    stop_early()
    os.close(reading)
    os.close(writing)


def test_what_was_read_early_is_handed_over_once(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    begin_reading(["run", "-"], descriptor=reading)
    os.write(writing, b"early\n")
    early = arrivals_at(reading)
    block = early.next_block(10)
    assert block is not None
    assert (block.data, block.was_waiting) == (b"early\n", False)
    assert early.began_unix_nano <= block.time_unix_nano
    early.stop()
    early.join()
    later = arrivals_at(reading)
    assert later is not early
    later.stop()
    later.join()


def test_reading_that_nothing_takes_over_is_stopped(pipe: tuple[int, int]) -> None:
    begin_reading(["run", "-"], descriptor=pipe[0])
    assert "proofstream-stream" in {thread.name for thread in threading.enumerate()}
    stop_early()
    assert "proofstream-stream" not in {thread.name for thread in threading.enumerate()}


def test_neither_files_nor_closed_descriptors_are_read_early(pipe: tuple[int, int]) -> None:
    with Path(__file__).open("rb") as file:
        begin_reading(["run", "-"], descriptor=file.fileno())
        assert file.tell() == 0
    begin_reading(["run", "-"], descriptor=10_000)
    begin_reading(["run", "x.jsonl"], descriptor=pipe[0])
    assert "proofstream-stream" not in {thread.name for thread in threading.enumerate()}
