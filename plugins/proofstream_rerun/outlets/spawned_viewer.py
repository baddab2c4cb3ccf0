"""Starts a viewer in a window, or finds a running one, and leaves it running when we end."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from proofstream import ConfigError
from proofstream_rerun.connections import Viewer
from proofstream_rerun.outlets.probing import Answer, probe
from proofstream_rerun.outlets.server import LOOPBACK, free_port

USUAL_PORT = 9876
"""The port that Rerun's viewer listens on by default. A viewer that is already there is used."""

_SERVER_MEMORY = "256MiB"
_PROBE_S = 0.5
_LOOK_EVERY_S = 0.05
_SETTLE_S = 1.0
"""How long to watch a new viewer: it listens before it opens its window, and ends if there is no screen."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_INSTEAD = "use serve and open its address on a machine with a screen, or file:PATH"


class SpawnedViewer:
    """A viewer that we started, or found on its usual port.

    Attributes:
        viewer: Its address.

    Args:
        program: The program to start; None for the viewer that comes with Rerun's SDK.
        memory: How much it may use, in Rerun's notation, such as `2GiB`.
        environ: Our environment.

    Raises:
        ConfigError: There is no screen or no program, or the program cannot be started.
    """

    def __init__(self, program: Path | None, *, memory: str, environ: Mapping[str, str] = os.environ) -> None:
        self.viewer = Viewer(LOOPBACK, USUAL_PORT)
        self._pid: int | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - its standard error, for when it ends at once
        if probe(self.viewer, deadline_s=_PROBE_S) is Answer.SPEAKS:
            return
        try:
            _require_screen(environ)
            self.viewer = Viewer(LOOPBACK, free_port(USUAL_PORT))
            self._start(program or _find(environ), memory, environ)
        except ConfigError:
            self._said.close()
            raise

    def _start(self, program: Path, memory: str, environ: Mapping[str, str]) -> None:
        options = ["--port", str(self.viewer.port), "--bind", LOOPBACK, "--memory-limit", memory]
        options += ["--server-memory-limit", _SERVER_MEMORY, "--hide-welcome-screen", "--expect-data-soon"]
        try:
            # posix_spawn, not subprocess: the viewer outlives us, and subprocess warns of children that were not
            # reaped. setsid keeps our Ctrl-C from it.
            self._pid = os.posix_spawn(
                program,
                [str(program), *options],
                {**environ, "RERUN_APP_ONLY": "true"},  # skip the steps for first-time users
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, self._said.fileno(), 2),
                ],
                setsid=True,
            )
        except OSError as error:
            raise ConfigError(f"rerun: the viewer {program} cannot be started: {error}", hint=_INSTEAD) from None

    def wait(self, timeout_s: float) -> bool:
        """Wait until the viewer can be reached and has opened its window; return whether it has.

        Raises:
            ConfigError: The viewer has ended.
        """
        with self._said:
            ends = time.monotonic() + timeout_s
            while probe(self.viewer, deadline_s=_PROBE_S) is not Answer.SPEAKS:
                self._require_running()
                if time.monotonic() >= ends:
                    return False
                time.sleep(_LOOK_EVERY_S)
            settled = time.monotonic() + (_SETTLE_S if self._pid is not None else 0.0)
            while time.monotonic() < settled:
                self._require_running()
                time.sleep(_LOOK_EVERY_S)
            return True

    def _require_running(self) -> None:
        if not self.is_running():
            raise ConfigError(f"rerun: the viewer ended at once: {self._last_words()}", hint=_INSTEAD)

    def is_running(self) -> bool:
        """Return whether the viewer is running, as far as we know: one that we found always counts as running."""
        if self._pid is not None:
            with contextlib.suppress(ChildProcessError):  # other code in this process has reaped it
                if os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                    return True
            return False
        return True

    def _last_words(self) -> str:
        self._said.seek(0)
        said = _COLOUR.sub("", self._said.read().decode("utf-8", "replace"))
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return lines[-1] if lines else "no output"


def _require_screen(environ: Mapping[str, str]) -> None:
    if sys.platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        raise ConfigError("rerun: spawn opens a window, and there is no screen (no DISPLAY)", hint=_INSTEAD)


def _find(environ: Mapping[str, str]) -> Path:
    """Find the viewer that matches the SDK's version, else any on the path.

    Raises:
        ConfigError: There is no viewer.
    """
    package = importlib.util.find_spec("rerun_cli")
    folders = [Path(place) for place in (package.submodule_search_locations or ())] if package is not None else []
    for folder in [*folders, Path(sys.executable).parent]:
        if os.access(folder / "rerun", os.X_OK):
            return folder / "rerun"
    found = shutil.which("rerun", path=environ.get("PATH"))
    if found is None:
        raise ConfigError("rerun: spawn needs the program rerun, which is not installed", hint=_INSTEAD)
    return Path(found)
