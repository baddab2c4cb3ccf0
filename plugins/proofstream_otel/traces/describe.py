"""Turns events and intervals into attributes. The functions are pure; their results must still be made safe."""

from __future__ import annotations

import re
from typing import Any

from proofstream import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    AttentionHeatmap,
    CircuitCompiled,
    Envelope,
    EventsLost,
    GpuEnergy,
    GpuStatus,
    Interval,
    IntervalKind,
    LayerActivation,
    LayerEnd,
    LayerStart,
    Log,
    PhaseProgress,
    Proof,
    ProofAborted,
    ProofComplete,
    ProofStart,
    SessionClosed,
    SessionOpened,
    StarkProofEnd,
    StarkProofStart,
    StateProgramCost,
    WeightOpeningEnd,
    WeightOpeningStart,
    reported_duration_ms,
    reported_rounds,
)
from proofstream_otel.values.semconv import Attr, EventName, state_program_bytes

_PROGRAM = re.compile(r"[a-z][a-z0-9_]{0,63}")
_BODY_BYTES = 4096
_NS_PER_S = 1e9
_KNOWN = frozenset({"measured", "derived"})
"""The durations that are as long as their spans."""


def start_of(interval: Interval) -> dict[str, Any]:
    """Return the attributes that an interval has from its start."""
    match interval.kind:
        case IntervalKind.LAYER:
            return _start_of_layer(interval)
        case IntervalKind.WEIGHT_OPENING:
            return {Attr.WEIGHT_NODE_ID: interval.key, **_start_of_part(interval)}
        case _:
            return _start_of_part(interval)


def _start_of_layer(layer: Interval) -> dict[str, Any]:
    found: dict[str, Any] = {Attr.LAYER_INDEX: layer.key, Attr.LAYER_KIND: layer.layer_kind}
    event = layer.start_event
    if isinstance(event, LayerStart):
        found[Attr.LAYER_INPUT_SHAPE] = event.input_shape
        found[Attr.LAYER_OUTPUT_SHAPE] = event.output_shape
        found[Attr.LAYER_TRACE_COST] = event.trace_cost
        found[Attr.LAYER_CLAIM] = event.claim_value_approx
        found[Attr.LAYER_GPU_DEVICE] = event.gpu_device
    return found


def _start_of_part(interval: Interval) -> dict[str, Any]:
    match event := interval.start_event:
        case ProofStart():
            given = None if interval.opened is None else interval.opened.model_name
            return {
                Attr.PROOF_MODEL: event.model_name or given,
                Attr.PROOF_MODEL_SOURCE: None if event.model_name or not given else "user",
                Attr.PROOF_BACKEND: event.backend,
                Attr.PROOF_NUM_LAYERS: event.num_layers,
                Attr.PROOF_INPUT_SHAPE: event.input_shape,
                Attr.PROOF_OUTPUT_SHAPE: event.output_shape,
            }
        case WeightOpeningStart():
            return {Attr.WEIGHT_POINT_LEN: event.eval_point_len}
        case AggregatedBindingStart():
            return {Attr.BINDING_CLAIMS: event.num_claims, Attr.BINDING_MATRICES: event.num_matrices}
        case StarkProofStart():
            return {
                Attr.STARK_ACTIVATIONS: event.num_activation_layers,
                Attr.STARK_ADDS: event.num_add_layers,
                Attr.STARK_LAYERNORMS: event.num_layernorm_layers,
            }
        case _:
            return {}


def end_of(interval: Interval) -> dict[str, Any]:
    """Return the attributes that an interval's end event gives it, without known placeholders."""
    match event := interval.end_event:
        case LayerEnd():
            return {
                Attr.LAYER_PROOF_KIND: event.kind._value_,
                Attr.LAYER_FINAL_CLAIM: event.final_claim_value_approx,
                Attr.LAYER_REPORTED_DURATION: reported_duration_ms(interval),
                Attr.LAYER_REPORTED_ROUNDS: reported_rounds(interval),
            }
        case ProofComplete():
            return {
                Attr.PROOF_REPORTED_DURATION: reported_duration_ms(interval),
                Attr.PROOF_REPORTED_LAYER_PROOFS: event.num_layer_proofs,
                Attr.PROOF_REPORTED_OPENINGS: event.num_weight_openings,
                Attr.PROOF_REPORTED_BINDING: event.weight_binding_mode,
            }
        case WeightOpeningEnd():
            return {
                Attr.WEIGHT_REPORTED_DURATION: reported_duration_ms(interval),
                Attr.WEIGHT_COMMITMENT: event.commitment_hex,
            }
        case AggregatedBindingEnd():
            return {
                Attr.BINDING_REPORTED_DURATION: reported_duration_ms(interval),
                Attr.BINDING_CALLDATA: event.estimated_calldata_felts,
            }
        case StarkProofEnd():
            return {Attr.STARK_REPORTED_DURATION: reported_duration_ms(interval)}
        case _:
            return {}


def worth_of(duration_source: str | None) -> dict[str, Any]:
    """Return the worth of a duration, unless it was measured."""
    return {Attr.DURATION_SOURCE: None if duration_source == "measured" else duration_source}


def edges_of(interval: Interval, time_source: str) -> dict[str, Any]:
    """Return how far the start and the end of an interval can be trusted; `time_source` is its session's."""
    source = interval.start_source
    found: dict[str, Any] = {}
    if interval.opened is None:
        found[Attr.START_SEEN] = False
    if source != time_source:
        found[Attr.START_SOURCE] = source
    if interval.closed is None:
        found[Attr.END_SEEN] = False
    if isinstance(interval, Proof) and interval.end_ambiguous:
        found[Attr.END_AMBIGUOUS] = True
    worth = interval.duration_source
    if worth != "measured":
        found[Attr.DURATION_SOURCE] = worth
    return found


def self_time_of(interval: Interval) -> dict[str, Any]:
    """Return the time in which nothing inside an interval was open, if its events have times."""
    known = interval.duration_source in _KNOWN and interval.self_ns is not None
    return {Attr.SELF_TIME: (interval.self_ns or 0) / _NS_PER_S if known else None}


def counts_of(proof: Proof) -> dict[str, Any]:
    """Return the counts of a proof."""
    return {
        Attr.PROOF_LAYERS_OPENED: proof.layers_opened,
        Attr.PROOF_LAYERS_CLOSED: proof.layers_closed,
        Attr.ROUNDS_TOTAL: proof.rounds,
        Attr.ROUNDS_UNPLACED: proof.rounds_unplaced or None,
        Attr.LOST_EVENTS: proof.lost_events,
    }


def energy_of(energy: GpuEnergy | None) -> dict[str, Any]:
    """Return how much energy GPUs drew in an interval, and what that figure covers."""
    if energy is None:
        return {}
    return {
        Attr.GPU_ENERGY: energy.joules,
        Attr.GPU_ENERGY_SOURCE: energy.source,
        Attr.GPU_ENERGY_DEVICES: energy.devices,
        Attr.GPU_ENERGY_MISSING: energy.missing,
        Attr.GPU_ENERGY_CHOSEN_BY: energy.chosen_by,
        Attr.GPU_ENERGY_SHARED: energy.shared or None,
    }


def session_opened(event: SessionOpened) -> dict[str, Any]:
    """Return the origin of a session."""
    resolution_ns = event.time_resolution_ns
    return {
        Attr.SESSION_SOURCE: event.source,
        Attr.TIME_SOURCE: event.time_source,
        Attr.TIME_RESOLUTION: resolution_ns / 1e9 if isinstance(resolution_ns, int) else None,
    }


def session_closed(event: SessionClosed) -> dict[str, Any]:
    """Return how a session ended."""
    return {
        Attr.SESSION_OUTCOME: event.outcome,
        Attr.SESSION_REASON: event.reason,
        Attr.SESSION_REFUSED: event.refused,
    }


def note_of(envelope: Envelope) -> tuple[str, dict[str, Any]]:
    """Return name and attributes of the span event for an event that is neither a round nor a start or end."""
    match envelope.event:
        case LayerActivation() as activation:
            return EventName.ACTIVATION, _activation(activation)
        case AttentionHeatmap() as heatmap:
            return EventName.HEATMAP, _heatmap(heatmap)
        case CircuitCompiled() as circuit:
            return EventName.CIRCUIT, circuit_of(circuit)
        case StateProgramCost() as cost:
            return EventName.STATE_COST, _state_cost(cost)
        case _:
            return _news_of(envelope)


def _news_of(envelope: Envelope) -> tuple[str, dict[str, Any]]:
    match envelope.event:
        case Log() as log:
            return EventName.LOG, {Attr.LOG_LEVEL: log.level, Attr.LOG_MESSAGE: log.message}
        case PhaseProgress() as progress:
            return EventName.PROGRESS, {Attr.PHASE_DONE: progress.done, Attr.PHASE_TOTAL: progress.total}
        case EventsLost() as lost:
            return EventName.EVENTS_LOST, _lost(lost)
        case ProofAborted() as aborted:
            return EventName.ABORTED, {Attr.ABORTED_REASON: aborted.reason}
        case _:
            return EventName.OTHER, _other(envelope)


def circuit_of(event: CircuitCompiled) -> dict[str, Any]:
    """Describe a circuit in numbers; the trace cost is the sum over its nodes."""
    return {
        Attr.CIRCUIT_LAYERS: event.total_layers,
        Attr.CIRCUIT_NODES: len(event.nodes),
        Attr.CIRCUIT_INPUT_SHAPE: event.input_shape,
        Attr.CIRCUIT_OUTPUT_SHAPE: event.output_shape,
        Attr.CIRCUIT_HAS_SIMD: event.has_simd,
        Attr.CIRCUIT_SIMD_BLOCKS: event.simd_num_blocks,
        Attr.CIRCUIT_TRACE_COST: sum(node.trace_cost for node in event.nodes),
    }


def is_program(name: str) -> bool:
    """Return whether a state program's name can be part of a key."""
    return _PROGRAM.fullmatch(name) is not None


def state_cost_of(event: StateProgramCost) -> dict[str, Any]:
    """Return the attributes that a cost gives its proof: the bytes that one run writes for one sequence."""
    return {**_state_circuit(event), state_program_bytes(event.program): event.bytes}


def _state_cost(event: StateProgramCost) -> dict[str, Any]:
    return {
        Attr.PROOF_ORDINAL: event.proof,
        Attr.STATE_PROGRAM: event.program,
        **_state_circuit(event),
        Attr.STATE_BYTES: event.bytes,
    }


def _state_circuit(event: StateProgramCost) -> dict[str, Any]:
    return {
        Attr.STATE_CIRCUIT: event.circuit,
        Attr.STATE_CONVENTION: event.convention,
        Attr.STATE_RECURRENT_LAYERS: event.recurrent_layers,
    }


def device_names(event: GpuStatus, most: int) -> list[str]:
    """Return the names of a status's first devices."""
    return [device.device_name for device in event.devices[:most]]


def _activation(event: LayerActivation) -> dict[str, Any]:
    stats = event.stats
    return {
        Attr.LAYER_INDEX: event.layer_idx,
        Attr.LAYER_NODE_ID: event.node_id,
        Attr.LAYER_KIND: event.kind._value_,
        Attr.LAYER_OUTPUT_SHAPE: event.output_shape,
        Attr.STATS_SAMPLE: len(event.output_sample),
        Attr.STATS_MEAN: stats.mean,
        Attr.STATS_STD_DEV: stats.std_dev,
        Attr.STATS_MIN: stats.min,
        Attr.STATS_MAX: stats.max,
        Attr.STATS_SPARSITY: stats.sparsity,
    }


def _heatmap(event: AttentionHeatmap) -> dict[str, Any]:
    scores = [score for score in event.scores if score is not None]
    return {
        Attr.LAYER_INDEX: event.layer_idx,
        Attr.HEAD_INDEX: event.head_idx,
        Attr.HEAD_COUNT: event.num_heads,
        Attr.SEQ_LEN: event.seq_len,
        Attr.STATS_SAMPLE: len(scores),
        Attr.STATS_MEAN: sum(scores) / len(scores) if scores else None,
        Attr.STATS_MIN: min(scores, default=None),
        Attr.STATS_MAX: max(scores, default=None),
    }


def _lost(event: EventsLost) -> dict[str, Any]:
    kinds = [f"{kind}={count}" for kind, count in sorted(event.counts.items())]
    return {Attr.LOST_WHERE: event.where, Attr.LOST_COUNT: sum(event.counts.values()), Attr.LOST_KINDS: kinds}


def _other(envelope: Envelope) -> dict[str, Any]:
    return {
        Attr.EVENT_KIND: envelope.kind,
        Attr.EVENT_ORIGIN: envelope.origin,
        # Cut before decoding, because a line may be 16 MiB long.
        Attr.EVENT_BODY: envelope.raw[:_BODY_BYTES].decode("utf-8", "replace"),
    }
