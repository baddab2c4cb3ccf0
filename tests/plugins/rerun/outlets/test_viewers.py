"""Rerun's own viewer, headless: it starts late, dies and comes back, is started by us, or finds no screen."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rerun.experimental import ViewerClient

from proofstream import ConfigError

pytestmark = pytest.mark.slow


class Window:
    """Rerun's viewer, which draws into memory."""

    def __init__(self, kit: Any, port: int, *options: str) -> None:
        command = [kit.PROGRAM, "--headless", "--port", str(port), "--bind", "127.0.0.1", *options]
        self._process = subprocess.Popen(
            command, env=kit.environ | {"RERUN_APP_ONLY": "true"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def lasts(port: int) -> dict[str, list[float | None]]:
    """Return the last `event` of each recording that the viewer at a port shows; empty while it is not up."""
    try:
        state = ViewerClient.connect(f"rerun+http://127.0.0.1:{port}/proxy").get_state()
    except Exception:  # noqa: BLE001 - the viewer is not up yet, and the experimental client documents no errors
        return {}
    return {
        recording.store_id: [line.end for line in recording.timelines if line.name == "event"]
        for recording in state.recordings
    }


@pytest.fixture
def window(kit: Any) -> Iterator[Any]:
    """Opens windows, and closes them at the end."""
    windows: list[Window] = []

    def open_one(port: int, *options: str) -> Window:
        windows.append(Window(kit, port, *options))
        return windows[-1]

    yield open_one
    for one in windows:
        one.kill()


def test_a_viewer_starts_late_dies_and_comes_back(kit: Any, window: Any, tmp_path: Path) -> None:
    port = kit.free_port()
    path = tmp_path / "proof.rrd"
    outlets = kit.outlets(f"127.0.0.1:{port}", f"file:{path}")
    outlets.begin_recording(kit.recording())
    outlets.send_writes("first", [kit.Rows("values", 0, 100)])
    first = window(port)
    assert kit.eventually(lambda: lasts(port) == {"Recording:proofstream-test:first": [99]})
    first.kill()
    outlets.send_writes("first", [kit.Rows("values", 100, 100)])
    window(port)
    assert kit.eventually(lambda: lasts(port) == {"Recording:proofstream-test:first": [199]})
    outlets.send_writes("first", [kit.Rows("values", 200, 100)])
    assert kit.eventually(lambda: lasts(port) == {"Recording:proofstream-test:first": [299]})
    outlets.close(5)

    counters = outlets.counters()
    assert counters["reconnects"] == 1
    assert not [name for name in counters if name.startswith("lost_")]
    assert kit.verify(path) == ""
    assert kit.rows_of(path)["first:values"] == 300


def test_a_viewer_of_our_server_shows_the_recordings_and_nothing_else(kit: Any, window: Any) -> None:
    port, window_port = kit.free_port(), kit.free_port()
    outlets = kit.outlets(f"serve:{port}")
    for name in ("first", "second"):
        outlets.begin_recording(kit.recording(name))
        outlets.send_writes(name, [kit.Rows("values", 0, 100)])
    window(window_port, "--connect", f"rerun+http://127.0.0.1:{port}/proxy")
    both = {f"Recording:proofstream-test:{name}": [99] for name in ("first", "second")}

    assert kit.eventually(lambda: lasts(window_port) == both)


def test_the_viewer_that_we_start_understands_its_options(kit: Any, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = tmp_path / "viewer"
    program.write_text(f'#!/bin/sh\necho $$ > {pid}\nexec {kit.PROGRAM} --headless "$@"\n', "ascii")
    program.chmod(0o755)
    with kit.port_9876_unused() as port, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", ":99")
        outlets = kit.outlets("spawn", viewer=program)
        try:
            outlets.begin_recording(kit.recording())
            outlets.send_writes("first", [kit.Rows("values", 0, 100)])
            outlets.close(5)
            assert kit.eventually(lambda: lasts(port) == {"Recording:proofstream-test:first": [99]})
            assert "lost_viewers" not in outlets.counters()
        finally:
            kit.kill(int(pid.read_text("ascii")))


def test_a_missing_screen_is_reported_in_one_line(kit: Any) -> None:
    with kit.port_9876_unused(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", ":99")
        patch.delenv("WAYLAND_DISPLAY", raising=False)
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, kit.environ[name])
        with pytest.raises(ConfigError) as raised:
            kit.outlets("spawn")
    assert str(raised.value).startswith("rerun: the viewer ended at once: Error: ")
    assert "\n" not in str(raised.value)
