"""Placeholders that docs/events.md says are not shown stay out of every view; a genuine figure in their place is shown.

One stream fills every such field as real producers are known to do, another holds genuine figures in the same places.
Each runs through the command into a trace, metrics, the terminal and a Rerun recording.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rerun.chunk import RrdReader

EVENTS = Path(__file__).parents[2] / "docs" / "events.md"
GIB = 2**30
LAYERS = (3, 2, 1, 0)
CLAIM = 0.375


class StreamWriter:
    """Envelopes with times of our own, so that what was measured is known: an event every 10 ms."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []

    def add_event(self, kind: str, /, **fields: Any) -> None:
        number = len(self._lines) + 1
        envelope = {"v": 1, "seq": number, "time_unix_nano": 10**18 + number * 10**7, "session_id": "s"}
        self._lines.append(json.dumps({**envelope, "event": {kind: fields}}))

    def write(self) -> Path:
        self._path.write_text("\n".join(self._lines) + "\n", "utf-8")
        return self._path


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a producer fills in."""

    layer_ms: int
    opening_ms: int
    binding_ms: int
    stark_ms: int
    proof_ms: int
    rounds: int
    round_claims: tuple[float, float]
    utilization: Callable[[int], float]
    free_memory_bytes: Callable[[int], int]


def share_of_layers(layer: int) -> float:
    """The share of layers done, and for every other layer a share that cannot be."""
    return (layer + 1) / len(LAYERS) if layer % 2 else 55.0


PLACEHOLDERS = Figures(
    layer_ms=0,
    opening_ms=0,
    binding_ms=0,
    stark_ms=0,
    proof_ms=0,
    rounds=0,
    round_claims=(CLAIM / 2, CLAIM / 4),
    utilization=share_of_layers,
    free_memory_bytes=lambda _: 80 * GIB,
)
GENUINE = Figures(
    layer_ms=7,
    opening_ms=11,
    binding_ms=13,
    stark_ms=17,
    proof_ms=23456,
    rounds=5,
    round_claims=(0.62, 0.81),
    utilization=lambda _: 0.61,
    free_memory_bytes=lambda layer: (77 + layer) * GIB,
)


def write_stream(figures: Figures, path: Path) -> Path:
    stream = StreamWriter(path)
    shapes = {"input_shape": [1, 1], "output_shape": [1, 1]}
    stream.add_event("ProofStart", model_name="m", backend="cpu-gkr", num_layers=len(LAYERS), **shapes)
    for layer in LAYERS:
        _add_layer(stream, figures, layer, shapes)
    stream.add_event("WeightOpeningStart", weight_node_id=5, eval_point_len=3)
    stream.add_event(
        "WeightOpeningEnd", weight_node_id=5, duration_ms=figures.opening_ms, commitment_hex="0011223344556677"
    )
    stream.add_event("AggregatedBindingStart", num_claims=1, num_matrices=1)
    stream.add_event("AggregatedBindingEnd", duration_ms=figures.binding_ms, estimated_calldata_felts=9)
    stream.add_event("StarkProofStart", num_activation_layers=1, num_add_layers=0, num_layernorm_layers=0)
    stream.add_event("StarkProofEnd", duration_ms=figures.stark_ms)
    stream.add_event(
        "ProofComplete",
        duration_ms=figures.proof_ms,
        num_layer_proofs=len(LAYERS),
        num_weight_openings=1,
        weight_binding_mode="sequential",
    )
    return stream.write()


def _add_layer(stream: StreamWriter, figures: Figures, layer: int, shapes: Mapping[str, list[int]]) -> None:
    stream.add_event(
        "LayerStart",
        layer_idx=layer,
        kind="MatMul",
        trace_cost=8,
        claim_value_approx=CLAIM,
        gpu_device=None,
        **shapes,
    )
    for number, claim in enumerate((CLAIM, *figures.round_claims)):
        stream.add_event(
            "SumcheckRound",
            layer_idx=layer,
            round=number,
            total_rounds=3,
            poly_deg2=None,
            poly_deg3=None,
            claim_value_approx=claim,
        )
    stream.add_event(
        "LayerEnd",
        layer_idx=layer,
        kind="Sumcheck",
        final_claim_value_approx=None,
        duration_ms=figures.layer_ms,
        rounds_completed=figures.rounds,
    )
    device = {
        "device_id": 0,
        "device_name": "GPU-0",
        "utilization": figures.utilization(layer),
        "free_memory_bytes": figures.free_memory_bytes(layer),
    }
    # Two numbers that count down and that no figure of a view happens to equal.
    counts = {"matmul_done": 4211 + layer, "matmul_total": 4219, "layers_done": layer + 1, "layers_total": len(LAYERS)}
    stream.add_event("GpuStatus", devices=[device], **counts)


@dataclass(frozen=True, kw_only=True)
class Views:
    """What each view shows of a stream."""

    trace: str
    metrics: str
    terminal: str
    texts: str
    plots: dict[str, list[float]]

    def find(self, row: Row) -> set[str]:
        """The views that show a figure."""
        found = {
            view
            for view, pattern in (
                ("trace", row.trace),
                ("metrics", row.metrics),
                ("terminal", row.terminal),
                ("texts", row.texts),
            )
            if pattern is not None and re.search(pattern, getattr(self, view))
        }
        plotted = [
            value for path, values in self.plots.items() if row.plot and path.startswith(row.plot) for value in values
        ]
        return found | ({"plots"} if any(row.is_plotted(value) for value in plotted) else set())


@dataclass(frozen=True, kw_only=True)
class Row:
    """Where a figure of one field stands in the views, as patterns that match whatever its value is.

    Attributes:
        views: The views that show it when it is genuine.
        is_plotted: Whether a plotted value is the figure, where the plot holds others as well.
    """

    views: frozenset[str]
    trace: str | None = None
    metrics: str | None = None
    terminal: str | None = None
    texts: str | None = None
    plot: str | None = None
    is_plotted: Callable[[float], bool] = lambda _: True


def shown_in(*views: str) -> frozenset[str]:
    return frozenset(views)


def attribute(name: str) -> str:
    return rf'"key": ?"{re.escape(name)}"'


DONE, TOTAL = r"(?<![\w.])421[1-4](?![\w.])", r"(?<![\w.])4219(?![\w.])"
ROWS: dict[str, Row] = {
    "SumcheckRound.claim_value_approx": Row(
        views=shown_in("trace", "plots"),
        trace=attribute("proofstream.round.claim") + r', ?"value": ?\{"doubleValue": ?(?!0\.375\b)',
        plot="/gkr/rounds",
        is_plotted=lambda value: math.isfinite(value) and value != CLAIM,
    ),
    "LayerEnd.duration_ms": Row(
        views=shown_in("trace", "texts"),
        trace=attribute("proofstream.layer.reported_duration_ms"),
        texts=r"\[\d\] MatMul proved.* \d+ ms \(reported\)",
    ),
    "LayerEnd.rounds_completed": Row(
        views=shown_in("trace"), trace=attribute("proofstream.layer.reported_rounds"), texts="rounds? reported"
    ),
    "ProofComplete.duration_ms": Row(
        views=shown_in("trace", "texts"),
        trace=attribute("proofstream.proof.reported_duration_ms"),
        texts=r"proof complete .*reported: \d+ ms",
    ),
    "WeightOpeningEnd.duration_ms": Row(
        views=shown_in("trace", "texts"),
        trace=attribute("proofstream.weight.reported_duration_ms"),
        texts=r"opened weight 5 .*\d+ ms \(reported\)",
    ),
    "AggregatedBindingEnd.duration_ms": Row(
        views=shown_in("trace", "texts", "plots"),
        trace=attribute("proofstream.binding.reported_duration_ms"),
        texts=r"claims bound .*\d+ ms \(reported\)",
        plot="/proof/binding_ms",
    ),
    "StarkProofEnd.duration_ms": Row(
        views=shown_in("trace", "texts"),
        trace=attribute("proofstream.stark.reported_duration_ms"),
        texts=r"STARK .*\d+ ms \(reported\)",
    ),
    "GpuStatus.matmul_done": Row(views=shown_in(), trace=DONE, metrics=DONE, terminal=DONE, texts=DONE),
    "GpuStatus.matmul_total": Row(views=shown_in(), trace=TOTAL, metrics=TOTAL, terminal=TOTAL, texts=TOTAL),
    "GpuStatus.layers_done": Row(
        views=shown_in(), trace="layers_done", metrics="layers_done", terminal="[123] of 4", texts="[123] of 4|[123]/4"
    ),
    "GpuSnapshot.utilization": Row(
        views=shown_in("metrics", "terminal", "plots"),
        metrics="proofstream.reported.gpu.utilization",
        terminal=r"\d+ % busy",
        plot="/gpu/reported/utilization/",
    ),
    "GpuSnapshot.free_memory_bytes": Row(
        views=shown_in("metrics", "terminal", "plots"),
        metrics="proofstream.reported.gpu.free_memory",
        terminal="GiB free memory",
        plot="/gpu/reported/free_gib/",
    ),
}


@pytest.fixture(scope="module", params=[PLACEHOLDERS, GENUINE], ids=["placeholders", "genuine"])
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bool, Views]:
    """Whether the figures are genuine, and what the views show of them."""
    folder = tmp_path_factory.mktemp("placeholders")
    stream = write_stream(request.param, folder / "stream.jsonl")
    flags = ["--otlp-file", str(folder / "otlp"), "--rerun", f"file:{folder / 'proof.rrd'}"]
    terminal = _run_through_a_pipe(stream, flags, folder / "otlp" / "metrics.jsonl")
    texts, plots = _read_recording(folder / "proof.rrd")
    return request.param is GENUINE, Views(
        trace=(folder / "otlp" / "traces.jsonl").read_text("utf-8"),
        metrics=(folder / "otlp" / "metrics.jsonl").read_text("utf-8"),
        terminal=terminal,
        texts=texts,
        plots=plots,
    )


def _run_through_a_pipe(stream: Path, flags: list[str], metrics: Path) -> str:
    """Observe the stream as it arrives, with a pause before the proof ends, and return the terminal's text.

    Figures of devices are metrics only while a proof runs, so one collection must fall into it.
    """
    *running, end = stream.read_text("utf-8").splitlines(keepends=True)
    with subprocess.Popen(
        [sys.executable, "-m", "proofstream", "run", "-", *flags],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=stream.parent,
        env={**os.environ, "COLUMNS": "160", "OTEL_METRIC_EXPORT_INTERVAL": "1000"},
    ) as command:
        assert command.stdin is not None
        command.stdin.writelines(running)
        command.stdin.flush()
        deadline = time.monotonic() + 60
        while not (metrics.exists() and '"StarkProofEnd"' in metrics.read_text("utf-8")):
            assert time.monotonic() < deadline, "no metrics were collected"
            time.sleep(0.05)
        _, terminal = command.communicate(end, timeout=60)
    assert command.returncode == 0, terminal
    return terminal


def _read_recording(path: Path) -> tuple[str, dict[str, list[float]]]:
    """The lines of all logs, and the numbers of each plot."""
    reader = RrdReader(path)
    (recording,) = reader.recordings()
    texts: list[str] = []
    plots: dict[str, list[float]] = {}
    for chunk in reader.stream(store=recording):
        for name, cells in _columns_of(chunk):
            if name == "TextLog:text":
                texts += cells
            elif name == "Scalars:scalars":
                plots.setdefault(str(chunk.entity_path), []).extend(cells)
    return "\n".join(texts), plots


def _columns_of(chunk: Any) -> Iterator[tuple[str, list[Any]]]:
    table = chunk.to_record_batch()
    for name in table.schema.names:
        if name.endswith(("TextLog:text", "Scalars:scalars")):
            yield name, [value for cell in table.column(name).to_pylist() for value in cell or ()]


@pytest.mark.parametrize("field", ROWS)
def test_a_placeholder_is_in_no_view_and_a_genuine_figure_in_those_that_show_it(
    shown: tuple[bool, Views], field: str
) -> None:
    is_genuine, views = shown

    assert views.find(ROWS[field]) == (ROWS[field].views if is_genuine else set())


def test_these_are_the_placeholders_that_the_document_names() -> None:
    documented = {
        f"{heading}.{name}"
        for heading, section in re.findall(
            r"^### (\w+)\n(.*?)(?=^##)", EVENTS.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        for name in re.findall(r"^\| `(\w+)` \|.*\| [^|]*not shown[^|]* \|$", section, re.MULTILINE)
    }

    assert documented == set(ROWS)
