"""A painter whose recordings are kept in memory, and events with few arguments, for tests of what is drawn."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from proofstream import (
    ActivationStats,
    CircuitCompiled,
    CircuitNode,
    Decoded,
    Envelope,
    LayerActivation,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SumcheckRound,
    encode_event,
)
from proofstream.testing import FixedClock
from proofstream_rerun.painter import WRITE_EVERY_S, Painter
from proofstream_rerun.sdk.recordings import Recording, Write

SHAPE = (1, 8)


class Settings:
    """Settings with the default application id."""

    application_id = "proofstream"


class Pages:
    """Outlets that record all calls.

    Attributes:
        recordings: All recordings that began, by their ids.
        calls: The names of all calls, by recording.
        rows: Rows by recording and entity: nanoseconds since the proof's start, seq, values by component.
        statics: How often static content of an entity was sent, by recording.
    """

    def __init__(self) -> None:
        self.recordings: dict[str, Recording] = {}
        self.calls: dict[str, list[str]] = defaultdict(list)
        self.rows: dict[str, dict[str, list[tuple[int, int, dict[str, Any]]]]] = defaultdict(lambda: defaultdict(list))
        self.statics: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.properties: dict[str, dict[str, Any]] = defaultdict(dict)

    def begin_recording(self, recording: Recording) -> None:
        assert recording.recording_id not in self.recordings
        self.recordings[recording.recording_id] = recording
        recording.blueprint()
        self.calls[recording.recording_id].append("begin")
        self.keep(recording.recording_id, recording.snapshot())

    def send_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        assert self.calls[recording_id][0] == "begin"
        assert "end" not in self.calls[recording_id]
        self.calls[recording_id].append("write")
        self.keep(recording_id, writes)

    def send_blueprint(self, recording_id: str) -> None:
        self.calls[recording_id].append("show")
        self.recordings[recording_id].blueprint()

    def end_recording(self, recording_id: str) -> None:
        self.calls[recording_id].append("end")

    def keep(self, recording_id: str, writes: Iterable[Any]) -> None:
        for write in writes:
            assert write.size_bytes > 0
            if hasattr(write, "columns"):
                self.rows[recording_id][write.path] += rows_of(write)
            elif hasattr(write, "path"):
                self.statics[recording_id][write.path] += 1
            else:
                self.properties[recording_id][write.name] = dict(write.values)

    # Called by tests

    def named(self, part: str) -> str:
        """Return the id of the one recording whose name contains `part`."""
        (found,) = (r.recording_id for r in self.recordings.values() if part in r.name)
        return found

    def values(self, recording_id: str, entity: str, component: str) -> list[Any]:
        """Return one component of an entity, row by row."""
        return [values.get(component) for _, _, values in self.rows[recording_id][entity]]

    def texts(self, recording_id: str, entity: str) -> list[str]:
        """Return the lines of a log or the texts of a document."""
        return [text for texts in self.values(recording_id, entity, "text") for text in texts]

    def states(self, recording_id: str, entity: str) -> list[str | None]:
        """Return the states of an entity in order."""
        return [state[0] if state else None for state in self.values(recording_id, entity, "state")]


def rows_of(write: Any) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the rows of a prepared call."""
    times = {time.timeline_name(): time.as_arrow_array().cast("int64").to_pylist() for time in write.times}
    columns = {
        column.component_descriptor().component.rpartition(":")[2]: column.as_arrow_array().to_pylist()
        for column in write.columns
    }
    for place, (prover_ns, seq) in enumerate(zip(times["prover_time"], times["event"], strict=True)):
        yield prover_ns, seq, {name: rows[place] for name, rows in columns.items()}


class Bench:
    """A painter with a fixed clock."""

    def __init__(self) -> None:
        self.pages = Pages()
        self.clock = FixedClock()
        self.painter = Painter(
            outlets=self.pages,
            settings=Settings(),
            log=logging.getLogger("proofstream.test"),
            clock=lambda: self.clock.now / 1e9,
        )

    def draw(self, stream: Iterable[Envelope], *, close: bool = True, batch: int = 512) -> Pages:
        waiting = list(stream)
        for start in range(0, len(waiting), batch):
            self.painter.consume(tuple(waiting[start : start + batch]))
        if close:
            self.painter.close()
        return self.pages

    def write(self) -> None:
        """Advance the clock until a write is due."""
        self.clock.advance(WRITE_EVERY_S * 1.01)
        self.painter.tick()


def proof_start(layers: int) -> ProofStart:
    return ProofStart(model_name="tiny", backend="cpu", num_layers=layers, input_shape=SHAPE, output_shape=SHAPE)


def layer_start(index: int, kind: LayerKind = LayerKind.MatMul, device: int | None = None) -> LayerStart:
    return LayerStart(
        layer_idx=index,
        kind=kind,
        input_shape=SHAPE,
        output_shape=SHAPE,
        trace_cost=64,
        claim_value_approx=0.5,
        gpu_device=device,
    )


def sumcheck_round(index: int, number: int, total: int = 3) -> SumcheckRound:
    return SumcheckRound(
        layer_idx=index, round=number, total_rounds=total, poly_deg2=None, poly_deg3=None, claim_value_approx=0.25
    )


def layer_end(index: int, kind: LayerProofKind = LayerProofKind.Sumcheck) -> LayerEnd:
    return LayerEnd(layer_idx=index, kind=kind, final_claim_value_approx=0.5, duration_ms=1, rounds_completed=0)


def proof_complete() -> ProofComplete:
    return ProofComplete(duration_ms=0, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="sequential")


def activation(index: int, values: int = 4) -> LayerActivation:
    stats = ActivationStats(mean=1.0, std_dev=2.0, min=None, max=4.0, sparsity=0.5)
    return LayerActivation(
        layer_idx=index,
        node_id=index,
        kind=LayerKind.MatMul,
        output_shape=SHAPE,
        output_sample=list(range(values)),
        stats=stats,
    )


def circuit(layers: int) -> CircuitCompiled:
    nodes = [
        CircuitNode(
            layer_idx=index,
            node_id=index,
            kind=LayerKind.Add if index % 2 else LayerKind.MatMul,
            input_shape=SHAPE,
            output_shape=SHAPE,
            trace_cost=2**index,
            input_layers=[index - 1] if index else [],
        )
        for index in range(layers)
    ]
    return CircuitCompiled(
        total_layers=layers, input_shape=SHAPE, output_shape=SHAPE, nodes=nodes, has_simd=False, simd_num_blocks=0
    )


def whole_layer(index: int, rounds: int = 3) -> list[ProofEvent]:
    return [layer_start(index), *(sumcheck_round(index, number, rounds) for number in range(rounds)), layer_end(index)]


def whole_proof(layers: int) -> list[ProofEvent]:
    walk = [event for index in reversed(range(layers)) for event in whole_layer(index)]
    return [proof_start(layers), *walk, proof_complete()]


def job(stream: Iterable[ProofEvent], name: str) -> list[Decoded]:
    return [Decoded(event=event, raw=encode_event(event), job_id=name) for event in stream]
