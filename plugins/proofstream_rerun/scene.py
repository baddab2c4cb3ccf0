"""The drawing of one recording: what each event changes on its canvas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from proofstream import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    AttentionHeatmap,
    CircuitCompiled,
    Envelope,
    EventsLost,
    GpuStatus,
    GpuTelemetry,
    Interval,
    IntervalKind,
    LayerActivation,
    LayerEnd,
    LayerProofKind,
    LayerStart,
    Log,
    PluginHealth,
    Proof,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StarkProofEnd,
    StarkProofStart,
    StateBytesMoved,
    StateProgramCost,
    SumcheckRound,
    TraceStarted,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream_rerun import layout, palette, texts
from proofstream_rerun.canvas import Canvas
from proofstream_rerun.circuit import CircuitView
from proofstream_rerun.costs import Costs
from proofstream_rerun.devices import Devices
from proofstream_rerun.inference import Inference
from proofstream_rerun.marks import PLAIN, Cleared, Document, Line, Look, Numbers, Points, State
from proofstream_rerun.palette import LayerState
from proofstream_rerun.walk import Walk

PropertyValue = str | int | float | bool

_KEPT_LINES = 256
_KEPT_NUMBERS = 1024
_KEPT_ROUNDS = 512
_GROWTH = 1.5

_PROGRESS = Look("steps", ("layers left behind / layers announced",), (palette.PROGRESS,))
_CLAIMS = Look("points", ("claim of a layer: first limb / p, no magnitude",), (palette.CLAIM,))
_ROUNDS = Look("points", ("claim of a round: first limb / p, no magnitude",), (palette.ROUND_CLAIM,))
_ABORT = Look("cursor")
_BINDING = Look("points", ("weight binding, ms (reported)",), (palette.SERIES_COLORS[1],))
_PARTS = {
    IntervalKind.WEIGHT_OPENING: ("lanes/parts/weight_openings", "opening", "logs/weights"),
    IntervalKind.WEIGHT_BINDING: ("lanes/parts/weight_binding", "binding", "logs/proof"),
    IntervalKind.STARK_PROOF: ("lanes/parts/stark", "proving", "logs/stark"),
}
_END_STATES = {LayerProofKind.Skipped: LayerState.SKIPPED, LayerProofKind.Deferred: LayerState.DEFERRED}


class Scene:
    """One recording: a proof, or what a session says outside of any.

    Args:
        proof: The proof; None for what belongs to none.
        started_ns: When it began, in nanoseconds since the epoch.
        facts: What is known of where it comes from, by name, for its document and properties.
    """

    def __init__(self, *, proof: Proof | None, started_ns: int, facts: Mapping[str, PropertyValue]) -> None:
        self.proof = proof
        self.canvas = Canvas(started_ns)
        self.properties: dict[str, Mapping[str, PropertyValue]] = {"proofstream": dict(facts)}
        self.grew: bool = False
        self.inference = Inference(self.canvas)
        self._devices = Devices(self.canvas)
        self._costs = Costs(self.canvas)
        self._parts_open: dict[IntervalKind, int] = {}
        self._progress: float | None = None
        self._latest_round: SumcheckRound | None = None
        self._walk_began = False
        self._burst_over = False
        self._undrawn_layers = 0
        self._is_ended = False
        self._lay_out(0 if proof is None else self._announced(proof))

    @property
    def layers(self) -> int:
        """Layers that there is room for."""
        return self.walk.grid.layers

    @property
    def has_circuit(self) -> bool:
        """Whether the producer sent the circuit."""
        return self.circuit.is_known

    @property
    def undrawn(self) -> int:
        """Marks that found no room."""
        parts = self.canvas.undrawn + self.inference.undrawn + self._costs.undrawn
        return parts + self.walk.undrawn_rounds + self._undrawn_layers

    # Proofs

    def begin(self, envelope: Envelope) -> None:
        """The proof begins."""
        self.canvas.move_to(envelope)
        event = envelope.event
        if isinstance(event, ProofStart):
            self._log("logs/proof", texts.proof_started(event), "INFO")
            self._undrawn_layers += max(0, event.num_layers - layout.MAX_LAYERS)
        else:
            self._log("logs/proof", "proof joined after its start", "WARN")
        self._show_progress()
        self._show_status()

    def end(self, proof: Proof, envelope: Envelope) -> None:
        """The proof ends."""
        self.canvas.move_to(envelope)
        self._is_ended = True
        self._rest(proof)
        if "gkr/cursor" in self.canvas.tracks:
            self.canvas.add("gkr/cursor", Cleared(), PLAIN)
        self._show_progress()
        if proof.aborted_reason is not None:
            self._log("logs/proof", texts.proof_aborted(proof), "ERROR")
            self._mark_abort(proof)
        elif isinstance(envelope.event, ProofComplete):
            self._log("logs/proof", texts.proof_completed(proof, envelope.event), "INFO")
        self._show_status()

    # Intervals inside

    def opened(self, interval: Interval, envelope: Envelope) -> None:
        """A layer, weight opening, weight binding or STARK begins."""
        self.canvas.move_to(envelope)
        if interval.kind is IntervalKind.LAYER:
            self._layer_opened(interval, envelope.event)
            return
        lane, word, log = _PARTS[interval.kind]
        count = self._parts_open[interval.kind] = self._parts_open.get(interval.kind, 0) + 1
        if count == 1:
            self.canvas.add(lane, State(word), PLAIN, keep=_KEPT_ROUNDS)
        match envelope.event:
            case WeightOpeningStart() as event:
                self._log(log, texts.opening_started(event), "INFO")
            case AggregatedBindingStart() as event:
                self._log(log, texts.binding_started(event), "INFO")
            case StarkProofStart() as event:
                self._log(log, texts.stark_started(event), "INFO")
            case _:
                pass

    def closed(self, interval: Interval, envelope: Envelope) -> None:
        """A layer, weight opening, weight binding or STARK ends."""
        self.canvas.move_to(envelope)
        if interval.kind is IntervalKind.LAYER:
            self._layer_closed(interval, envelope.event)
            return
        lane, _, log = _PARTS[interval.kind]
        count = self._parts_open[interval.kind] = self._parts_open.get(interval.kind, 1) - 1
        if count == 0:
            self.canvas.add(lane, State(None), PLAIN, keep=_KEPT_ROUNDS)
        match envelope.event if interval.end_seen else None:
            case WeightOpeningEnd() as event:
                self._log(log, texts.opening_ended(event), "INFO")
            case AggregatedBindingEnd() as event:
                self._log(log, texts.binding_ended(event), "INFO")
                self.canvas.add("proof/binding_ms", Numbers((float(event.duration_ms),)), _BINDING, keep=_KEPT_LINES)
            case StarkProofEnd() as event:
                self._log(log, texts.stark_ended(event), "INFO")
            case _:
                self._log(log, texts.part_left(interval), "ERROR" if interval.aborted_reason else "WARN")

    def noted(self, envelope: Envelope) -> None:
        """Something happens."""
        handler = self._noted.get(type(envelope.event))
        if handler is not None:
            self.canvas.move_to(envelope)
            handler(self, envelope.event)

    def measured(self, envelope: Envelope, event: GpuTelemetry) -> None:
        """Devices were measured."""
        self.canvas.move_to(envelope)
        self._devices.measure(event)

    def traced(self, event: TraceStarted) -> None:
        """The proof has a trace."""
        self.properties["trace"] = {
            "trace_id": texts.safe_text(event.trace_id, 32),
            "span_id": texts.safe_text(event.span_id, 16),
            "sampled": event.sampled,
        }
        self._show_status()

    def troubled(self, envelope: Envelope, event: PluginHealth) -> None:
        """A plugin does not work, or could not keep up."""
        self.canvas.move_to(envelope)
        self._log("logs/host", texts.plugin_trouble(event), "WARN")

    def catch_up(self) -> None:
        """Draw what waits for the next write."""
        if self.proof is not None:
            self._rest(self.proof)
        burst_over = self._is_ended or (self._walk_began and not self._burst_over)
        self._burst_over = burst_over or self._burst_over
        self.walk.catch_up()
        self.circuit.catch_up(at_end=self._is_ended)
        self.inference.catch_up(burst_over=burst_over or self.proof is None)
        self._costs.catch_up()
        if self._latest_round is not None:
            self.canvas.add("gkr/round", Document(texts.round_document(self._latest_round)), PLAIN)
            self._latest_round = None

    # Layers

    def _layer_opened(self, layer: Interval, event: ProofEvent) -> None:
        if layer.key is None or not self._has_room(layer.key):
            return
        if isinstance(event, LayerStart):
            self._walk_began = True
            self._leave_behind(layer)
            self.walk.start(layer.key, event.kind, event.trace_cost, event.gpu_device)
            self.circuit.name(layer.key, event.kind)
            self._log("logs/gkr", texts.layer_started(event), "DEBUG")
            self._show_claim(event.claim_value_approx)
            self._show_progress()
            if self.proof is not None:
                self.walk.point_at(self.proof.active_layers)

    def _leave_behind(self, layer: Interval) -> None:
        """Show that the layer that its device was at before has been left without an end."""
        for index in [*self.walk.proving]:
            other = None if layer.proof is None else layer.proof.open_layers.get(index)
            if other is not None and other is not layer and other.superseded_unix_nano is not None:
                self.walk.leave(index)

    def _layer_closed(self, layer: Interval, event: ProofEvent) -> None:
        if layer.key is None or not self._has_room(layer.key):
            return
        if layer.end_seen and isinstance(event, LayerEnd):
            self._log("logs/gkr", texts.layer_ended(layer, event), "INFO")
            self._show_claim(event.final_claim_value_approx)
            state = _END_STATES.get(event.kind, LayerState.PROVED)
        else:
            state = LayerState.ABORTED if layer.aborted_reason is not None else LayerState.END_NOT_SEEN
            self._log("logs/gkr", texts.layer_left(layer), "ERROR" if layer.aborted_reason is not None else "WARN")
        self.walk.end(layer.key, state)
        self._show_progress()

    def _round(self, event: SumcheckRound) -> None:
        if self._has_room(event.layer_idx):
            self.walk.round(event.layer_idx, event.round, event.total_rounds)
            self.canvas.add("gkr/rounds", event, _ROUNDS, keep=_KEPT_ROUNDS)
            self._latest_round = event

    def _rest(self, proof: Proof) -> None:
        active = proof.active_layers
        self.walk.point_at(active)
        self.walk.rest(active)

    # What is noted

    def _log_line(self, event: Log) -> None:
        self._log("logs/proof", texts.safe_text(event.message), palette.LEVELS[event.level])

    def _lost(self, event: EventsLost) -> None:
        self._log("logs/host", texts.events_lost(event), "WARN")

    def _circuit(self, event: CircuitCompiled) -> None:
        if not self.circuit.is_known:
            self._lay_out(max(self.layers, _layers_of(event)), event)

    def _activation(self, event: LayerActivation) -> None:
        self.inference.activation(event)

    def _attention(self, event: AttentionHeatmap) -> None:
        self.inference.attention(event)

    def _gpu_status(self, event: GpuStatus) -> None:
        self._devices.report(event)

    def _cost(self, event: StateProgramCost) -> None:
        self._costs.cost(event)

    def _moved(self, event: StateBytesMoved) -> None:
        self._costs.moved(event)

    _noted: ClassVar[Mapping[type[ProofEvent], Callable[[Scene, Any], None]]] = {
        SumcheckRound: _round,
        Log: _log_line,
        EventsLost: _lost,
        CircuitCompiled: _circuit,
        LayerActivation: _activation,
        AttentionHeatmap: _attention,
        GpuStatus: _gpu_status,
        StateProgramCost: _cost,
        StateBytesMoved: _moved,
    }

    # How it is drawn

    def _announced(self, proof: Proof) -> int:
        circuit = 0 if proof.circuit is None else _layers_of(proof.circuit)
        return min(layout.MAX_LAYERS, max(circuit, proof.num_layers or 0))

    def _has_room(self, index: int) -> bool:
        """Whether there is room for that layer; room is made within bounds."""
        if index < self.walk.grid.layers:
            return True
        if index >= layout.MAX_LAYERS:
            self._undrawn_layers += 1
            return False
        self._lay_out(min(layout.MAX_LAYERS, max(index + 1, math.ceil(self.layers * _GROWTH))))
        return True

    def _lay_out(self, layers: int, circuit: CircuitCompiled | None = None) -> None:
        """Begin the drawing of the layers, or begin it anew in another size."""
        if circuit is None and self.proof is not None:
            circuit = self.proof.circuit
        before = getattr(self, "walk", None)
        grid = layout.Grid(layers)
        if before is not None:
            before.erase()
        self.circuit: CircuitView = CircuitView(self.canvas, grid, circuit)
        self.walk: Walk = Walk(self.canvas, grid, known=circuit is not None)
        if before is not None:
            self.walk.restart(before)
            for index, layer in self.walk.layers.items():
                self.circuit.name(index, layer.kind)
        self.grew = True

    def _show_progress(self) -> None:
        progress = None if self.proof is None else self.proof.progress
        if progress is not None and progress != self._progress:
            self._progress = progress
            self.canvas.add("proof/progress", Numbers((progress,)), _PROGRESS, keep=_KEPT_NUMBERS)

    def _show_claim(self, value: float | None) -> None:
        number = math.nan if value is None else value
        self.canvas.add("gkr/claims", Numbers((number,)), _CLAIMS, keep=_KEPT_NUMBERS)

    def _show_status(self) -> None:
        facts = {name: value for values in self.properties.values() for name, value in values.items()}
        self.canvas.add("proof/status", Document(texts.status(self.proof, facts)), PLAIN)

    def _mark_abort(self, proof: Proof) -> None:
        layer = proof.last_layer
        index = None if layer is None else layer.key
        if index is None or index >= self.layers:
            return
        kind, cost = self.walk.look_of(index)
        label = f"aborted{texts.last_place(proof)}: {texts.safe_text(proof.aborted_reason or '', 120)}"
        place = self.walk.grid.at(index, layout.above(kind, cost))
        self.canvas.add("gkr/aborted", Points((place,), (label,), palette.ABORTED), _ABORT)

    def _log(self, path: str, text: str, level: str) -> None:
        self.canvas.add(path, Line(text, level), PLAIN, keep=_KEPT_LINES)


def _layers_of(circuit: CircuitCompiled) -> int:
    """How many places a circuit takes."""
    highest = max((node.layer_idx for node in circuit.nodes), default=-1)
    return min(layout.MAX_LAYERS, max(circuit.total_layers, highest + 1))
