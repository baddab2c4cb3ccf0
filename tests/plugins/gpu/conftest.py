"""A machine with GPUs that misbehave on request: NVML's exported names from a small C library, built here.

It is loaded as the real one is, by name: in this process because a library of that name is loaded already, in others
by LD_LIBRARY_PATH.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proofstream_gpu.nvml import Nvml
from proofstream_gpu.watch import Watch

SOURCE = Path(__file__).parent / "fake_nvml.c"
NAME = "libnvidia-ml.so.1"


def build(folder: Path, *options: str) -> Path:
    folder.mkdir()
    library = folder / NAME
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")
    if compiler is None:
        pytest.fail("these tests need a C compiler; on Debian and Ubuntu: apt install gcc libc6-dev")
    flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{NAME}", *options]
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True, timeout=60)
    return library


class Machine:
    """The machine: its script, and what was asked of it."""

    def __init__(self, folder: Path, library: Path, old_library: Path) -> None:
        self.library = library
        self.old_library = old_library
        self.script = folder / "machine.txt"
        self.calls_file = folder / "calls.txt"
        self.facts: dict[str, object] = {}
        self.set()

    def set(self, **facts: object) -> None:
        """Set facts by key, with `_1_` for `1.` as in `_0_power="!3"`; None takes one back."""
        for key, value in facts.items():
            name = key.removeprefix("_").replace("__", ".") if "__" in key else key
            if value is None:
                self.facts.pop(name, None)
            else:
                self.facts[name] = value
        # Replaced at once, for the sampler's thread may read it meanwhile.
        new = self.script.with_suffix(".new")
        new.write_text("".join(f"{key}={value}\n" for key, value in self.facts.items()))
        new.replace(self.script)

    @property
    def calls(self) -> list[tuple[int, str]]:
        """What was asked so far: process and question."""
        if not self.calls_file.exists():
            return []
        lines = self.calls_file.read_text().splitlines()
        return [(int(pid), name) for pid, name in (line.split() for line in lines)]

    def count(self, name: str) -> int:
        return sum(call == name for _, call in self.calls)

    def environ(self, library: Path | None = None) -> dict[str, str]:
        """What another process needs to find this machine."""
        return {
            "LD_LIBRARY_PATH": str((library or self.library).parent),
            "FAKE_NVML_SCRIPT": str(self.script),
            "FAKE_NVML_LOG": str(self.calls_file),
        }


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The library as of today, and as of an old driver."""
    folder = tmp_path_factory.mktemp("nvml")
    return build(folder / "new"), build(folder / "old", "-DOLD_DRIVER")


@pytest.fixture
def away(tmp_path: Path, libraries: tuple[Path, Path]) -> Machine:
    """A machine for other processes."""
    return Machine(tmp_path, *libraries)


@pytest.fixture
def machine(away: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine for this process."""
    fake = ctypes.CDLL(str(away.library))
    pynvml: Any = importlib.import_module("pynvml")
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setenv("FAKE_NVML_SCRIPT", str(away.script))
    monkeypatch.setenv("FAKE_NVML_LOG", str(away.calls_file))
    fake.fake_nvml_reset()
    yield away
    assert pynvml.nvmlLib is None or hasattr(pynvml.nvmlLib, "fake_nvml_reset"), "not the library of this test"


class Clock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_watch(machine: Machine, clock: Clock) -> Iterator[Callable[..., Watch]]:
    """Opens a watch over the machine; it is closed with the test."""
    opened: list[Watch] = []

    def begin(**options: Any) -> Watch:
        watch = Watch(Nvml(), log=logging.getLogger("proofstream.test"), clock=clock, **options)
        watch.open()
        opened.append(watch)
        return watch

    yield begin
    for watch in opened:
        watch.close()
