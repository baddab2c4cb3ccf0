"""What recording a stream costs, against a loop that makes the same file, and one that copies the lines.

The recording numbers and stamps each event, and keeps the line as the prover wrote it. The first loop does the same,
in ten lines: it decodes each line, so that a broken one would be noticed, and writes it with number, time and session.
It does not check fields, follow a proof, flush each second, nor say what it could not read.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import harness
from harness import Result, Scale

COPIES = 30
QUIET = ("--no-console", "--no-plugin", "otel", "--no-plugin", "state-cost")

LOOP = """
import sys, time, msgspec
decode = msgspec.json.decode
with open(sys.argv[1], "rb") as lines, open(sys.argv[2], "wb") as out:
    for seq, line in enumerate(lines):
        decode(line)
        out.write(b'{"v":1,"seq":%d,"time_unix_nano":%d,"session_id":"0123456789abcdef","event":%b}\\n'
                  % (seq, time.time_ns(), line[:-1]))
"""

COPY = """
import sys
with open(sys.argv[1], "rb") as lines, open(sys.argv[2], "wb") as out:
    for line in lines:
        out.write(line)
"""


def measure(scale: Scale) -> list[Result]:
    """Compare whole processes, start-up included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines, out = folder / "lines.jsonl", folder / "out.jsonl"
        count = harness.write(lines, harness.proof(), scale.of(COPIES))

        def record() -> float:
            out.unlink(missing_ok=True)
            return harness.process(harness.proofstream("run", lines, "--record", out, *QUIET), cwd=folder).cpu_s

        def loop(code: str) -> float:
            return harness.process([sys.executable, "-c", code, lines, out], cwd=folder).cpu_s

        sides = {"record": record, "loop": lambda: loop(LOOP), "copy": lambda: loop(COPY)}
        found = harness.alternate(sides, scale.rounds)
    same, copy = harness.ratio(found["record"], found["loop"]), harness.ratio(found["record"], found["copy"])
    event = harness.middle(found["record"], 1e6 / count)
    return [
        Result("a recording", same.value, "x", same.noise, "a loop that makes the same file", goal=3.0),
        Result("a recording, against copying", copy.value, "x", copy.noise, "a loop that copies the lines"),
        Result("a recording, per event", event.value, "us", event.noise),
    ]


if __name__ == "__main__":
    harness.main(measure)
