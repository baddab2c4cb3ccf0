"""docs/rerun.md names every entity of a recording, and says for each element of the original what became of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from rerun.chunk import RrdReader

from proofstream import (
    Decoded,
    EventsLost,
    GpuReading,
    GpuSnapshot,
    GpuStatus,
    GpuTelemetry,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    PhaseEnd,
    PhaseStart,
    ProofAborted,
    ProofEvent,
    StateBytes,
    StateBytesMoved,
    StateProgramCost,
    encode_event,
    kind_of,
)
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_rerun import RerunPlugin
from proofstream_rerun.connections import parse_connection
from proofstream_rerun.settings import Settings

TEXT = (Path(__file__).parents[3] / "docs" / "rerun.md").read_text("utf-8")

ORIGINAL_ENTITIES = {
    "circuit/nodes",
    "circuit/backbone",
    "circuit/edges",
    "gkr/walk/layer_{i}/node",
    "gkr/walk/layer_{i}/poly",
    "gkr/walk/layer_{i}/claim",
    "gkr/walk/layer_{i}/bar_{round}",
    "gkr/walk/cursor",
    "gkr/walk/progress_trail",
    "gkr/claim",
    "inference/layer_{i}/output",
    "inference/layer_{i}/attn_head_{h}",
    "inference/stats/layer_{i}/mean",
    "inference/stats/layer_{i}/std",
    "gpu/cluster",
    "gpu/device_{d}/util",
    "gpu/device_{d}/free_gb",
    "proof/progress",
    "proof/binding_ms",
    "logs/proof",
    "logs/gkr",
    "logs/weights",
    "logs/stark",
}


def table_of(heading: str) -> list[list[str]]:
    """Return the rows of the tables below a heading, split into cells."""
    section = re.split(r"^##+ ", TEXT.split(f"# {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    heads = {i for i, line in enumerate(lines) if line.startswith("|---")}
    rows = [line for i, line in enumerate(lines) if not heads & {i, i + 1}]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def paths_in(cell: str) -> list[str]:
    """Return the entity paths that a cell names."""
    return [word for word in re.findall(r"`([^`]+)`", cell) if re.fullmatch(r"[a-z_]+(/[a-z0-9_{}]+)+", word)]


def matches(documented: str, path: str) -> bool:
    """Return whether a path matches a documented one, in which `{...}` stands for any word."""
    pattern = "".join(
        "[^/]+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", documented)
    )
    return re.fullmatch("/" + pattern, path) is not None


@pytest.fixture(scope="module")
def entities(wire_data: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The entities of a proof with every kind of event, and of an aborted one without a circuit."""
    folder = tmp_path_factory.mktemp("docs")
    streams: list[Sequence[ProofEvent | Decoded]] = [
        everything(wire_data),
        an_aborted_one(wire_data),
        half_observed(),
    ]
    for number, events in enumerate(streams):
        host = InlineHost(RerunPlugin(), {"connections": [f"file:{folder / str(number)}.rrd"]})
        host.feed(envelopes(events, session_id=str(number)))
        host.close()
    found = {one for path in folder.iterdir() for one in RrdReader(str(path)).store().schema().entity_paths()}
    return {one for one in found if one != "/" and not one.startswith("/__")}


def everything(wire_data: Path) -> list[ProofEvent]:
    """Return one proof with every kind of event."""
    events = [one.event for one in read_stream(wire_data / "serde-all-variants.jsonl")]
    kinds: dict[str, list[ProofEvent]] = {}
    for event in events:
        kinds.setdefault(kind_of(event), []).append(event)
    moved = [StateBytes(group="mamba.conv", kind="recurrent", states=2, bytes=64)]
    reading = GpuReading(id="GPU-1", index=0, state="ok", utilization=0.5, memory_used_bytes=2**30, power_w=300.0)
    return [
        *kinds["CircuitCompiled"],
        *kinds["LayerActivation"],
        *kinds["AttentionHeatmap"],
        kinds["ProofStart"][0],
        StateProgramCost(
            proof=0, circuit="m", convention="c", program="p", op="copy", recurrent_layers=2, bytes=64, states=moved
        ),
        GpuTelemetry(devices=[reading]),
        kinds["LayerStart"][0],
        *kinds["SumcheckRound"],
        *kinds["Log"],
        kinds["LayerEnd"][0],
        *(status(free) for free in (9 * 2**30, 8 * 2**30)),
        *(one for kind in ("WeightOpeningStart", "WeightOpeningEnd") for one in kinds[kind]),
        *(one for kind in ("AggregatedBindingStart", "AggregatedBindingEnd") for one in kinds[kind]),
        *(one for kind in ("StarkProofStart", "StarkProofEnd") for one in kinds[kind]),
        StateBytesMoved(
            circuit="m",
            convention="c",
            program="p",
            runs=1,
            sequences=1,
            bytes=64,
            states=moved,
            timed_bytes=0,
            timed_ns=0,
        ),
        *kinds["ProofComplete"],
    ]


def an_aborted_one(wire_data: Path) -> list[ProofEvent]:
    """Return the first events of a proof, a loss of events, and an abort."""
    events = [one.event for one in read_stream(wire_data / "smollm2-135m-cpu.jsonl")][:250]
    return [*events, EventsLost(where="intake", counts={"SumcheckRound": 3}), ProofAborted(reason="out of memory")]


def half_observed() -> list[ProofEvent | Decoded]:
    """Return a proof with a phase, whose layers' starts, ends or times were not observed."""
    started = LayerStart(
        layer_idx=0,
        kind=LayerKind.Add,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=None,
        gpu_device=None,
    )
    ended = LayerEnd(
        layer_idx=0, kind=LayerProofKind.Linear, final_claim_value_approx=None, duration_ms=0, rounds_completed=0
    )
    events: list[ProofEvent] = [replace(started, layer_idx=1), started, ended, PhaseStart(name="commit")]
    laid_out: list[ProofEvent] = [
        replace(started, layer_idx=2),
        replace(ended, layer_idx=2, duration_ms=1),
        replace(started, layer_idx=3),
    ]
    return [
        Decoded(event=event, raw=encode_event(event), time_source="reconstructed" if event in laid_out else None)
        for event in [*laid_out, replace(ended, layer_idx=3), *events, PhaseEnd(name="commit")]
    ]


def status(free: int) -> GpuStatus:
    """Return a producer's report of its GPU."""
    device = GpuSnapshot(device_id=0, device_name="gpu", utilization=0.7, free_memory_bytes=free)
    return GpuStatus(devices=[device], matmul_done=1, matmul_total=2, layers_done=1, layers_total=12)


def test_every_entity_is_documented_and_every_documented_one_is_there(entities: set[str]) -> None:
    documented = [path for row in table_of("All entities") for path in paths_in(row[0])]

    assert [path for path in documented if not any(matches(path, one) for one in entities)] == []
    assert [one for one in sorted(entities) if not any(matches(path, one) for path in documented)] == []


@pytest.mark.parametrize("heading", ["Entities", "Looks", "Sentences", "Around it"])
def test_what_the_original_drew_is_where_the_table_says(heading: str, entities: set[str]) -> None:
    rows = table_of(heading)

    assert rows
    for original, fate, now, why in rows:
        assert original
        assert fate in {"kept", "moved", "dropped"}, original
        assert why or fate == "kept", original
        assert now or fate == "dropped", original
        for path in paths_in(now):
            assert any(matches(path, one) for one in entities), path


def test_no_entity_of_the_original_is_left_out() -> None:
    assert {path for row in table_of("Entities") for path in paths_in(row[0])} == ORIGINAL_ENTITIES


def test_moved_and_kept_entities_have_a_path() -> None:
    for original, fate, now, _ in table_of("Entities"):
        assert bool(paths_in(now)) == (fate != "dropped"), original


def test_settings_and_defaults_are_those_of_the_table() -> None:
    documented = {row[0].strip("`"): row[1].strip("`") for row in table_of("Where recordings go to") if len(row) == 3}
    written = {(): "none", None: "the extra's", False: "false"}
    actual = {name: getattr(Settings(), name) for name in Settings.__struct_fields__}

    assert documented == {name: written.get(default, str(default)) for name, default in actual.items()}


def test_connections_in_the_table_can_be_read() -> None:
    forms = [
        form for row in table_of("Where recordings go to") if len(row) == 2 for form in re.findall(r"`(.+?)`", row[0])
    ]

    assert len(forms) >= 6
    for form in forms:
        parse_connection(form.replace("PORT", "9876").replace("HOST", "localhost").replace("PATH", "proof.rrd"))
