"""What the benchmarks share: processor time, rounds, results, and long streams made from a real one.

A benchmark is a module in this folder with a function `measure(scale: Scale) -> list[Result]`, which ends in

    if __name__ == "__main__":
        harness.main(measure)

so that it runs by itself: `python benchmarks/drain.py [--short] [--json FILE]`. `scripts/bench` finds all modules with
such a function and runs each in a process of its own. They use the public API and the command alone, so that the same
file measures an older commit, too.

Processor time is measured, not the clock: on a shared machine the clock counts what others do. Sides that are compared
take turns in rounds, because a machine is slower in some minutes than in others; a ratio is that of one round, and the
median of all rounds is given, with half their range as its noise.

pyperf is not used: it measures by the clock, and each side for itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

ROOT = Path(__file__).parents[1]
REAL = ROOT / "tests" / "data" / "wire" / "smollm2-135m-cpu.jsonl"
"""The stream of a real prover: the events of 211 layers with 1,230 rounds."""

LAYERS = 281
"""Layers of a language model with 14 billion parameters."""

DEADLINE_S = 7200.0
"""A measured process that takes longer is killed."""


# logfire, one of the peers, has a plugin for pydantic, which would load all of logfire into every process.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "logfire-plugin"


class Scale(NamedTuple):
    """How much is measured.

    Attributes:
        size: A factor for how many events, proofs or calls; 1 in the usual form.
        rounds: How often each side has its turn.
    """

    size: float
    rounds: int

    def of(self, count: int, *, least: int = 1) -> int:
        """Return the count for this scale."""
        return max(least, round(count * self.size))


FORMS = {"short": Scale(0.02, 1), "compare": Scale(1.0, 1), "usual": Scale(1.0, 3), "long": Scale(40.0, 3)}


class Result(NamedTuple):
    """One figure.

    Attributes:
        name: What was measured, in words that a table can show: "file to bus".
        value: The figure, the median of all rounds.
        unit: `x` for a ratio, or `us`, `ms`, `MB`, ...
        noise: Half the range of the rounds, in the same unit.
        against: What it is compared with: "msgspec decoding the same lines".
        goal: What must be reached, if there is a goal.
        better: Whether a lower or a higher value is better.
        note: What the reader must know about the figure.
        series: The name of the plot that it is a point of, if any.
        x: Its place on the horizontal axis there.
    """

    name: str
    value: float
    unit: str
    noise: float = 0.0
    against: str = ""
    goal: float | None = None
    better: Literal["lower", "higher"] = "lower"
    note: str = ""
    series: str = ""
    x: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.better == "lower" else self.value >= self.goal


class Child(NamedTuple):
    """What a process took, with all of its threads.

    Attributes:
        cpu_s: User and system time.
        wall_s: Time by the clock.
        stdout: What it wrote to standard output.
        stderr: What it wrote to standard error.
    """

    cpu_s: float
    wall_s: float
    stdout: str
    stderr: str


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a measured process: this one's, without settings of the user.

    Modules come compiled, as installed ones do.
    """
    left_out = ("PROOFSTREAM_", "OTEL_", "LOGFIRE_", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    return {**kept, "XDG_CONFIG_HOME": os.devnull, **more}


def proofstream(*words: str | Path) -> list[str]:
    """Return the command line of the tree that is measured."""
    return [sys.executable, "-m", "proofstream", *map(str, words)]


def process(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    meanwhile: Callable[[int], None] | None = None,
    statuses: Container[int] = (0,),
) -> Child:
    """Run a command to its end and return what it took; a failed one ends the benchmark.

    Args:
        command: The command.
        cwd: Its folder.
        env: Its environment; by default this process's, without settings of the user.
        meanwhile: Called some twenty times a second while it runs, with its process id.
        statuses: The exit statuses of success.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=cwd, env=env or environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        code, usage = _wait(child, meanwhile or _nothing)
        wall_s = time.perf_counter() - began
        said: list[str] = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    if code not in statuses:
        raise SystemExit(f"{' '.join(map(str, command))[:200]} ended with status {code}: {said[1][-500:]}")
    return Child(usage.ru_utime + usage.ru_stime, wall_s, *said)


def _nothing(_pid: int) -> None:
    pass


def _wait(child: subprocess.Popen[bytes], meanwhile: Callable[[int], None]) -> tuple[int, Any]:
    deadline = time.monotonic() + DEADLINE_S
    pause_s = 0.001
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage
        if time.monotonic() > deadline:
            child.kill()
        meanwhile(child.pid)
        time.sleep(pause_s)
        pause_s = min(0.05, pause_s * 1.5)


def compile_tree() -> None:
    """Compile the modules of the tree that is measured, so that the first process does not do it."""
    trees = {
        Path(str(found.origin)).parents[1] for found in map(find_spec, ("proofstream", "proofstream_record")) if found
    }
    subprocess.run([sys.executable, "-m", "compileall", "-q", *trees], check=True)


def cpu_s(call: Callable[[], object]) -> float:
    """Return the processor time of a call in this process, in seconds, with that of all threads meanwhile."""
    began = time.process_time()
    call()
    return time.process_time() - began


def alternate(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Give each side its turn in each round, every other round in the opposite order; return the figures by side."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in sides if number % 2 == 0 else reversed(list(sides)):
            found[name].append(sides[name]())
    return found


class Figure(NamedTuple):
    """A median and its noise, to be unpacked into a result."""

    value: float
    noise: float


def middle(values: Sequence[float], factor: float = 1.0) -> Figure:
    """Return the median of the rounds, and half of their range."""
    return Figure(statistics.median(values) * factor, (max(values) - min(values)) / 2 * factor)


def ratio(side: Sequence[float], other: Sequence[float]) -> Figure:
    """Return the median of the ratios of each round, and half of their range."""
    return middle([one / two for one, two in zip(side, other, strict=True)])


# Streams


def proof(layers: int = LAYERS, rounds: int | None = None, *, activations: bool = True) -> list[bytes]:
    """Return the lines of a proof of that many layers, each as one of the real stream.

    Args:
        layers: How many.
        rounds: Rounds in each layer; None for as many as the real layer has.
        activations: Whether the layers' activations come before the proof, as in the real stream.
    """
    real = _real()
    lines = list(islice(real.activations(), layers)) if activations else []
    lines.append(_line("ProofStart", {**real.start, "num_layers": layers}))
    for done in range(layers):
        index = layers - 1 - done  # provers walk from the last layer to the first
        begin, steps, ends = real.layers[done % len(real.layers)]
        count = len(steps) if rounds is None else rounds
        total = {"layer_idx": index, "total_rounds": count}
        lines.append(_line("LayerStart", {**begin, "layer_idx": index}))
        steps = steps or real.any_rounds
        lines += (_line("SumcheckRound", {**steps[n % len(steps)], **total, "round": n}) for n in range(count))
        for kind, event in ends:
            moved = {"layer_idx": index, "rounds_completed": count} if kind == "LayerEnd" else {}
            lines.append(_line(kind, {**event, **moved}))
    lines.append(_line("ProofComplete", {**real.complete, "num_layer_proofs": layers}))
    return lines


def of_job(lines: Sequence[bytes], job_id: str) -> list[bytes]:
    """Return the lines as those of one job."""
    return [b'{"job_id":"%b","event":%b}' % (job_id.encode(), line) for line in lines]


def interleaved(jobs: Sequence[Sequence[bytes]]) -> Iterator[bytes]:
    """Yield the lines of all jobs in turns, as they come from jobs that run at the same time."""
    for place in range(max(map(len, jobs))):
        for job in jobs:
            if place < len(job):
                yield job[place]


def write(path: Path, lines: Sequence[bytes], times: int = 1) -> int:
    """Write the lines to a file, as often as told; return how many lines those are."""
    text = b"\n".join(lines) + b"\n"
    with path.open("wb") as file:
        for _ in range(times):
            file.write(text)
    return len(lines) * times


def _line(kind: str, event: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({kind: event})


class _Real:
    """The real stream, taken apart: what comes before its layers, and each layer with its rounds and what follows."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.complete: dict[str, Any] = {}
        self.layers: list[tuple[dict[str, Any], list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]] = []
        self._activations: list[dict[str, Any]] = []
        for line in REAL.read_bytes().splitlines():
            ((kind, event),) = msgspec.json.decode(line).items()
            self._put(kind, event)
        self.any_rounds = next(steps for _, steps, _ in self.layers if steps)

    def _put(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "LayerActivation":
                self._activations.append(event)
            case "ProofStart":
                self.start = event
            case "ProofComplete":
                self.complete = event
            case "LayerStart":
                self.layers.append((event, [], []))
            case "SumcheckRound":
                self.layers[-1][1].append(event)
            case _:
                self.layers[-1][2].append((kind, event))

    def activations(self) -> Iterator[bytes]:
        index = 0
        while True:
            event = self._activations[index % len(self._activations)]
            yield _line("LayerActivation", {**event, "layer_idx": index})
            index += 1


def _real(kept: list[_Real] = []) -> _Real:  # noqa: B006 - read once in a process
    if not kept:
        kept.append(_Real())
    return kept[0]


# Running a benchmark by itself


def machine() -> dict[str, str | int]:
    """Describe the machine, without names of hosts or folders."""
    cpuinfo = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in _lines_of(cpuinfo) if line.startswith("model name")]
    release = platform.freedesktop_os_release().get("PRETTY_NAME") if sys.platform == "linux" else None
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": f"{release or platform.system()}, {platform.system()} {platform.release().split('-')[0]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def figures(results: Sequence[Result]) -> list[Result]:
    """Return the results that are not points of a plot."""
    return [result for result in results if not result.series]


def as_text(result: Result) -> str:
    """Return the figure on one line, with its goal."""
    goal = ""
    if result.goal is not None:
        word = "at most" if result.better == "lower" else "at least"
        goal = f"; {word} {result.goal:g}: {'reached' if result.reached else 'MISSED'}"
    against = f" (against {result.against})" if result.against else ""
    noise = f" ± {result.noise:.2g}" if result.noise else ""
    return f"{result.name}{against}: {result.value:.4g}{noise} {result.unit}{goal}"


def main(measure: Callable[[Scale], list[Result]]) -> None:
    """Run one benchmark as the command line says, and print its figures or write them as JSON."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    for form in FORMS:
        parser.add_argument(
            f"--{form}", action="store_const", const=form, dest="form", help=f"measure in the {form} form"
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    chosen = parser.parse_args()
    form = chosen.form or "usual"
    compile_tree()
    began = time.perf_counter()
    results = measure(FORMS[form])
    seconds = round(time.perf_counter() - began, 1)
    if chosen.json:
        rows = [result._asdict() for result in results]
        text = json.dumps({"form": form, "seconds": seconds, "machine": machine(), "results": rows}, indent=1)
        chosen.json.write_text(f"{text}\n", encoding="utf-8")
    for result in figures(results):
        print(as_text(result))
