"""Recordings arrive in files, at our own server and at viewers, one after another and at once."""

from __future__ import annotations

import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from rerun.chunk import RrdReader

from proofstream import ConfigError, open_session

MANY = """
import logging, sys
from pathlib import Path
import rerun.blueprint as rrb
from proofstream_rerun.outlets.fan_out import Outlets
from proofstream_rerun.sdk.recordings import Recording
from proofstream_rerun.settings import Settings

def recording(name):
    return Recording(application_id="many", recording_id=name, name=name, started_ns=1, blueprint=rrb.Blueprint,
                     snapshot=lambda: [])

folder = Path(sys.argv[1])
settings = Settings(connections=[f"file:{folder / 'proof.rrd'}"])
outlets = Outlets(settings, live=True, tell=print, log=logging.getLogger())
threads = []
for number in range(32):
    outlets.begin_recording(recording(str(number)))
    outlets.end_recording(str(number))
    outlets.tick()
    threads.append(len(list(Path("/proc/self/task").iterdir())))
more = "no" if threads[31] <= threads[0] else threads[31] - threads[0]
print(f"{len(list(folder.iterdir()))} files, {more} threads more")
"""
"""Thirty-two recordings one after another, as in a service that runs for days."""

IDLE = """
import logging, sys, time
from pathlib import Path
from proofstream_rerun.outlets.fan_out import Outlets
from proofstream_rerun.sdk.recordings import Recording
from proofstream_rerun.settings import Settings
import rerun.blueprint as rrb

def threads():
    return len(list(Path("/proc/self/task").iterdir()))

outlets = Outlets(Settings(connections=[sys.argv[1]]), live=True, tell=print, log=logging.getLogger())
recording = Recording(application_id="idle", recording_id="one", name="one", started_ns=1, blueprint=rrb.Blueprint,
                      snapshot=lambda: [])
outlets.begin_recording(recording)
busy, ends = threads(), time.monotonic() + 20
while threads() >= busy and time.monotonic() < ends:
    outlets.tick(is_idle=True)
    time.sleep(0.05)
print("released" if threads() < busy else f"{threads()} threads of {busy} are left")
outlets.close(5)
"""
"""A recording that has begun, and no more events: its layout's stream is closed, but wakes up until it is released."""


def test_a_file_holds_everything_and_is_complete(kit: Any, tmp_path: Path) -> None:
    path = tmp_path / "proof.rrd"
    outlets = kit.outlets(f"file:{path}")
    outlets.begin_recording(kit.recording())
    for first in range(0, 100, 10):
        outlets.send_writes("first", [kit.Rows("values", first, 10), kit.Rows("others", first, 5)])
    outlets.end_recording("first")
    outlets.close(5)

    assert kit.verify(path) == ""
    rows = kit.rows_of(path)
    assert (rows["first:values"], rows["first:others"], rows["first:about, static"]) == (100, 50, 1)
    assert [blueprint.kind for blueprint in RrdReader(path).blueprints()] == ["blueprint"]
    # Twenty calls with rows, then the static data, the layout and the properties of the recording.
    assert outlets.counters() == {"writes": 23, "reconnects": 0}


def test_an_idle_process_keeps_no_closed_streams(kit: Any, tmp_path: Path) -> None:
    done = kit.run_python(IDLE, f"file:{tmp_path / 'proof.rrd'}")

    assert done.stdout == "released\n", done.stderr


def test_a_recording_carries_its_name_and_properties(kit: Any, tmp_path: Path) -> None:
    path = tmp_path / "proof.rrd"
    outlets = kit.outlets(f"file:{path}")
    outlets.begin_recording(kit.recording())
    outlets.close(5)

    (entry,) = RrdReader(path).recordings()
    assert (entry.application_id, entry.recording_id) == ("proofstream-test", "first")
    columns: dict[str, Any] = {}
    chunks: Any = RrdReader(path).stream()  # their content is pyarrow's, which ships no types
    for chunk in chunks:
        columns |= chunk.to_record_batch().to_pydict()
    assert columns["RecordingInfo:name"] == [["the first one"]]
    assert columns["RecordingInfo:start_time"] == [[1_700_000_000_000_000_000]]
    assert columns["model"] == [["tiny"]]
    assert columns["layers"] == [[3]]


def test_each_proof_has_a_private_file_and_no_file_is_replaced(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "proof.rrd"
    path.write_text("old", "ascii")
    outlets = kit.outlets(f"file:{path}")
    for name in ("first", "second"):
        outlets.begin_recording(kit.recording(name))
        outlets.send_writes(name, [kit.Rows("values", 0, 7)])
    outlets.close(5)

    assert path.read_text("ascii") == "old"
    for name, number in {"first": 2, "second": 3}.items():
        file = tmp_path / f"proof-{number}.rrd"
        assert kit.verify(file) == ""
        assert kit.rows_of(file)[f"{name}:values"] == 7
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert caplog.messages == [f"rerun: {path} exists; the next recording is {tmp_path / 'proof-2.rrd'}"]


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_to_overwrite_a_link_leaves_its_target_alone(kit: Any, tmp_path: Path, link: str) -> None:
    target, path = tmp_path / "precious", tmp_path / "proof.rrd"
    target.write_text("precious", "ascii")
    getattr(path, link)(target)
    outlets = kit.outlets(f"file:{path}", overwrite=True)
    outlets.begin_recording(kit.recording())
    outlets.close(5)

    assert target.read_text("ascii") == "precious"
    assert kit.verify(tmp_path / ("proof-2.rrd" if link == "symlink_to" else "proof.rrd")) == ""


def test_each_proof_has_a_file_and_only_the_named_file_is_overwritten(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "proof.rrd"
    path.write_text("old", "ascii")
    (tmp_path / "proof-2.rrd").write_text("another program's", "ascii")
    outlets = kit.outlets(f"file:{path}", overwrite=True)
    for name in ("first", "second", "third"):
        outlets.begin_recording(kit.recording(name))
        outlets.send_writes(name, [kit.Rows("values", 0, 7)])
    for name in ("first", "third", "second"):
        outlets.end_recording(name)
    outlets.close(5)

    assert (tmp_path / "proof-2.rrd").read_text("ascii") == "another program's"
    files = {"first": path, "second": tmp_path / "proof-3.rrd", "third": tmp_path / "proof-4.rrd"}
    for name, file in files.items():
        assert kit.verify(file) == ""
        assert kit.rows_of(file)[f"{name}:values"] == 7
    second = tmp_path / "proof-2.rrd"
    assert caplog.messages == [f"rerun: {second} exists; the next recording is {tmp_path / 'proof-3.rrd'}"]


def test_writes_to_an_unknown_recording_are_ignored(kit: Any, tmp_path: Path) -> None:
    outlets = kit.outlets(f"file:{tmp_path / 'proof.rrd'}", "serve")
    outlets.send_writes("never", [kit.Rows("values", 0, 1)])
    outlets.send_blueprint("never")
    outlets.end_recording("never")
    outlets.tick()
    outlets.close(5)

    assert outlets.counters() == {"writes": 0, "reconnects": 0}
    assert list(tmp_path.iterdir()) == []


def test_a_viewer_gets_everything_and_the_newest_layout(kit: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    outlets = kit.outlets(f"127.0.0.1:{viewer.port}")
    outlets.begin_recording(kit.recording())
    outlets.send_writes("first", [kit.Rows("values", 0, 1000)])
    outlets.send_blueprint("first")
    outlets.send_writes("first", [kit.Rows("values", 1000, 1000)])
    outlets.close(5)

    assert outlets.counters()["reconnects"] == 0
    assert kit.eventually(lambda: viewer.rows()["first:values"] == 2000)
    assert viewer.rows()["first:about, static"] == 1


@pytest.mark.parametrize("form", ["tcp://127.0.0.1:{}", "rerun+http://localhost:{}", "rerun+http://127.0.0.1:{}/proxy"])
def test_a_viewer_may_be_named_in_several_ways(kit: Any, tmp_path: Path, form: str) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    outlets = kit.outlets(form.format(viewer.port))
    outlets.begin_recording(kit.recording())
    outlets.close(5)

    assert kit.eventually(lambda: viewer.rows()["first:about, static"] == 1)


def test_our_server_gives_every_viewer_all_recordings_and_nothing_else(kit: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    outlets = kit.outlets(f"serve:{port}")
    for name in ("first", "second"):
        outlets.begin_recording(kit.recording(name))
        outlets.send_writes(name, [kit.Rows("values", 0, 100)])
        outlets.end_recording(name)
    outlets.begin_recording(kit.recording("third"))
    with kit.reader(port, tmp_path / "late.rrd") as late:
        assert kit.eventually(lambda: late.rows()["second:values"] == 100)
        outlets.send_writes("third", [kit.Rows("values", 0, 30)])
        assert kit.eventually(lambda: late.rows()["third:values"] == 30)
    outlets.close(5)

    assert kit.rows_of(tmp_path / "late.rrd")["first:values"] == 100
    assert kit.recordings_of(tmp_path / "late.rrd") == ["first", "second", "third"]


def test_a_killed_viewer_gets_everything_from_our_server_again(kit: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    outlets = kit.outlets(f"serve:{port}")
    outlets.begin_recording(kit.recording())
    outlets.send_writes("first", [kit.Rows("values", 0, 100)])
    for name in ("one.rrd", "two.rrd"):
        with kit.reader(port, tmp_path / name) as reader:
            assert kit.eventually(lambda: reader.rows()["first:values"] == 100)
    outlets.close(5)

    assert outlets.counters()["reconnects"] == 0


def test_our_server_listens_on_the_loopback_address_only(kit: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    outlets = kit.outlets(f"serve:{port}")
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    outlets.close(5)

    assert f"0100007F:{port:04X}" in listening
    assert f"00000000:{port:04X}" not in listening


def test_a_taken_port_is_an_error_at_once(kit: Any) -> None:
    port = kit.free_port()
    kit.outlets(f"serve:{port}")

    with pytest.raises(ConfigError, match=f"serve:{port} is not available"):
        kit.outlets(f"serve:{port}")


def test_each_server_finds_a_port_and_says_how_to_open_it(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    kit.outlets("serve")
    kit.outlets("serve", live=False)

    live, replay = (re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", line) for line in kit.told)
    assert live == "rerun: the proof can be watched: rerun --connect rerun+http://HOST:PORT/proxy"
    assert replay == "rerun: until the replay has ended it can be watched: rerun --connect rerun+http://HOST:PORT/proxy"
    assert len({line.rpartition(" ")[2] for line in kit.told}) == 2
    assert not [message for message in caplog.messages if "can be watched" in message]  # not a warning


def test_the_memory_of_ended_recordings_is_released(kit: Any, tmp_path: Path) -> None:
    done = kit.run_python(MANY, str(tmp_path))

    assert done.stdout == "32 files, no threads more\n", done.stderr


def test_a_file_that_was_deleted_is_lost(kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "proof.rrd"
    outlets = kit.outlets(f"file:{path}")
    outlets.begin_recording(kit.recording())
    path.unlink()
    outlets.close(5)

    assert outlets.counters()["lost_files"] == 1
    assert caplog.messages == [f"rerun: the recording ends here: {path}: the file was deleted"]


def test_an_application_keeps_its_own_recording(kit: Any, tmp_path: Path) -> None:
    code = "import rerun as rr\nrr.init('theirs')\n" + MANY + "print(rr.get_application_id())\n"
    done = kit.run_python(code, str(tmp_path))

    assert done.stdout.splitlines()[-1] == "theirs", done.stderr


def test_a_file_beside_viewers_is_complete(kit: Any, tmp_path: Path) -> None:
    viewer = kit.viewer(tmp_path / "seen.rrd")
    path = tmp_path / "proof.rrd"
    outlets = kit.outlets(f"file:{path}", "serve", f"127.0.0.1:{viewer.port}", f"127.0.0.1:{kit.free_port()}")
    outlets.begin_recording(kit.recording())
    outlets.send_writes("first", [kit.Rows("values", 0, 100)])
    began = time.monotonic()
    outlets.close(5)

    assert time.monotonic() - began < 5
    assert kit.verify(path) == ""
    assert kit.rows_of(path)["first:values"] == 100
    assert kit.eventually(lambda: viewer.rows()["first:values"] == 100)
    assert outlets.counters()["lost_viewers"] == 1


@pytest.mark.parametrize("proves", [True, False])
def test_the_first_proof_has_the_name_that_was_asked_for(kit: Any, tmp_path: Path, proves: bool) -> None:
    path = tmp_path / "proof.rrd"
    with open_session(plugins=["rerun"], config={"rerun": {"connections": [f"file:{path}"]}}) as session:
        with session.phase("forward pass"):
            pass
        if proves:
            with session.proof(model_name="mlp", num_layers=0):
                pass
    beside = ["proof-2.rrd"] if proves else []
    assert sorted(each.name for each in tmp_path.iterdir()) == [*beside, "proof.rrd"]
    printed = kit.run_program("rrd", "print", "-vvv", str(path)).stdout
    assert ("outside of any proof" in str(printed)) is not proves
    assert kit.verify(path) == ""
