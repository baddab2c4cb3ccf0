"""Runs the real Rerun viewer headless, on a software Vulkan driver, and measures its pictures."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from rerun.experimental import Recording, ViewerClient, ViewerState

ROOT = Path(__file__).parents[2]
SIZE = "1600x1000"
READY_WITHIN_S = 30.0
SETTLES_WITHIN_S = 40.0
STOPS_WITHIN_S = 10.0
GLANCE_S = 0.7
"""The pause between two pictures, which must be equal to count: longer than the viewer's animations."""

T = TypeVar("T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this folder as `pictures`."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.pictures)


def eventually(look: Callable[[], T | None], *, within_s: float) -> T:
    """Return the first true result of ``look``; fail with its last result after ``within_s`` seconds."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s; last: {found!r}"
        time.sleep(0.1)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A picture of the viewer.

    Attributes:
        window: The file with the whole window.
        scene: The file with the 3D view alone.
        complaints: Errors and warnings that views show, by the view's name.
    """

    window: Path
    scene: Path
    complaints: dict[str, list[str]]

    def drawn(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the pixels of the 3D view that differ from its background."""
        pixels = np.asarray(Image.open(self.scene).convert("RGB"), np.int16)
        colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
        distance: npt.NDArray[np.int16] = np.abs(pixels - colours[counts.argmax()]).max(axis=2)
        return distance > 8

    def share(self) -> float:
        """Return the share of the 3D view that is drawn on, from 0 to 1."""
        return float(self.drawn().mean())

    def extent(self) -> tuple[float, float]:
        """Return the width and height of everything drawn, as shares of the 3D view's."""
        drawn = self.drawn()
        spans = [np.flatnonzero(drawn.any(axis=axis)) for axis in (0, 1)]
        width, height = ((span[-1] - span[0] + 1) / drawn.shape[1 - axis] for axis, span in enumerate(spans))
        return float(width), float(height)

    def cut_off(self) -> list[str]:
        """Return the sides of the 3D view that something touches, where the camera does not show all of it."""
        drawn = self.drawn()
        sides = {"top": drawn[:2], "bottom": drawn[-2:], "left": drawn[:, :2], "right": drawn[:, -2:]}
        return [side for side, pixels in sides.items() if pixels.any()]


class Viewer:
    """A viewer with a home of its own, which neither reads the user's settings nor sends usage data."""

    def __init__(self, *, home: Path, driver: Path, pictures: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RERUN", "XDG_"))}
        self._env = {**kept, "HOME": str(home), "VK_DRIVER_FILES": str(driver), "RERUN_APP_ONLY": "true"}
        self._pictures = pictures
        subprocess.run(
            [sys.executable, "-m", "rerun_cli", "analytics", "disable"],
            env=self._env,
            capture_output=True,
            timeout=READY_WITHIN_S,
            check=True,
        )
        self._log = home / "viewer.log"
        port = self._start()
        try:
            self._client = eventually(lambda: self._connect(port), within_s=READY_WITHIN_S)
        except BaseException:
            self.stop()
            raise

    def _start(self) -> int:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["--headless", "--bind", "127.0.0.1", "--port", str(port), "--window-size", SIZE]
        # The command is a wrapper whose child draws. A process group of their own lets `stop` end both.
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rerun_cli", *words, "--hide-welcome-screen", "--memory-limit", "2GiB"],
                env=self._env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return int(port)

    def _connect(self, port: int) -> ViewerClient | None:
        assert self._process.poll() is None, self._log.read_text(errors="replace")
        try:
            client = ViewerClient.connect(f"rerun+http://127.0.0.1:{port}/proxy")
            client.get_state()
        except Exception:  # noqa: BLE001 - the viewer is not up yet, and the experimental client documents no errors
            return None
        return client

    def stop(self) -> None:
        """End the viewer and its child."""
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOPS_WITHIN_S)
        except ProcessLookupError:
            self._process.wait(STOPS_WITHIN_S)

    def open(self, path: Path) -> list[Recording]:
        """Load a file and return its recordings."""
        self._client.open(str(path))
        return eventually(self._loaded, within_s=SETTLES_WITHIN_S).recordings

    def close(self) -> None:
        """Close all recordings."""
        self._client.close("all")

    def _loaded(self) -> ViewerState | None:
        state = self._client.get_state()
        ready = state.recordings and all(recording.timelines for recording in state.recordings)
        return state if ready and not state.loading else None

    def show(self, recording: Recording, *, share: float = 1.0) -> None:
        """Show a recording at a share of its time."""
        self._client.set_location(recording.location)
        (span,) = (timeline for timeline in recording.timelines if timeline.name == "prover_time")
        start, end = span.start or 0, span.end or 0
        moment = np.timedelta64(start + round((end - start) * share), "ns")
        self._client.set_time("prover_time", duration=moment, play_state="paused", recording=recording.store_id)

    def shoot(self, name: str) -> Picture:
        """Take a picture of the window and of the 3D view, once nothing moves any more."""
        window, scene = self._pictures / f"{name}.png", self._pictures / f"{name}-scene.png"
        self._save_once_still(window)
        state = self._client.get_state()
        (walk,) = (view for view in state.views if view.view_class == "3D")
        self._client.save_screenshot(str(scene), walk.view_id)
        complaints = {view.name: [report.summary for report in view.reports] for view in state.views if view.reports}
        return Picture(window=window, scene=scene, complaints=complaints)

    def _save_once_still(self, path: Path) -> None:
        before = b""
        deadline = time.monotonic() + SETTLES_WITHIN_S
        while True:
            self._client.save_screenshot(str(path))
            now = path.read_bytes()
            if now == before:
                return
            assert time.monotonic() < deadline, f"{path.name} never stops changing"
            before = now
            time.sleep(GLANCE_S)


@pytest.fixture(scope="session")
def driver() -> Path:
    """The Vulkan driver to draw with. Without one, tests are skipped on a developer's machine and fail in CI."""
    found = subprocess.run([ROOT / "scripts" / "renderer", "--where"], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return Path(found.stdout.strip())
    if os.environ.get("CI"):
        pytest.fail(found.stderr)
    pytest.skip(found.stderr.strip())


@pytest.fixture(scope="session")
def pictures() -> Path:
    """The folder that keeps the pictures: $PROOFSTREAM_PICTURES, or build/pictures."""
    folder = Path(os.environ.get("PROOFSTREAM_PICTURES") or ROOT / "build" / "pictures").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def viewer(driver: Path, pictures: Path, tmp_path: Path) -> Iterator[Viewer]:
    """A viewer, which ends with the test."""
    home = tmp_path / "home"
    home.mkdir()
    viewer = Viewer(home=home, driver=driver, pictures=pictures)
    yield viewer
    viewer.stop()


@pytest.fixture(scope="session")
def kit() -> Any:
    """The functions above, because tests cannot import from a conftest."""
    return sys.modules[__name__]
