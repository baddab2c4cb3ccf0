"""The scene of one recording: how each event changes its canvas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from proofstream import (
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
    Phase,
    PluginHealth,
    Proof,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StateBytesMoved,
    StateProgramCost,
    SumcheckRound,
    TraceStarted,
    reported_claim,
    safe_text,
)
from proofstream_rerun.picture import layout, palette, texts
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.marks import PLAIN, Cleared, Document, Look, Numbers, Points, PropertyValue
from proofstream_rerun.picture.palette import LayerState
from proofstream_rerun.scene.device_plots import DevicePlots
from proofstream_rerun.scene.growing_grid import GrowingGrid
from proofstream_rerun.scene.inference import AttentionRoom, Inference
from proofstream_rerun.scene.layer_times import LayerTimes
from proofstream_rerun.scene.phase_lanes import PhaseLanes
from proofstream_rerun.scene.proof_lane import ProofLane
from proofstream_rerun.scene.state_costs import StateCostDrawing
from proofstream_rerun.scene.weights_and_stark import WeightsAndStark

_KEPT_NUMBERS = 1024
_KEPT_ROUNDS = 512

_PROGRESS = Look("steps", ("layers done / layers announced",), (palette.PROGRESS,))
_CLAIMS = Look("points", ("claim of a layer, as reported: first limb / p",), (palette.CLAIM,))
_ROUNDS = Look("points", ("claim of a round, p(0) + p(1): first limb / p",), (palette.ROUND_CLAIM,))
_TOPICS = ("inference/", "gpu/", "state/")
_ABORT = Look("cursor")
_END_STATES = {LayerProofKind.Skipped: LayerState.SKIPPED, LayerProofKind.Deferred: LayerState.DEFERRED}


NOTED: frozenset[type[ProofEvent]] = frozenset(
    {
        SumcheckRound,
        Log,
        EventsLost,
        CircuitCompiled,
        LayerActivation,
        AttentionHeatmap,
        GpuStatus,
        StateProgramCost,
        StateBytesMoved,
    }
)
"""Events that `Scene.draw_event` draws; it ignores all others."""


class Scene:
    """One recording: of a proof, or of a session's events outside any proof.

    Args:
        proof: The proof; None for events outside any proof.
        started_ns: When the recording began, in nanoseconds since the epoch.
        facts: Known facts about its origin, by name, for its document and properties.
        room: The room for attention, which all open recordings share.

    Attributes:
        proof: The proof, or None.
        canvas: The contents of the recording.
        grid: The circuit and the walk.
        properties: Facts about the whole recording, by property and name.
    """

    def __init__(
        self, *, proof: Proof | None, started_ns: int, facts: Mapping[str, PropertyValue], room: AttentionRoom
    ) -> None:
        self.proof = proof
        self.canvas = Canvas(started_ns)
        self.properties: dict[str, Mapping[str, PropertyValue]] = {"proofstream": dict(facts)}
        layers = None if proof is None else proof.num_layers
        self.grid = GrowingGrid(self.canvas, layers or 0, None if proof is None else proof.circuit)
        self._weights_and_stark = WeightsAndStark(self.canvas)
        self._inference = Inference(self.canvas, room)
        self._device_plots = DevicePlots(self.canvas)
        self._state_costs = StateCostDrawing(self.canvas)
        self._proof_lane = ProofLane(self.canvas)
        self._phase_lanes = PhaseLanes(self.canvas)
        self._layer_times = LayerTimes(self.canvas)
        self._progress: float | None = None
        self._latest_round: tuple[SumcheckRound, Interval | None] | None = None
        self._is_walking = False
        self._has_ended = False
        self._handlers: Mapping[type[ProofEvent], Callable[[Any], None]] = {
            SumcheckRound: self._round,
            Log: self._log,
            EventsLost: self._lost,
            CircuitCompiled: self.grid.show_circuit,
            LayerActivation: self._inference.add_activations,
            AttentionHeatmap: self._inference.add_attention_head,
            GpuStatus: self._device_plots.plot_status,
            StateProgramCost: self._state_costs.set_program_cost,
            StateBytesMoved: self._state_costs.add_bytes_moved,
        }

    @property
    def undrawn(self) -> int:
        """The number of marks that were dropped for lack of room."""
        stage = self.grid.undrawn + self.grid.walk.undrawn_rounds + self.grid.walk.undrawn_devices
        return (
            stage
            + self.canvas.undrawn
            + self._inference.undrawn
            + self._device_plots.undrawn
            + self._state_costs.undrawn
            + self._phase_lanes.undrawn
        )

    @property
    def topics(self) -> frozenset[str]:
        """The entity paths that decide about views: those of attention, and the beginnings of others."""
        topics: set[str] = set()
        for path in self.canvas.tracks:
            if path.startswith("inference/attention/"):
                topics.add(path)
            elif path.startswith(_TOPICS):
                topics.add("/".join(path.split("/", 2)[:2]))
        return frozenset(topics)

    # The proof

    def begin_proof(self, envelope: Envelope) -> None:
        """Draw the start of the proof."""
        self.canvas.move_to(envelope)
        if isinstance(envelope.event, ProofStart):
            name = envelope.event.model_name or envelope.model_name
            self.canvas.add_log_line("logs/proof", texts.proof_started(envelope.event, name), "INFO")
        else:
            self.canvas.add_log_line("logs/proof", "proof joined after its start", "WARN")
        if self.proof is not None:
            self._proof_lane.begin_proof(self.proof)
        self.grid.catch_up(at_end=False)
        self._show_progress()
        self._show_status()

    def begin_alone(self, envelope: Envelope) -> None:
        """Draw the start of a recording outside any proof."""
        self.canvas.move_to(envelope)
        self._show_status()

    def end_proof(self, proof: Proof, envelope: Envelope) -> None:
        """Draw the end of the proof."""
        self.canvas.move_to(envelope)
        self._has_ended = True
        self._show_rest(proof)
        if "gkr/cursor" in self.canvas.tracks:
            self.canvas.add_row("gkr/cursor", Cleared(), PLAIN)
        self._show_progress(at_end=True)
        self._proof_lane.end_proof(proof)
        if proof.aborted_reason is not None:
            self.canvas.add_log_line("logs/proof", texts.proof_aborted(proof), "ERROR")
            self._mark_abort(proof)
        elif isinstance(envelope.event, ProofComplete):
            self.canvas.add_log_line("logs/proof", texts.proof_completed(proof, envelope.event), "INFO")
        self._show_status()

    def finish(self) -> None:
        """Declare that no more events come, so that the next `catch_up` draws everything."""
        self._has_ended = True

    def give_room_back(self) -> None:
        """Give back the room that is shared with other recordings; nothing more is drawn."""
        self._inference.give_room_back()

    def set_trace(self, event: TraceStarted) -> None:
        """Set the proof's trace as a property, and show it in the status document."""
        self.properties["trace"] = {
            "trace_id": safe_text(event.trace_id, 32),
            "span_id": safe_text(event.span_id, 16),
            "sampled": event.sampled,
        }
        self._show_status()

    # Inside the proof

    def open_interval(self, interval: Interval, envelope: Envelope) -> None:
        """Draw the start of a layer, weight opening, weight binding, STARK proof or phase."""
        self.canvas.move_to(envelope)
        if isinstance(interval, Phase):
            self._phase_lanes.open_phase(interval)
        elif interval.kind is not IntervalKind.LAYER:
            self._weights_and_stark.open_interval(interval, envelope.event)
        elif isinstance(envelope.event, LayerStart) and self.grid.has_room(envelope.event.layer_idx):
            self._start_layer(interval, envelope.event)

    def close_interval(self, interval: Interval, envelope: Envelope) -> None:
        """Draw the end of a layer, weight opening, weight binding, STARK proof or phase."""
        self.canvas.move_to(envelope)
        if isinstance(interval, Phase):
            self._phase_lanes.close_phase(interval)
        elif interval.kind is not IntervalKind.LAYER:
            self._weights_and_stark.close_interval(interval, envelope.event)
        elif interval.key is not None and self.grid.has_room(interval.key):
            self._end_layer(interval.key, interval, envelope.event)

    def draw_event(self, envelope: Envelope) -> None:
        """Draw an event of one of the kinds in `NOTED`; ignore any other."""
        handler = self._handlers.get(type(envelope.event))
        if handler is not None:
            self.canvas.move_to(envelope)
            handler(envelope.event)

    def draw_rounds(self, layer: Interval, envelopes: Sequence[Envelope]) -> None:
        """Draw rounds of an open layer; the same as `draw_event` for each."""
        index = layer.key
        if index is None or index not in self.grid.walk.layers or self.grid.walk.shows_rounds:
            for envelope in envelopes:
                self.draw_event(envelope)
            return
        moments = self.canvas.move_through(envelopes)
        rounds = cast("list[SumcheckRound]", [envelope.event for envelope in envelopes])
        self.grid.walk.add_rounds(index, [event.round for event in rounds], [event.total_rounds for event in rounds])
        self._latest_round = rounds[-1], layer
        shown = [event if event.poly_deg2 is not None else _shown(event, layer) for event in rounds]
        self.canvas.add_rows("gkr/rounds", shown, moments, _ROUNDS, keep=_KEPT_ROUNDS)

    def draw_telemetry(self, envelope: Envelope, event: GpuTelemetry) -> None:
        """Plot measured figures of devices."""
        self.canvas.move_to(envelope)
        self._device_plots.plot_telemetry(event)

    def draw_plugin_trouble(self, envelope: Envelope, event: PluginHealth) -> None:
        """Log that a plugin is stalled, broken or failed, or that its lane dropped events."""
        self.canvas.move_to(envelope)
        self.canvas.add_log_line("logs/host", texts.plugin_trouble(event), "WARN")

    def catch_up(self) -> None:
        """Draw the changes that were put off until the next write."""
        if self.proof is not None:
            self._show_rest(self.proof)
        self.grid.catch_up(at_end=self._has_ended)
        self._inference.catch_up(is_walking=self._is_walking, at_end=self._has_ended)
        self._state_costs.catch_up()
        self._phase_lanes.catch_up()
        self._layer_times.catch_up(at_end=self._has_ended)
        self._show_round()

    # Layers

    def _start_layer(self, layer: Interval, event: LayerStart) -> None:
        if not self._is_walking:
            self._is_walking = True
            # Draw these now, not at the next write: a file is read in one go, and they would get the time of its end.
            self._inference.catch_up(is_walking=True, at_end=False)
            self._state_costs.catch_up()
        self._leave_behind(layer)
        self.grid.walk.start_layer(event)
        self.grid.circuit.set_kind(event.layer_idx, event.kind)
        self.canvas.add_log_line("logs/gkr", texts.layer_started(event), "DEBUG")
        self._show_claim(event.claim_value_approx)
        self._show_progress()
        if self.proof is not None:
            self._proof_lane.start_layer()
            self.grid.walk.point_at(self.proof.active_layers)

    def _leave_behind(self, layer: Interval) -> None:
        """Mark the layers that the walk has left: another one began on their device before their end was seen."""
        walk = self.grid.walk
        for index in [*walk.proving]:
            other = None if layer.proof is None else layer.proof.open_layers.get(index)
            if other is not None and other is not layer and other.superseded_unix_nano is not None:
                walk.leave_layer(index)

    def _end_layer(self, index: int, layer: Interval, event: ProofEvent) -> None:
        if layer.end_seen and isinstance(event, LayerEnd):
            self.canvas.add_log_line("logs/gkr", texts.layer_ended(layer, event), "INFO")
            self._show_claim(event.final_claim_value_approx)
            state = _END_STATES.get(event.kind, LayerState.PROVED)
        elif layer.aborted_reason is not None:
            self.canvas.add_log_line("logs/gkr", texts.layer_left(layer), "ERROR")
            state = LayerState.ABORTED
        else:
            self.canvas.add_log_line("logs/gkr", texts.layer_left(layer), "WARN")
            state = LayerState.END_NOT_SEEN
        self.grid.walk.end_layer(index, state)
        if layer.aborted_reason is None:
            kind = self.grid.walk.layer_at(index).kind
            self._layer_times.add_layer(index, kind, layer, layers=self.grid.layers)
        self._show_progress()
        if self.proof is not None:
            self._proof_lane.end_layer(self.proof, is_last=self._progress == 1.0)
            self.grid.walk.show_idle_devices(self.proof.active_layers)
        self._show_round()

    def _show_round(self) -> None:
        """Draw the latest round's document, unless that is done.

        Rounds come in thousands, so only the last one before a write, and the last one of each layer, get a document.
        """
        if self._latest_round is not None:
            shown = _without_placeholder(*self._latest_round)
            self.canvas.add_row("gkr/round", Document(texts.round_document(shown)), PLAIN)
            self._latest_round = None

    def _round(self, event: SumcheckRound) -> None:
        index = event.layer_idx
        if index not in self.grid.walk.layers and not self.grid.has_room(index):
            return
        self.grid.walk.add_rounds(index, [event.round], [event.total_rounds])
        layer = None if self.proof is None else self.proof.open_layers.get(index)
        self._latest_round = event, layer
        self.canvas.add_row("gkr/rounds", _shown(event, layer), _ROUNDS, keep=_KEPT_ROUNDS)

    # Text

    def _log(self, event: Log) -> None:
        self.canvas.add_log_line("logs/proof", safe_text(event.message, texts.MAX_TEXT), palette.LEVELS[event.level])

    def _lost(self, event: EventsLost) -> None:
        self.canvas.add_log_line("logs/host", texts.events_lost(event), "WARN")

    # Drawing

    def _show_rest(self, proof: Proof) -> None:
        active = proof.active_layers
        self.grid.walk.point_at(active)
        self.grid.walk.show_idle_devices(active)

    def _show_progress(self, *, at_end: bool = False) -> None:
        progress = None if self.proof is None else self.proof.progress
        if progress is None or (progress == self._progress and not at_end):
            return
        self._progress = progress
        # At the end once more, or the plot would end with the last layer, long before the proof.
        for moment in (self.canvas.now, self.canvas.beyond()) if at_end else (self.canvas.now,):
            self.canvas.add_row("proof/progress", Numbers((progress,)), _PROGRESS, keep=_KEPT_NUMBERS, moment=moment)

    def _show_claim(self, value: float | None) -> None:
        number = math.nan if value is None else value
        self.canvas.add_row("gkr/claims", Numbers((number,)), _CLAIMS, keep=_KEPT_NUMBERS)

    def _show_status(self) -> None:
        facts = {name: value for values in self.properties.values() for name, value in values.items()}
        status = texts.status(self.proof, facts, self._layer_times.slowest)
        self.canvas.add_row("proof/status", Document(status), PLAIN)

    def _mark_abort(self, proof: Proof) -> None:
        last = proof.aborted_layer or proof.last_layer
        if last is None or last.key is None or last.key >= self.grid.layers:
            return
        layer = self.grid.walk.layer_at(last.key)
        x, _, z = layer.place
        label = f"aborted {texts.last_place(proof)}: {safe_text(proof.aborted_reason or '', 120)}"
        points = Points([(x, layout.above(layer.cost), z)], [label], palette.ABORTED)
        self.canvas.add_row("gkr/aborted", points, _ABORT)


def _shown(event: SumcheckRound, layer: Interval | None) -> SumcheckRound:
    """Return the round as it is plotted.

    The polynomial gives the claim; without one, the producer's word for it is drawn, unless it is made up.
    """
    return _without_placeholder(event, layer) if event.poly_deg2 is None and event.poly_deg3 is None else event


def _without_placeholder(event: SumcheckRound, layer: Interval | None) -> SumcheckRound:
    """Return the round, without its claim if that is a known placeholder."""
    if event.claim_value_approx is None or reported_claim(event, layer) is not None:
        return event
    return replace(event, claim_value_approx=None)
