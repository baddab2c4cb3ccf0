"""A viewer of our own: found, started in a window, and left running when we end."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from proofstream import ConfigError
from proofstream_rerun.connections import Viewer
from proofstream_rerun.probing import Answer, probe
from proofstream_rerun.serving import LOOPBACK, free_port

USUAL_PORT = 9876
"""Where Rerun's viewer listens; one that is there already is used."""

_SERVER_MEMORY = "256MiB"
_PROBE_S = 0.5
_LOOK_EVERY_S = 0.05
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
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - the viewer may go on writing when we have ended
        if probe(self.viewer, deadline_s=_PROBE_S) is not Answer.SPEAKS:
            _require_screen(environ)
            self.viewer = Viewer(LOOPBACK, free_port(USUAL_PORT))
            self._start(program or _find(environ), memory, environ)

    def _start(self, program: Path, memory: str, environ: Mapping[str, str]) -> None:
        command = [str(program), "--port", str(self.viewer.port), "--bind", LOOPBACK, "--memory-limit", memory]
        command += ["--server-memory-limit", _SERVER_MEMORY, "--hide-welcome-screen", "--expect-data-soon"]
        try:
            # A session of its own: an interrupt in our terminal is not for the viewer.
            self._process = subprocess.Popen(  # noqa: S603 - the program is configured or Rerun's own
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,
                env={**environ, "RERUN_APP_ONLY": "true"},  # it is a window, not a person's first steps
            )
        except OSError as error:
            raise ConfigError(f"rerun: the viewer {program} cannot be started: {error}", hint=_INSTEAD) from None

    def wait(self, timeout_s: float) -> bool:
        """Wait until it can be reached; returns whether it can.

        Raises:
            ConfigError: It has ended.
        """
        ends = time.monotonic() + timeout_s
        while probe(self.viewer, deadline_s=_PROBE_S) is not Answer.SPEAKS:
            if not self.is_running():
                raise ConfigError(f"rerun: the viewer ended at once: {self._last_words()}", hint=_INSTEAD)
            if time.monotonic() >= ends:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True

    def is_running(self) -> bool:
        """Whether it runs, as far as we know."""
        return self._process is None or self._process.poll() is None

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read().decode("utf-8", "replace").splitlines() if line.strip()]
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
