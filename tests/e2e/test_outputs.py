"""Results of runs that follow one another, or start at once: nothing is replaced, nothing is mixed, all is said."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data" / "wire"
SMOL = DATA / "smollm2-135m-cpu.jsonl"
ABORTED = DATA / "aborted-then-next.jsonl"
SPANS = 213
RESULTS = "proofstream: the results, and what to do with them:"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("opentelemetry") is None, reason="the extra otel is missing")


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def listed(err: str) -> list[str]:
    return sorted(line.split()[0] for line in err.partition(RESULTS)[2].splitlines()[1:])


def test_the_second_day_keeps_the_first_days_results(proofstream_command: Any, tmp_path: Path, spans_in: Any) -> None:
    words = ("--no-console", "--record", "proof.jsonl.gz", "--otlp-file", "otlp")
    first = proofstream_command("run", SMOL, *words)
    assert (first.status, listed(first.err)) == (0, ["otlp", "proof.jsonl.gz"])
    before = content(tmp_path)
    second = proofstream_command("run", ABORTED, *words)
    assert (second.status, listed(second.err)) == (0, ["otlp-2", "proof-2.jsonl.gz"])
    notice = "proofstream: otlp and proof.jsonl.gz exist, so this run writes otlp-2 and proof-2.jsonl.gz"
    assert sorted(notice.split()) == sorted(second.err.splitlines()[0].split())
    after = content(tmp_path)
    assert {name: after[name] for name in before} == before
    ids = [{span["spanId"] for span in spans_in(tmp_path / name)} for name in ("otlp", "otlp-2")]
    assert ids[0].isdisjoint(ids[1])
    replay = proofstream_command("run", "proof-2.jsonl.gz", "--no-console", "--otlp-file", "again")
    assert replay.status == 0, replay.err
    assert {span["spanId"] for span in spans_in(tmp_path / "again")} == ids[1]


def test_one_name_in_use_gives_all_results_another_number(proofstream_command: Any, tmp_path: Path) -> None:
    (tmp_path / "proof.jsonl").write_text("not a recording")
    result = proofstream_command("run", SMOL, "--no-console", "--record", "proof.jsonl", "--otlp-file", "otlp")
    assert (result.status, listed(result.err)) == (0, ["otlp-2", "proof-2.jsonl"])
    assert not (tmp_path / "otlp").exists()
    assert (tmp_path / "proof.jsonl").read_text() == "not a recording"


def test_runs_that_start_at_once_do_not_mix(proofstream_command: Any, tmp_path: Path, spans_in: Any) -> None:
    words = ("run", SMOL, "-q", "--record", "proof.jsonl", "--otlp-file", "otlp")
    processes = [proofstream_command.start(*words) for _ in range(3)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    for number in ("", "-2", "-3"):
        lines = (tmp_path / f"proof{number}.jsonl").read_text().splitlines()
        assert len({json.loads(line)["session_id"] for line in lines}) == 1
        spans = spans_in(tmp_path / f"otlp{number}")
        assert len(spans) == len({span["spanId"] for span in spans}) == SPANS


def test_overwriting_that_was_asked_for_replaces_both(proofstream_command: Any, tmp_path: Path, spans_in: Any) -> None:
    overwriting = ("--set", "record.overwrite=true", "--set", "otel.overwrite=true")
    for source in (ABORTED, SMOL):
        words = ("run", source, "--no-console", "--record", "proof.jsonl", "--otlp-file", "otlp", *overwriting)
        result = proofstream_command(*words)
        assert (result.status, listed(result.err)) == (0, ["otlp", "proof.jsonl"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["otlp", "proof.jsonl"]
    assert len(spans_in(tmp_path / "otlp")) == SPANS


def test_a_run_that_cannot_start_leaves_nothing(proofstream_command: Any, tmp_path: Path) -> None:
    words = ("--record", "proof.jsonl", "--otlp-file", "otlp", "--set", "otel.colour=1")
    assert proofstream_command("run", SMOL, *words).status == 2
    assert list(tmp_path.iterdir()) == []


def test_the_demo_and_the_recipes_that_follow_it_can_be_run_again(proofstream_command: Any, tmp_path: Path) -> None:
    demo = ("demo", "--no-console", "--no-plugin", "rerun")
    for number in ("", "-2"):
        assert listed(proofstream_command(*demo).err) == [
            f"proofstream-demo/otlp{number}",
            f"proofstream-demo/proof{number}.jsonl",
        ]
    for number in ("", "-2"):
        words = ("run", "proofstream-demo/proof.jsonl", "--otlp-file", "traces/", "--no-console")
        assert listed(proofstream_command(*words).err) == [f"traces{number}"]
    traces = [(tmp_path / name / "traces.jsonl").read_bytes() for name in ("traces", "traces-2")]
    assert traces[0] == traces[1]


IN_A_PROCESS = """
import sys
import proofstream

for text in ("first", "second"):
    with proofstream.open_session(plugins=["record"], config={"record": {"path": "r.jsonl"}}) as session:
        session.emit(proofstream.Log(level=proofstream.LogLevel.Info, message=text))
"""


def test_a_cell_that_is_run_again_loses_no_file_in_silence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "proofstream: r.jsonl exists, so this run writes r-2.jsonl\n"
    assert "first" in (tmp_path / "r.jsonl").read_text()
    assert "second" in (tmp_path / "r-2.jsonl").read_text()


@pytest.mark.parametrize("source", ["file", "-"])
def test_a_run_without_a_terminal_says_where_its_results_went(proofstream_command: Any, source: str) -> None:
    lines = SMOL.read_text()
    words, stdin = (("run", SMOL), None) if source == "file" else (("run", "-"), lines)
    nowhere = "proofstream: the events are read, and neither shown nor kept (to keep them: "
    assert nowhere in proofstream_command(*words, "--no-console", stdin=stdin).err
    shown = "proofstream: the events are shown as lines here, and not kept (to keep them: "
    assert (shown in proofstream_command(*words, stdin=stdin).err) == (source == "-")  # a file is kept already
    recorded = proofstream_command(*words, "--record", f"{source}.jsonl".replace("-", "x"), stdin=stdin)
    assert "kept" not in recorded.err
