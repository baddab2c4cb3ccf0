"""``--otlp-file``: whole lines, bounded, rotated, and readable even if the writer is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import proofstream as ps
from proofstream import ConfigError
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.otlp import json_lines


def test_no_line_is_longer_than_512_kib_and_the_span_counts_the_missing_events(kit: Any, tmp_path: Path) -> None:
    text = ps.Log(level=ps.LogLevel.Info, message="x" * 2000)
    items = [kit.proof_start(), kit.layer_start(), *[text, kit.sumcheck_round()] * 400, kit.layer_end()]
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(envelopes([*items, kit.proof_complete()]))
    host.close()
    lines = (tmp_path / "traces.jsonl").read_bytes().splitlines(keepends=True)
    assert max(map(len, lines)) <= json_lines.MAX_LINE_BYTES
    layer = next(span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "layer MatMul")
    assert 0 < len(layer.events) < 800
    assert len(layer.events) + layer.dropped_events == 800
    rounds = len(layer.rounds())
    assert layer.attributes["proofstream.rounds.recorded"] == rounds
    assert layer.attributes["proofstream.rounds.dropped"] == 400 - rounds
    times = [event.time_unix_nano for event in layer.events]
    assert times == sorted(times)


def test_a_file_that_is_full_is_set_aside(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "max_file_bytes": 2**20})
    for part in range(2):
        host.feed(kit.stream("smollm2-135m-cpu", session_id=f"session-{part}"))
    host.close()
    names = sorted(path.name for path in tmp_path.glob("traces*"))
    assert names == ["traces-1.jsonl", "traces-2.jsonl", "traces.jsonl"]
    assert all(path.stat().st_size <= 2**20 for path in tmp_path.iterdir())
    assert sum(len(kit.read_file(path)) for path in tmp_path.glob("traces*")) == 2 * 214


@pytest.mark.parametrize("given_to_the_class", [False, True])
def test_each_run_has_a_folder_of_its_own(kit: Any, tmp_path: Path, given_to_the_class: bool) -> None:
    settings: dict[str, Any] = {"file": str(tmp_path / "otlp")}
    for _ in range(2):
        plugin = OtelPlugin(**settings) if given_to_the_class else OtelPlugin()
        host = InlineHost(plugin, {} if given_to_the_class else settings)
        host.feed(envelopes(kit.small_proof()))
        host.close()
    for name in ("otlp", "otlp-2"):
        assert len(kit.read_file(tmp_path / name / "traces.jsonl")) == 3
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == _files()


def _files() -> list[str]:
    return ["logs.jsonl", "metrics.jsonl", "traces.jsonl"]


def test_to_overwrite_removes_the_earlier_run_and_nothing_else(kit: Any, tmp_path: Path) -> None:
    for name in ("traces.jsonl", "traces-1.jsonl", "logs-12.jsonl", "traces-x.jsonl", "notes.txt"):
        (tmp_path / name).write_text("{}\n")
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "overwrite": True})
    host.feed(envelopes(kit.small_proof()))
    host.close()
    assert len(kit.read_file(tmp_path / "traces.jsonl")) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*_files(), "notes.txt", "traces-x.jsonl"])


def test_a_signal_that_is_switched_off_leaves_no_file(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path / "otlp"), "metrics": False, "logs": False})
    host.feed(envelopes(kit.small_proof()))
    host.close()
    assert [path.name for path in (tmp_path / "otlp").iterdir()] == ["traces.jsonl"]


@pytest.mark.parametrize(("umask", "mode"), [(0, 0o600), (0o022, 0o600), (0o277, 0o400)])
def test_files_are_private(kit: Any, tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "max_file_bytes": 2**20})
        for part in range(2):
            host.feed(kit.stream("smollm2-135m-cpu", session_id=f"session-{part}"))
        host.close()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes.keys() >= {"traces.jsonl", "traces-1.jsonl", "metrics.jsonl", "logs.jsonl"}
    assert set(modes.values()) == {mode}


@pytest.mark.parametrize("umask", [0, 0o022])
def test_folders_are_private(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "new" / "traces"
    before = os.umask(umask)
    try:
        InlineHost(OtelPlugin(), {"file": str(folder)}).close()
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ConfigError) as raised:
        InlineHost(OtelPlugin(), {"file": str(tmp_path / "taken" / "below")})
    assert str(raised.value) == f"otel.file: cannot write to {tmp_path}/taken/below: Not a directory"


FULL_DISK = """
import logging, resource, signal, sys
from pathlib import Path
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_otel import OtelPlugin

logging.basicConfig(format="%(message)s")
host = InlineHost(OtelPlugin(), {"file": sys.argv[1]})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
host.feed(envelopes(read_stream(Path(sys.argv[2]))))
host.close()
print(host.health()["spans_written"], host.health()["lost_spans"])
"""


def test_a_full_disk_loses_what_does_not_fit_with_one_warning(kit: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(kit.WIRE / "smollm2-135m-cpu.jsonl")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    written, lost = map(int, done.stdout.split())
    spans = kit.read_file(tmp_path / "traces.jsonl")
    assert len(spans) == written > 0
    assert written + lost == 214
    assert done.stderr.splitlines() == [
        f"traces are being lost: cannot write {tmp_path}/traces.jsonl: File too large",
        f"{lost} spans could not be written to {tmp_path}/traces.jsonl",
    ]


def test_a_file_that_is_removed_meanwhile_counts_as_lost(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(envelopes(kit.small_proof()))
    path = tmp_path / "traces.jsonl"
    path.unlink()
    host.close()
    assert (host.health()["spans_written"], host.health()["lost_spans"]) == (0, 3)
    assert caplog.messages == [
        f"traces are lost: {path} was removed while it was written",
        f"3 spans could not be written to {path}",
    ]


KILLED = """
import sys, time
from proofstream.testing import InlineHost, envelopes, read_stream
from pathlib import Path
from proofstream_otel import OtelPlugin

host = InlineHost(OtelPlugin(), {"file": sys.argv[1]})
part = 0
while True:
    host.feed(envelopes(read_stream(Path(sys.argv[2])), session_id=str(part)))
    part += 1
    print(part, flush=True)
"""


def test_a_killed_writer_leaves_whole_lines(kit: Any, tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), str(kit.WIRE / "aborted-then-next.jsonl")],
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    for _ in range(3):
        assert writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait(10)
    writer.stdout.close()
    content = (tmp_path / "traces.jsonl").read_bytes()
    assert content.endswith(b"\n")
    assert len([json.loads(line) for line in content.splitlines()]) >= 3 * 39
