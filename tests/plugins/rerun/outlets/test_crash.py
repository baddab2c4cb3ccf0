"""After a kill, a full disk, a stuck viewer or a fork, the files are complete and the process can exit."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proofstream_rerun.outlets.file import MAX_NAMED

CHILD = """
import logging, os, sys, time
import numpy as np
import rerun as rr
import rerun.blueprint as rrb
from proofstream_rerun.outlets.fan_out import Outlets
from proofstream_rerun.sdk.recordings import Recording
from proofstream_rerun.settings import Settings

logging.basicConfig(level=logging.WARNING, format="said: %(message)s")


class Rows:
    def __init__(self, first, count=1000):
        self.numbers = np.arange(first, first + count)
        self.noise = np.random.default_rng(first).random(count)
        self.size_bytes = 16 * count

    def send(self, stream):
        stream.send_columns(
            "values",
            indexes=[rr.TimeColumn("event", sequence=self.numbers)],
            columns=rr.Scalars.columns(scalars=self.noise),
        )


recording = Recording(
    application_id="proofstream-test",
    recording_id="first",
    name="first",
    started_ns=1,
    blueprint=lambda: rrb.Blueprint(rrb.TimeSeriesView(origin="/values")),
    snapshot=lambda: [],
)
settings = Settings(connections=tuple(sys.argv[1:]))
log = logging.getLogger("proofstream.rerun")
outlets = Outlets(settings, live=True, tell=log.info, log=log)
outlets.begin_recording(recording)


def say(text):
    print(text, flush=True)


def heard():
    return sys.stdin.readline().strip()
"""


@contextmanager
def child(kit: Any, code: str, *connections: str, preexec: str = "") -> Generator[subprocess.Popen[str]]:
    """Run code with outlets in a separate interpreter; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", preexec + CHILD + code, *connections],
        env=kit.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def test_a_kill_loses_about_a_second_and_the_rest_can_be_repaired(kit: Any, tmp_path: Path) -> None:
    path, repaired = tmp_path / "proof.rrd", tmp_path / "repaired.rrd"
    code = """
for first in range(0, 10_000_000, 1000):
    outlets.send_writes("first", [Rows(first)])
    say(first + 1000)
    time.sleep(0.05)
"""
    with child(kit, code, f"file:{path}") as process:
        written: list[tuple[float, int]] = []
        while len(written) < 20 or written[-1][0] - written[0][0] < 3:
            written.append((time.monotonic(), int(line_of(process))))
        process.kill()
        killed = time.monotonic()
    safe = max(rows for at, rows in written if at < killed - 1.5)

    assert "footer" in kit.verify(path)
    assert kit.run_program("rrd", "optimize", str(path), "-o", str(repaired)).returncode == 0
    assert kit.verify(repaired) == ""
    assert kit.rows_of(repaired)["first:values"] >= safe > 0


def test_a_full_disk_is_reported_once_and_counted(kit: Any, tmp_path: Path) -> None:
    path = tmp_path / "proof.rrd"
    # A size limit fails writes as a full disk does. Python ignores the signal that comes with it.
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    code = """
for first in range(0, 40_000, 1000):
    outlets.send_writes("first", [Rows(first)])
    time.sleep(0.05)
outlets.close(5)
say(dict(outlets.counters()))
"""
    with child(kit, code, f"file:{path}", preexec=limit) as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0
    told = [line for line in err.splitlines() if line.startswith("said: ")]
    assert len(told) == 1
    assert told[0].startswith(f"said: rerun: the recording ends here: {path}: ")
    assert "'lost_files': 1" in out
    assert "'lost_writes': " in out
    assert path.stat().st_size == 100_000


def test_a_disk_that_is_full_from_the_beginning_keeps_no_empty_file(kit: Any, tmp_path: Path) -> None:
    path = tmp_path / "proof.rrd"
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    with child(kit, "outlets.close(5)\nsay(dict(outlets.counters()))", f"file:{path}", preexec=limit) as process:
        out, err = process.communicate(timeout=60)

    assert f"said: rerun: cannot make the recording {path}: " in err
    assert "'lost_files': 1" in out
    assert not path.exists()


def test_a_file_that_cannot_be_created_does_not_affect_the_others(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plain").write_text("a file, not a folder", "ascii")
    blocked, path = tmp_path / "plain" / "proof.rrd", tmp_path / "proof.rrd"
    outlets = kit.outlets(f"file:{blocked}", f"file:{path}")
    outlets.begin_recording(kit.recording())
    outlets.send_writes("first", [kit.Rows("values", 0, 100)])
    outlets.close(5)

    assert kit.verify(path) == ""
    assert kit.rows_of(path)["first:values"] == 100
    (line,) = caplog.messages
    assert line.startswith(f"rerun: cannot make the recording {blocked}: ")
    assert "Not a directory" in line
    assert (outlets.counters()["lost_files"], outlets.counters()["lost_writes"]) == (1, 1)


def test_recordings_that_cannot_be_created_are_a_few_lines_and_a_count(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plain").write_text("a file, not a folder", "ascii")
    outlets = kit.outlets(f"file:{tmp_path}/plain/proof.rrd")
    for number in range(20):
        outlets.begin_recording(kit.recording(f"recording {number}"))
    outlets.close(5)
    assert caplog.messages[0] == f"rerun: cannot make the recording {tmp_path}/plain/proof.rrd: Not a directory"
    assert caplog.messages[MAX_NAMED:] == ["rerun: more recordings are lost; from here on they are only counted"]
    assert outlets.counters()["lost_files"] == 20


EXIT = """
outlets.send_writes("first", [Rows(first) for first in range(0, 100_000, 1000)])
say("written")
heard()
outlets.send_writes("first", [Rows(first) for first in range(100_000, 200_000, 1000)])
began = time.monotonic()
outlets.close(2.0)
say(f"{time.monotonic() - began:.1f} {outlets.counters().get('lost_viewers', 0)}")
"""


def test_a_suspended_viewer_does_not_keep_the_process_from_exiting(kit: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    path = tmp_path / "proof.rrd"
    with child(kit, EXIT, f"127.0.0.1:{viewer.port}", f"file:{path}") as process:
        assert line_of(process) == "written"
        assert kit.eventually(lambda: viewer.rows()["first:values"] == 100_000)
        viewer.pause()
        tell(process, "close")
        took, lost = line_of(process).split()
        _, err = process.communicate(timeout=20)  # the interpreter's own exit

    assert process.returncode == 0
    assert float(took) < 3
    assert lost == "1"
    assert f"said: rerun: the viewer at 127.0.0.1:{viewer.port} no longer answers and misses the end" in err
    assert kit.verify(path) == ""
    assert kit.rows_of(path)["first:values"] == 200_000


def test_a_suspended_viewer_of_our_server_does_not_either(kit: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    path = tmp_path / "proof.rrd"
    code = """
say("begun")
heard()
for first in range(0, 2_000_000, 100_000):
    outlets.send_writes("first", [Rows(first, 100_000)])
began = time.monotonic()
outlets.close(2.0)
say(f"{time.monotonic() - began:.1f}")
"""
    with child(kit, code, f"serve:{port}", f"file:{path}") as process:
        assert line_of(process) == "begun"
        with kit.reader(port, tmp_path / "seen.rrd") as reader:
            time.sleep(0.5)
            reader.pause()
            tell(process, "write")
            assert float(line_of(process)) < 3
            process.communicate(timeout=20)

    assert process.returncode == 0
    assert kit.verify(path) == ""
    assert kit.rows_of(path)["first:values"] == 2_000_000


def test_a_forked_child_writes_nothing_and_exits(kit: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    path = tmp_path / "proof.rrd"
    code = """
outlets.send_writes("first", [Rows(0)])
pid = os.fork()
if pid == 0:
    outlets.send_writes("first", [Rows(1000)])
    outlets.tick()
    outlets.end_recording("first")
    outlets.close(5)
    sys.exit(7)
status = os.waitpid(pid, 0)[1]
outlets.send_writes("first", [Rows(2000)])
outlets.close(5)
say(os.waitstatus_to_exitcode(status))
"""
    with child(kit, code, f"127.0.0.1:{viewer.port}", f"file:{path}", "serve") as process:
        assert line_of(process) == "7"
        process.communicate(timeout=20)

    assert process.returncode == 0
    assert kit.verify(path) == ""
    assert kit.rows_of(path)["first:values"] == 2000
    assert kit.eventually(lambda: viewer.rows()["first:values"] == 2000)


def test_the_recordings_of_an_application_are_left_alone(kit: Any, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.rrd", tmp_path / "theirs.rrd"
    code = f"""
import threading
rr.init("theirs", recording_id="theirs")
rr.save({str(theirs)!r})
rr.set_time("step", sequence=1)
outlets.send_writes("first", [Rows(0)])
rr.log("their/value", rr.Scalars(1.0))
outlets.close(5)
rr.log("their/value", rr.Scalars(2.0))
assert rr.get_recording_id() == "theirs"
"""
    with child(kit, code, f"file:{ours}") as process:
        process.communicate(timeout=30)

    assert process.returncode == 0
    assert kit.rows_of(theirs)["theirs:their/value"] == 2
    assert kit.rows_of(ours)["first:values"] == 1000
    assert "theirs" not in kit.recordings_of(ours)
