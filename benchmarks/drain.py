"""What it costs to read a prover's stream from a file: to nowhere, and to an OTLP/HTTP receiver.

The stream has the events of a 281-layer proof, several times. It is compared with msgspec decoding the same lines into
the same types, and with `sdk_page.py`. All ways of exporting must deliver as many spans, as many events, and as many
attributes on events, or the benchmark fails. Whole processes are measured, start-up included.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import harness
from harness import Result, Scale
from receiver import Content, receiving

COPIES = 20
FOLDER = Path(__file__).parent
QUIET = ("--no-console", "--no-plugin", "state-cost")

BARE = """
import sys, msgspec, proofstream
kinds = {name: kind for name, kind in vars(proofstream.events).items()
         if isinstance(kind, type) and issubclass(kind, proofstream.ProofEvent)}
del kinds["ProofEvent"], kinds["UnknownEvent"]
line_type = msgspec.defstruct("Line", [(name, kind | msgspec.UnsetType, msgspec.UNSET) for name, kind in kinds.items()])
decode = msgspec.json.Decoder(line_type).decode
for line in open(sys.argv[1], "rb"):
    decode(line)
"""


def measure(scale: Scale) -> list[Result]:
    """Compare each way with its rival."""
    with tempfile.TemporaryDirectory() as name, receiving() as receiver:
        folder = Path(name)
        lines = folder / "lines.jsonl"
        count = harness.write(lines, harness.proof(), scale.of(COPIES))
        arrived: dict[str, Content] = {}
        no_bound = harness.environment(OTEL_BSP_MAX_QUEUE_SIZE="1000000", OTEL_SPAN_EVENT_COUNT_LIMIT="1024")

        def run(*words: str, env: dict[str, str] | None = None) -> float:
            return harness.process(harness.proofstream("run", lines, *QUIET, *words), cwd=folder, env=env).cpu_s

        def exported(side: str, used_s: float) -> float:
            arrived[side] = receiver.take()
            return used_s

        def page() -> float:
            return harness.process([sys.executable, FOLDER / "sdk_page.py", lines, receiver.url], cwd=folder).cpu_s

        found = harness.alternate(
            {
                "bare": lambda: harness.process([sys.executable, "-c", BARE, lines], cwd=folder).cpu_s,
                "bus": lambda: run("--no-plugin", "otel"),
                "page": lambda: exported("page", page()),
                "otlp": lambda: exported("otlp", run("--otlp", receiver.url)),
                "traces": lambda: exported("traces", run("--otlp", receiver.url, "--set", "otel.metrics=false")),
                "sdk": lambda: exported("sdk", run("--otlp", receiver.url, "--set", "otel.pipeline=sdk", env=no_bound)),
                "aggregate": lambda: run("--otlp", receiver.url, "--set", "otel.rounds=aggregate"),
            },
            scale.rounds,
        )
    check(arrived)
    ratios = {
        ("file to bus, no plugin", "msgspec decoding the same lines"): ("bus", "bare", 2.0),
        ("file to OTLP/HTTP, spans and metrics", "the page of SDK code"): ("otlp", "page", 0.4),
        ("file to OTLP/HTTP, spans alone", "the page of SDK code, spans alone"): ("traces", "page", None),
        ("file to OTLP/HTTP, through the SDK (otel.pipeline)", "our own pipeline"): ("sdk", "otlp", None),
        ("file to OTLP/HTTP, rounds counted only", "the page of SDK code"): ("aggregate", "page", None),
    }
    results: list[Result] = []
    for (what, against), (side, other, goal) in ratios.items():
        value, noise = harness.ratio(found[side], found[other])
        results.append(Result(what, value, "x", noise, against, goal))
    labels = {
        "bare": "msgspec decoding the same lines, per event",
        "bus": "file to bus, per event",
        "page": "the page of SDK code, per event",
        "otlp": "file to OTLP/HTTP, spans and metrics, per event",
        "traces": "file to OTLP/HTTP, spans alone, per event",
        "sdk": "file to OTLP/HTTP, through the SDK, per event",
        "aggregate": "file to OTLP/HTTP, rounds counted only, per event",
    }
    for side, label in labels.items():
        value, noise = harness.middle(found[side], 1e6 / count)
        results.append(Result(label, value, "us", noise))
    return results


def check(arrived: dict[str, Content]) -> None:
    """Fail if one side delivered less than the other."""
    page, otlp = arrived["page"], arrived["otlp"]
    for side, content in arrived.items():
        if content[:2] != page[:2] or content.event_attributes != page.event_attributes:
            raise SystemExit(
                f"drain: the receiver got different contents: {page} by the page of SDK code, {content} by {side}"
            )
    if otlp.span_attributes < page.span_attributes:
        raise SystemExit(f"drain: ours delivered {otlp.span_attributes} attributes of spans of {page.span_attributes}")


if __name__ == "__main__":
    harness.main(measure)
