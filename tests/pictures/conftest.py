"""The real Rerun viewer, without a screen, on a driver that draws in software; and what can be asked of pictures."""

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
"""Between two pictures that must be the same before one is believed: longer than the viewer's animations."""

T = TypeVar("T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder draws."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.pictures)


def eventually(look: Callable[[], T | None], *, within_s: float) -> T:
    """What ``look`` returns once it is true; fails with what it returned last."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s; last: {found!r}"
        time.sleep(0.1)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """What the viewer shows: the whole window, the 3D view alone, and what the views complain of."""

    window: Path
    scene: Path
    complaints: dict[str, list[str]]

    def drawn(self) -> npt.NDArray[np.bool_]:
        """Which pixels of the 3D view are not its background."""
        pixels = np.asarray(Image.open(self.scene).convert("RGB"), np.int16)
        colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
        distance: npt.NDArray[np.int16] = np.abs(pixels - colours[counts.argmax()]).max(axis=2)
        return distance > 8

    def share(self) -> float:
        """The share of the 3D view that something is drawn on."""
        return float(self.drawn().mean())

    def extent(self) -> tuple[float, float]:
        """Width and height of what is drawn, as shares of the 3D view's."""
        drawn = self.drawn()
        spans = [np.flatnonzero(drawn.any(axis=axis)) for axis in (0, 1)]
        width, height = ((span[-1] - span[0] + 1) / drawn.shape[1 - axis] for axis, span in enumerate(spans))
        return float(width), float(height)

    def cut_off(self) -> list[str]:
        """The sides of the 3D view that something touches: there the camera does not show all of it."""
        drawn = self.drawn()
        sides = {"top": drawn[:2], "bottom": drawn[-2:], "left": drawn[:, :2], "right": drawn[:, -2:]}
        return [side for side, pixels in sides.items() if pixels.any()]


class Viewer:
    """A viewer of one's own, which sees and says nothing beyond this machine."""

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
        # The command is a shim whose child draws: they are one process group, and end together.
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
        except Exception:  # noqa: BLE001 - it is not there yet, however that is said
            return None
        return client

    def stop(self) -> None:
        """End it, with its child."""
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOPS_WITHIN_S)
        except ProcessLookupError:
            self._process.wait(STOPS_WITHIN_S)

    def open(self, path: Path) -> list[Recording]:
        """Load a file; its recordings."""
        self._client.open(str(path))
        return eventually(self._loaded, within_s=SETTLES_WITHIN_S).recordings

    def close(self) -> None:
        """Forget all recordings."""
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
        """A picture of the window and of the 3D view, once it stands still."""
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
            assert time.monotonic() < deadline, f"{path.name} never stands still"
            before = now
            time.sleep(GLANCE_S)


@pytest.fixture(scope="session")
def driver() -> Path:
    """The Vulkan driver to draw with. People may do without; CI may not."""
    found = subprocess.run([ROOT / "scripts" / "renderer", "--where"], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return Path(found.stdout.strip())
    if os.environ.get("CI"):
        pytest.fail(found.stderr)
    pytest.skip(found.stderr.strip())


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where the pictures stay: $PROOFSTREAM_PICTURES, or build/pictures."""
    folder = Path(os.environ.get("PROOFSTREAM_PICTURES") or ROOT / "build" / "pictures").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def viewer(driver: Path, pictures: Path, tmp_path: Path) -> Iterator[Viewer]:
    """A viewer."""
    home = tmp_path / "home"
    home.mkdir()
    viewer = Viewer(home=home, driver=driver, pictures=pictures)
    yield viewer
    viewer.stop()


@pytest.fixture(scope="session")
def kit() -> Any:
    """The functions above, for tests: this folder is no package that they could import from."""
    return sys.modules[__name__]
