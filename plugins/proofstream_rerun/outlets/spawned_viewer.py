"""A viewer of our own: found, started in a window, and left running when we end."""

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
"""Where Rerun's viewer listens; one that is there already is used."""

_SERVER_MEMORY = "256MiB"
_PROBE_S = 0.5
_LOOK_EVERY_S = 0.05
_SETTLE_S = 1.0
"""A viewer listens before it looks for a screen."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_INSTEAD = "use serve and open its address on a machine with a screen, or file:PATH"


class SpawnedViewer:
    """A viewer that we started, or found where ours would be.

    Attributes:
        viewer: Its address.

    Args:
        program: What to start; the viewer that comes with Rerun's SDK by default.
        memory: How much it may use, as Rerun reads it.
        environ: Our environment.

    Raises:
        ConfigError: There is no screen or no program, or it cannot be started.
    """

    def __init__(self, program: Path | None, *, memory: str, environ: Mapping[str, str] = os.environ) -> None:
        self.viewer = Viewer(LOOPBACK, USUAL_PORT)
        self._pid: int | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - what it says when it ends at once
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
            # Not by `subprocess`, which wants its children back: the viewer goes on when we have ended. A session of
            # its own, as an interrupt in our terminal is not for the viewer.
            self._pid = os.posix_spawn(
                program,
                [str(program), *options],
                {**environ, "RERUN_APP_ONLY": "true"},  # it is a window, not a person's first steps
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
        """Wait until it can be reached and has opened its window; returns whether it has.

        Raises:
            ConfigError: It has ended.
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
        """Whether it runs, as far as we know."""
        if self._pid is not None:
            with contextlib.suppress(ChildProcessError):  # somebody else was told of its end
                if os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                    return True
            return False
        return True

    def _last_words(self) -> str:
        self._said.seek(0)
        said = _COLOUR.sub("", self._said.read().decode("utf-8", "replace"))
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return lines[-1] if lines else "it says nothing"


def _require_screen(environ: Mapping[str, str]) -> None:
    if sys.platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        raise ConfigError("rerun: spawn opens a window, and there is no screen (no DISPLAY)", hint=_INSTEAD)


def _find(environ: Mapping[str, str]) -> Path:
    """The viewer of the SDK's own version, else any."""
    package = importlib.util.find_spec("rerun_cli")
    folders = [Path(place) for place in (package.submodule_search_locations or ())] if package is not None else []
    for folder in [*folders, Path(sys.executable).parent]:
        if os.access(folder / "rerun", os.X_OK):
            return folder / "rerun"
    found = shutil.which("rerun", path=environ.get("PATH"))
    if found is None:
        raise ConfigError("rerun: spawn needs the program rerun, which is not installed", hint=_INSTEAD)
    return Path(found)
