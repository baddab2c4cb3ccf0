"""Built once for all contract tests: the wheel, and environments with nothing but what a user would have installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
HELLO = REPOSITORY / "examples" / "proofstream_hello"
_CONSTRAINTS = REPOSITORY / "constraints.txt"
_NOT_IN_A_CHECKOUT = shutil.ignore_patterns(
    ".venv*", ".git", ".*_cache", ".hypothesis", "__pycache__", "dist", "build", "*.egg-info", "proofstream-demo"
)
_TIMEOUT_S = 600


def run(*command: str | Path, cwd: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command without this environment's own settings; if its status is another one, its output is shown."""
    ours = ("PYTHON", "PROOFSTREAM_", "OTEL_", "VIRTUAL_ENV", "TRACEPARENT")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    done = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder of its own, which is also where its commands run."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "venv" / "bin" / "python"

    def install(self, *what: str) -> None:
        """Install with the pip that runs the tests, in the versions that are tested together."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        run(*pip, "--disable-pip-version-check", "-c", _CONSTRAINTS, *what, cwd=self.folder)

    def run(self, *command: str | Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the interpreter there."""
        return run(self.python, *command, cwd=self.folder, expect=expect)

    def proofstream(self, *arguments: str | Path, expect: int = 0) -> str:
        """Run the installed command there; returns what it printed on standard output."""
        return run(self.python.with_name("proofstream"), *arguments, cwd=self.folder, expect=expect).stdout


@pytest.fixture(scope="session")
def new_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Makes empty environments."""

    def make(name: str) -> Environment:
        environment = Environment(tmp_path_factory.mktemp(name))
        venv.create(environment.folder / "venv", symlinks=True)
        return environment

    return make


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout without anything that was built or installed in it."""
    folder = tmp_path_factory.mktemp("checkout") / "proofstream"
    return Path(shutil.copytree(REPOSITORY, folder, ignore=_NOT_IN_A_CHECKOUT))


@pytest.fixture(scope="session")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout."""
    return _build(checkout, tmp_path_factory.mktemp("wheel"), "--wheel")


@pytest.fixture(scope="session")
def wheel_from_sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution."""
    return _build(checkout, tmp_path_factory.mktemp("sdist"))


def _build(source: Path, target: Path, *options: str) -> Path:
    run(sys.executable, "-m", "build", *options, "--outdir", target, source, cwd=target)
    (found,) = target.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def core_environment(wheel: Path, new_environment: Callable[[str], Environment]) -> Environment:
    """The wheel without any extra."""
    environment = new_environment("core")
    environment.install(str(wheel))
    return environment


@pytest.fixture(scope="session")
def otel_environment(wheel: Path, new_environment: Callable[[str], Environment]) -> Environment:
    """The wheel with the extra otel."""
    environment = new_environment("otel")
    environment.install(f"{wheel}[otel]")
    return environment


@pytest.fixture(scope="session")
def hello_environment(
    wheel: Path, new_environment: Callable[[str], Environment], tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """The wheel and the plugin of the example beside it."""
    source = shutil.copytree(HELLO, tmp_path_factory.mktemp("example") / "hello", ignore=_NOT_IN_A_CHECKOUT)
    environment = new_environment("hello")
    environment.install(str(wheel), str(source), "pytest")
    return environment
