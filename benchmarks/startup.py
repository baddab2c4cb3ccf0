"""Measures what starting and ending cost beyond a bare interpreter: importing, opening a session, commands, the exit.

Each figure is the processor time of a process of its own, with all of its threads, less that of an interpreter that
does nothing and takes its turn in the same round.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import harness
from harness import ROOT, Result, Scale
from receiver import receiving

TURNS = 3
"""Turns of each side for one round of other benchmarks, because these processes are short."""

STREAM = ROOT / "tests" / "data" / "wire" / "stark-without-proof.jsonl"
BARE, BARE_EXIT = "a bare interpreter", "the exit of a bare interpreter"
GOALS = {
    "import proofstream": 60,
    "proofstream --help": 150,
    "open_session() and close": 150,
    "exit with a session": 20,
}

PAGE = """
import sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
TracerProvider().add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=sys.argv[1])))
"""

OPEN = "import proofstream; session = proofstream.open_session({})"
UNTIL_EXIT = "{}\nimport time; time.sleep(0.5); print(time.process_time(), flush=True)"
"""Leaves a session open, as a script does that ends without closing it, and prints what was used until then."""

PLUGINS = {
    "no plugin": "plugins=[]",
    "record": "plugins=['record'], config={'record': {'path': 'a.jsonl', 'overwrite': True}}",
    "otel into files": "plugins=['otel'], config={'otel': {'file': 'otlp'}}",
    "console": "plugins=['console']",
    "rerun into a file": "plugins=['rerun'], config={'rerun': {'connections': ['file:a.rrd'], 'overwrite': True}}",
}


def measure(scale: Scale) -> list[Result]:
    """Measure all sides in turns."""
    rounds = scale.rounds * scale.of(TURNS)
    with tempfile.TemporaryDirectory() as name, receiving() as receiver:
        cpu_s = functools.partial(_cpu_s, Path(name))
        sides = {what: functools.partial(cpu_s, command) for what, command in _commands(receiver.url).items()}
        exit_s = functools.partial(_exit_s, Path(name))
        sides |= {
            BARE_EXIT: functools.partial(exit_s, ""),
            "exit with a session": functools.partial(exit_s, OPEN.format("")),
        }
        found = harness.alternate(sides, rounds)
    return [_more(what, found) for what in found if what not in (BARE, BARE_EXIT)]


def _more(what: str, found: dict[str, list[float]]) -> Result:
    against = BARE_EXIT if what.startswith("exit") else BARE
    more = harness.middle([one - bare for one, bare in zip(found[what], found[against], strict=True)], 1e3)
    return Result(what, more.value, "ms", more.noise, against, goal=GOALS.get(what))


def _commands(url: str) -> dict[str, Sequence[str | Path]]:
    python = [sys.executable, "-c"]
    run = harness.proofstream("run", STREAM, "--no-console")
    return {
        BARE: [*python, "pass"],
        "import msgspec": [*python, "import msgspec"],
        "import proofstream": [*python, "import proofstream"],
        "proofstream --help": harness.proofstream("--help"),
        "open_session() and close": [*python, f"{OPEN.format('')}; session.close()"],
        **{f"the same with {name}": [*python, f"{OPEN.format(a)}; session.close()"] for name, a in PLUGINS.items()},
        "proofstream run FILE": run,
        "proofstream run FILE --record": [*run, "--record", "b.jsonl"],
        "proofstream run FILE --otlp": [*run, "--otlp", url],
        "a page of SDK code": [*python, PAGE, f"{url}/v1/traces"],
    }


def _cpu_s(folder: Path, command: Sequence[str | Path]) -> float:
    return harness.process(command, cwd=folder).cpu_s


def _exit_s(folder: Path, opening: str) -> float:
    done = harness.process([sys.executable, "-c", UNTIL_EXIT.format(opening)], cwd=folder)
    return done.cpu_s - float(done.stdout)


if __name__ == "__main__":
    harness.main(measure)
