"""Runs the command as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Span = dict[str, Any]


@dataclass
class Finished:
    """The result of a command that has ended."""

    status: int
    out: str
    err: str


class Command:
    """Runs proofstream in the test's own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_", "TRACEPARENT"))}
        self.env = {**kept, "COLUMNS": "120"}

    def start(
        self,
        *words: str | Path,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "proofstream", *map(str, words)],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )

    def __call__(self, *words: str | Path, stdin: str | None = None, timeout_s: float = 60.0) -> Finished:
        process = self.start(*words, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL)
        out, err = process.communicate(stdin, timeout=timeout_s)
        return Finished(process.returncode, out, err)


@pytest.fixture
def proofstream_command(tmp_path: Path) -> Command:
    """The command, in the test's folder."""
    return Command(tmp_path)


@pytest.fixture
def spans_in() -> Callable[[Path], list[Span]]:
    """Reads the spans of an ``--otlp-file`` folder."""

    def lines(folder: Path) -> Iterator[dict[str, Any]]:
        for path in sorted(folder.glob("traces*.jsonl")):
            # A killed writer may leave a partial last line, which has no newline.
            for line in path.read_text("utf-8").split("\n")[:-1]:
                yield json.loads(line)

    def read(folder: Path) -> list[Span]:
        return [
            span
            for line in lines(folder)
            for resource in line["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    return read
