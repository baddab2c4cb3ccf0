"""What ``--otlp-file`` wrote is what Jaeger has, once the Collector has read the folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SMOL = Path(__file__).parents[1] / "data" / "wire" / "smollm2-135m-cpu.jsonl"


@pytest.fixture
def running(collector: Any) -> Iterator[None]:
    """The Collector runs again after the test."""
    yield
    if not collector.backend.is_running:
        collector.backend.start()


def write(kit: Any, command: Any, folder: Path) -> list[Any]:
    """Let a proof be written to a folder, in files so small that one is set aside."""
    result = command(
        "run", "-", "--otlp-file", folder, "--set", f"otel.max_file_bytes={2**20}", "--no-console",
        stdin=SMOL.read_text("utf-8"),
    )  # fmt: skip
    assert result.status == 0, result.err
    assert len(list(folder.glob("traces*.jsonl"))) >= 2
    spans: list[Any] = kit.spans_in(folder)
    return spans


def test_a_folder_in_the_spool_becomes_the_same_trace(
    kit: Any, command: Any, collector: Any, jaeger: Any, tmp_path: Path
) -> None:
    sent = write(kit, command, collector.spool / "written-in-place")
    kit.assert_stored(jaeger, sent)


def test_a_folder_that_was_copied_while_the_collector_was_away_becomes_the_same_trace(
    kit: Any, command: Any, collector: Any, jaeger: Any, running: None, tmp_path: Path
) -> None:
    collector.backend.stop()
    sent = write(kit, command, tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", collector.spool / "copied")
    collector.backend.start()
    kit.assert_stored(jaeger, sent)


def test_the_spool_waits_while_jaeger_is_away(
    kit: Any, command: Any, collector: Any, jaeger: Any, running: None, tmp_path: Path
) -> None:
    jaeger.backend.stop()
    try:
        sent = write(kit, command, collector.spool / "no-jaeger")
        collector.backend.kill()
        collector.backend.start()
    finally:
        jaeger.backend.start()
    kit.assert_stored(jaeger, sent)
