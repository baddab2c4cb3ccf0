"""A viewer that we start: its window, its last words, and the one that is running already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proofstream import ConfigError


def test_a_viewer_that_cannot_open_its_window_is_quoted(kit: Any, tmp_path: Path) -> None:
    program = tmp_path / "viewer"
    program.write_text("#!/bin/sh\necho starting >&2\necho 'no display found' >&2\nexit 1\n", "ascii")
    program.chmod(0o755)
    with kit.port_9876_unused(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", ":99")
        with pytest.raises(ConfigError) as raised:
            kit.outlets("spawn", viewer=program)
        assert str(raised.value) == "rerun: the viewer ended at once: no display found"
        with pytest.raises(ConfigError, match="cannot be started"):
            kit.outlets("spawn", viewer=tmp_path / "none")


def test_spawn_starts_a_viewer_waits_for_it_and_leaves_it_running(kit: Any, tmp_path: Path) -> None:
    seen, pid = tmp_path / "seen.rrd", tmp_path / "pid"
    program = tmp_path / "viewer"
    # Stands in for a viewer with a window, and ignores the options for window and memory.
    program.write_text(
        f'#!/bin/sh\necho $$ > {pid}\nexec {kit.PROGRAM} --port "$2" --bind 127.0.0.1 --save {seen}\n', "ascii"
    )
    program.chmod(0o755)
    with kit.port_9876_unused(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", ":99")
        outlets = kit.outlets("spawn", viewer=program)
        try:
            outlets.begin_recording(kit.recording())
            outlets.send_writes("first", [kit.Rows("values", 0, 100)])
            outlets.close(5)
            assert kit.eventually(lambda: kit.rows_of(seen)["first:values"] == 100)
            assert "lost_viewers" not in outlets.counters()
            assert Path(f"/proc/{pid.read_text('ascii').strip()}").exists()
        finally:
            kit.kill(int(pid.read_text("ascii")))


def test_spawn_uses_a_running_viewer_and_then_needs_no_screen(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with kit.port_9876_unused() as port:
        viewer = kit.viewer(tmp_path / "seen.rrd", port)
        outlets = kit.outlets("spawn", viewer=tmp_path / "none")
        outlets.begin_recording(kit.recording())
        outlets.send_writes("first", [kit.Rows("values", 0, 100)])
        outlets.close(5)

    assert kit.eventually(lambda: viewer.rows()["first:values"] == 100)
