"""Every name that this plugin exports, each written once. `docs/semantic-conventions.md` explains them."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

SCOPE: Final = "proofstream"
"""The instrumentation scope of all exported telemetry."""


class SpanName:
    """Names of spans.

    The name of a layer's span continues with the layer's kind, one of twelve; that of a phase with the phase's name.
    """

    SESSION: Final = "session"
    PROOF: Final = "proof"
    LAYER: Final = "layer"
    WEIGHT_OPENING: Final = "weight_opening"
    WEIGHT_BINDING: Final = "weight_binding"
    STARK_PROOF: Final = "stark_proof"
    PHASE: Final = "phase"
    BEFORE_LAYERS: Final = "before_layers"
    AFTER_LAYERS: Final = "after_layers"


class EventName:
    """Names of span events."""

    ROUND: Final = "proofstream.sumcheck.round"
    LOG: Final = "proofstream.log"
    ACTIVATION: Final = "proofstream.layer.activation"
    HEATMAP: Final = "proofstream.attention.heatmap"
    CIRCUIT: Final = "proofstream.circuit.compiled"
    EVENTS_LOST: Final = "proofstream.events_lost"
    ABORTED: Final = "proofstream.proof_aborted"
    PROGRESS: Final = "proofstream.phase.progress"
    STATE_COST: Final = "proofstream.state.program_cost"
    OTHER: Final = "proofstream.event"


class Attr:
    """Keys of the attributes of spans and span events."""

    SESSION_ID: Final = "proofstream.session.id"
    SESSION_SOURCE: Final = "proofstream.session.source"
    SESSION_OUTCOME: Final = "proofstream.session.outcome"
    SESSION_REASON: Final = "proofstream.session.reason"
    SESSION_REFUSED: Final = "proofstream.session.refused"
    SESSION_PROOFS: Final = "proofstream.session.proofs"
    SESSION_ABORTED: Final = "proofstream.session.aborted"
    SESSION_OVERLAPS: Final = "proofstream.session.overlaps"
    JOB_ID: Final = "proofstream.job.id"
    TIME_SOURCE: Final = "proofstream.time.source"
    TIME_RESOLUTION: Final = "proofstream.time.resolution"
    START_SEEN: Final = "proofstream.start_seen"
    START_SOURCE: Final = "proofstream.start.source"
    END_SEEN: Final = "proofstream.end_seen"
    END_AMBIGUOUS: Final = "proofstream.end_ambiguous"
    DURATION_SOURCE: Final = "proofstream.duration.source"
    SELF_TIME: Final = "proofstream.self_time"
    DERIVED: Final = "proofstream.derived"
    LOST_EVENTS: Final = "proofstream.lost_events"
    NOTES_DROPPED: Final = "proofstream.notes.dropped"
    EVENTS_MOVED: Final = "proofstream.events.moved"

    PROOF_ORDINAL: Final = "proofstream.proof.ordinal"
    PROOF_MODEL: Final = "proofstream.proof.model"
    PROOF_MODEL_SOURCE: Final = "proofstream.proof.model.source"
    PROOF_BACKEND: Final = "proofstream.proof.backend"
    PROOF_NUM_LAYERS: Final = "proofstream.proof.num_layers"
    PROOF_INPUT_SHAPE: Final = "proofstream.proof.input_shape"
    PROOF_OUTPUT_SHAPE: Final = "proofstream.proof.output_shape"
    PROOF_LAYERS_OPENED: Final = "proofstream.proof.layers_opened"
    PROOF_LAYERS_CLOSED: Final = "proofstream.proof.layers_closed"
    PROOF_REPORTED_DURATION: Final = "proofstream.proof.reported_duration_ms"
    PROOF_REPORTED_LAYER_PROOFS: Final = "proofstream.proof.reported_layer_proofs"
    PROOF_REPORTED_OPENINGS: Final = "proofstream.proof.reported_weight_openings"
    PROOF_REPORTED_BINDING: Final = "proofstream.proof.reported_weight_binding_mode"
    GPU_STATUS_COUNT: Final = "proofstream.gpu_status.count"
    GPU_STATUS_DEVICES: Final = "proofstream.gpu_status.devices"
    ABORTED_REASON: Final = "proofstream.aborted.reason"
    ABORTED_PHASE: Final = "proofstream.aborted.phase"
    ABORTED_SILENCE: Final = "proofstream.aborted.silence"
    ABORTED_LAYER: Final = "proofstream.aborted.layer"
    ABORTED_LAYER_KIND: Final = "proofstream.aborted.layer_kind"

    CIRCUIT_LAYERS: Final = "proofstream.circuit.total_layers"
    CIRCUIT_NODES: Final = "proofstream.circuit.nodes"
    CIRCUIT_INPUT_SHAPE: Final = "proofstream.circuit.input_shape"
    CIRCUIT_OUTPUT_SHAPE: Final = "proofstream.circuit.output_shape"
    CIRCUIT_HAS_SIMD: Final = "proofstream.circuit.has_simd"
    CIRCUIT_SIMD_BLOCKS: Final = "proofstream.circuit.simd_num_blocks"
    CIRCUIT_TRACE_COST: Final = "proofstream.circuit.trace_cost"

    LAYER_INDEX: Final = "proofstream.layer.index"
    LAYER_KIND: Final = "proofstream.layer.kind"
    LAYER_NODE_ID: Final = "proofstream.layer.node_id"
    LAYER_INPUT_SHAPE: Final = "proofstream.layer.input_shape"
    LAYER_OUTPUT_SHAPE: Final = "proofstream.layer.output_shape"
    LAYER_TRACE_COST: Final = "proofstream.layer.trace_cost"
    LAYER_CLAIM: Final = "proofstream.layer.claim"
    LAYER_GPU_DEVICE: Final = "proofstream.layer.gpu_device"
    LAYER_PROOF_KIND: Final = "proofstream.layer.proof_kind"
    LAYER_FINAL_CLAIM: Final = "proofstream.layer.final_claim"
    LAYER_REPORTED_DURATION: Final = "proofstream.layer.reported_duration_ms"
    LAYER_REPORTED_ROUNDS: Final = "proofstream.layer.reported_rounds"

    ROUNDS_TOTAL: Final = "proofstream.rounds.total"
    ROUNDS_RECORDED: Final = "proofstream.rounds.recorded"
    ROUNDS_DROPPED: Final = "proofstream.rounds.dropped"
    ROUNDS_UNPLACED: Final = "proofstream.rounds.unplaced"
    ROUNDS_ANNOUNCED: Final = "proofstream.rounds.announced"
    ROUND: Final = "proofstream.round.index"
    ROUND_TOTAL: Final = "proofstream.round.total"
    ROUND_DEGREE: Final = "proofstream.round.degree"
    ROUND_COEFFICIENTS: Final = "proofstream.round.coefficients"
    ROUND_CLAIM: Final = "proofstream.round.claim"

    PHASE_NAME: Final = "proofstream.phase.name"
    PHASE_NUMBER: Final = "proofstream.phase.number"
    PHASE_DONE: Final = "proofstream.phase.done"
    PHASE_TOTAL: Final = "proofstream.phase.total"
    PHASE_REPORTED_DURATION: Final = "proofstream.phase.reported_duration_ns"
    PHASE_AFTER_COMPLETE: Final = "proofstream.phase.after_complete"
    PHASE_ATTRIBUTE: Final = "proofstream.phase.attribute.<key>"
    PHASE_ATTRIBUTES_DROPPED: Final = "proofstream.phase.attributes_dropped"
    PROGRESS_UNPLACED: Final = "proofstream.phase.progress_unplaced"
    SUMMED_NAMES: Final = "proofstream.phase.summed.names"
    SUMMED_COUNTS: Final = "proofstream.phase.summed.counts"
    SUMMED_DURATIONS: Final = "proofstream.phase.summed.durations"
    SUMMED_LONGEST: Final = "proofstream.phase.summed.longest"

    WEIGHT_NODE_ID: Final = "proofstream.weight.node_id"
    WEIGHT_POINT_LEN: Final = "proofstream.weight.eval_point_len"
    WEIGHT_COMMITMENT: Final = "proofstream.weight.commitment"
    WEIGHT_REPORTED_DURATION: Final = "proofstream.weight.reported_duration_ms"
    BINDING_CLAIMS: Final = "proofstream.binding.num_claims"
    BINDING_MATRICES: Final = "proofstream.binding.num_matrices"
    BINDING_CALLDATA: Final = "proofstream.binding.estimated_calldata_felts"
    BINDING_REPORTED_DURATION: Final = "proofstream.binding.reported_duration_ms"
    STARK_ACTIVATIONS: Final = "proofstream.stark.num_activation_layers"
    STARK_ADDS: Final = "proofstream.stark.num_add_layers"
    STARK_LAYERNORMS: Final = "proofstream.stark.num_layernorm_layers"
    STARK_REPORTED_DURATION: Final = "proofstream.stark.reported_duration_ms"

    STATS_MEAN: Final = "proofstream.stats.mean"
    STATS_STD_DEV: Final = "proofstream.stats.std_dev"
    STATS_MIN: Final = "proofstream.stats.min"
    STATS_MAX: Final = "proofstream.stats.max"
    STATS_SPARSITY: Final = "proofstream.stats.sparsity"
    STATS_SAMPLE: Final = "proofstream.stats.sample_size"
    HEAD_INDEX: Final = "proofstream.attention.head"
    HEAD_COUNT: Final = "proofstream.attention.num_heads"
    SEQ_LEN: Final = "proofstream.attention.seq_len"

    LOG_LEVEL: Final = "proofstream.log.level"
    LOG_MESSAGE: Final = "proofstream.log.message"
    LOST_WHERE: Final = "proofstream.lost.where"
    LOST_COUNT: Final = "proofstream.lost.count"
    LOST_KINDS: Final = "proofstream.lost.kinds"
    EVENT_KIND: Final = "proofstream.event.kind"
    EVENT_ORIGIN: Final = "proofstream.event.origin"
    EVENT_BODY: Final = "proofstream.event.body"
    EVENT_TIME: Final = "proofstream.event.time_unix_nano"

    GPU_ENERGY: Final = "proofstream.gpu.energy"
    GPU_ENERGY_SOURCE: Final = "proofstream.gpu.energy_source"
    GPU_ENERGY_DEVICES: Final = "proofstream.gpu.energy_devices"
    GPU_ENERGY_MISSING: Final = "proofstream.gpu.energy_missing"
    GPU_ENERGY_CHOSEN_BY: Final = "proofstream.gpu.energy_chosen_by"
    GPU_ENERGY_SHARED: Final = "proofstream.gpu.energy_shared"
    GPU_PEAK_MEMORY: Final = "proofstream.gpu.peak_memory"
    GPU_MEAN_UTILIZATION: Final = "proofstream.gpu.mean_utilization"
    GPU_SAMPLES: Final = "proofstream.gpu.samples"

    STATE_CIRCUIT: Final = "proofstream.state.circuit"
    STATE_CONVENTION: Final = "proofstream.state.convention"
    STATE_RECURRENT_LAYERS: Final = "proofstream.state.recurrent_layers"
    STATE_PROGRAM_BYTES: Final = "proofstream.state.<program>.bytes"
    STATE_PROGRAM: Final = "proofstream.state.program"
    STATE_BYTES: Final = "proofstream.state.bytes"


def state_program_bytes(program: str) -> str:
    """Return the key of the attribute for a state program's bytes."""
    return Attr.STATE_PROGRAM_BYTES.replace("<program>", program)


def phase_attribute(key: str) -> str:
    """Return the key of the attribute for what a producer says of a phase under a key of its own."""
    return Attr.PHASE_ATTRIBUTE.replace("<key>", key)


class Label:
    """Keys of the attributes of metrics. Each has few values: never a layer's index, a proof's id or a round."""

    MODEL: Final = "proofstream.proof.model"
    BACKEND: Final = "proofstream.proof.backend"
    OUTCOME: Final = "proofstream.proof.outcome"
    PHASE: Final = "proofstream.proof.phase"
    PHASE_NAME: Final = "proofstream.phase.name"
    SLOT: Final = "proofstream.slot"
    LAYER_KIND: Final = "proofstream.layer.kind"
    PROOF_KIND: Final = "proofstream.layer.proof_kind"
    EVENT_KIND: Final = "proofstream.event.kind"
    WHERE: Final = "proofstream.lost.where"
    PLUGIN: Final = "proofstream.plugin"
    SIGNAL: Final = "proofstream.signal"
    DEVICE: Final = "proofstream.reported.device"

    HW_ID: Final = "hw.id"
    HW_TYPE: Final = "hw.type"
    HW_NAME: Final = "hw.name"
    HW_PARENT: Final = "hw.parent"
    HW_VENDOR: Final = "hw.vendor"
    HW_DRIVER: Final = "hw.driver_version"
    HW_STATE: Final = "hw.state"
    ERROR_TYPE: Final = "error.type"
    DIRECTION: Final = "network.io.direction"
    CLOCK: Final = "proofstream.gpu.clock.domain"
    THROTTLE: Final = "proofstream.gpu.throttle.reason"

    STATE_CIRCUIT: Final = "proofstream.state.circuit"
    STATE_CONVENTION: Final = "proofstream.state.convention"
    STATE_PROGRAM: Final = "proofstream.state.program"
    STATE_KIND: Final = "proofstream.state.kind"
    STATE_GROUP: Final = "proofstream.state.group"


class Instrument(enum.Enum):
    """A kind of metric; the value is its name in the documentation."""

    HISTOGRAM = "histogram"
    COUNTER = "counter"
    UP_DOWN_COUNTER = "updowncounter"
    GAUGE = "gauge"


class Metric(msgspec.Struct, frozen=True, cache_hash=True):
    """One metric.

    Attributes:
        name: Its name.
        unit: Its unit, in UCUM.
        instrument: Its kind.
        attributes: The keys that its series may have.
        summary: Its description, in one sentence.
        is_live: Whether it describes the present, so that a replayed recording does not fill it.
        is_counted_elsewhere: Whether a third party counts, such as a driver, and began before us.
    """

    name: str
    unit: str
    instrument: Instrument
    attributes: tuple[str, ...]
    summary: str
    is_live: bool = False
    is_counted_elsewhere: bool = False


_PROOF = (Label.MODEL, Label.BACKEND)
_ENDED = (*_PROOF, Label.OUTCOME)
_SLOT = (Label.SLOT, *_PROOF)
_GPU = (Label.HW_ID, Label.HW_NAME, Label.HW_PARENT, Label.HW_VENDOR, Label.HW_DRIVER)
_HARDWARE = (Label.HW_ID, Label.HW_NAME, Label.HW_PARENT, Label.HW_TYPE)
_LANE = (Label.PLUGIN,)
_STATE_PROGRAM = (Label.STATE_CIRCUIT, Label.STATE_CONVENTION, Label.STATE_PROGRAM)
_STATE_GROUP = (*_STATE_PROGRAM, Label.STATE_KIND, Label.STATE_GROUP)

DURATION_BUCKETS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0),
    *(120.0, 180.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 5400.0, 7200.0),
)
"""Upper bounds of all histograms: 1 ms to 2 h."""


class Metrics:
    """All metrics."""

    PROOF_DURATION: Final = Metric(
        "proofstream.proof.duration", "s", Instrument.HISTOGRAM, _ENDED, "How long proofs took."
    )
    PROOF_LAST_DURATION: Final = Metric(
        "proofstream.proof.last_duration", "s", Instrument.GAUGE, _ENDED, "How long the proof took that ended last."
    )
    PROOF_LAST_END: Final = Metric(
        "proofstream.proof.last_end_time", "s", Instrument.GAUGE, _ENDED, "When a proof ended last, as Unix time."
    )
    PROOFS: Final = Metric("proofstream.proofs", "{proof}", Instrument.COUNTER, _ENDED, "Proofs that ended.")
    PROOFS_RUNNING: Final = Metric(
        "proofstream.proofs.running", "{proof}", Instrument.UP_DOWN_COUNTER, _PROOF, "Proofs that are open.", True
    )
    PROOF_PROGRESS: Final = Metric(
        "proofstream.proof.progress",
        "1",
        Instrument.GAUGE,
        _SLOT,
        "Layers left behind over layers announced, of each running proof.",
        True,
    )
    PROOF_LAYERS_TOTAL: Final = Metric(
        "proofstream.proof.layers.total",
        "{layer}",
        Instrument.GAUGE,
        _SLOT,
        "Layers announced, of each running proof.",
        True,
    )
    PROOF_LAYERS_CLOSED: Final = Metric(
        "proofstream.proof.layers.closed",
        "{layer}",
        Instrument.GAUGE,
        _SLOT,
        "Layers left behind, of each running proof.",
        True,
    )
    PROOF_ELAPSED: Final = Metric(
        "proofstream.proof.elapsed", "s", Instrument.GAUGE, _SLOT, "How long each running proof has taken so far.", True
    )
    PROOF_SILENCE: Final = Metric(
        "proofstream.proof.silence",
        "s",
        Instrument.GAUGE,
        (*_SLOT, Label.PHASE),
        "Time since the last event of each running proof.",
        True,
    )
    PROOF_LONGEST_SILENCE: Final = Metric(
        "proofstream.proof.longest_silence",
        "s",
        Instrument.GAUGE,
        (*_PROOF, Label.PHASE),
        "Longest time without an event in the proof that completed last.",
        True,
    )
    PROOF_PHASE_DURATION: Final = Metric(
        "proofstream.proof.phase.duration",
        "s",
        Instrument.HISTOGRAM,
        (*_ENDED, Label.PHASE),
        "How long proofs took before, in and after their layers.",
    )
    PHASE_DURATION: Final = Metric(
        "proofstream.phase.duration",
        "s",
        Instrument.HISTOGRAM,
        (*_PROOF, Label.PHASE_NAME),
        "How long the phases took that the user has chosen.",
    )

    LAYER_DURATION: Final = Metric(
        "proofstream.layer.duration",
        "s",
        Instrument.HISTOGRAM,
        (*_PROOF, Label.LAYER_KIND, Label.PROOF_KIND),
        "How long layers took.",
    )
    ROUNDS: Final = Metric(
        "proofstream.rounds", "{round}", Instrument.COUNTER, (*_PROOF, Label.LAYER_KIND), "Sumcheck rounds."
    )
    WEIGHT_OPENING_DURATION: Final = Metric(
        "proofstream.weight_opening.duration", "s", Instrument.HISTOGRAM, _PROOF, "How long weight openings took."
    )
    WEIGHT_BINDING_DURATION: Final = Metric(
        "proofstream.weight_binding.duration", "s", Instrument.HISTOGRAM, _PROOF, "How long weight bindings took."
    )
    WEIGHT_BINDING_CALLDATA: Final = Metric(
        "proofstream.weight_binding.estimated_calldata",
        "{felt}",
        Instrument.GAUGE,
        _PROOF,
        "Estimated size of the calldata of the last weight binding, as the prover reports it.",
    )
    STARK_DURATION: Final = Metric(
        "proofstream.stark.duration", "s", Instrument.HISTOGRAM, _PROOF, "How long STARK proofs took."
    )

    EVENTS_RECEIVED: Final = Metric(
        "proofstream.events.received",
        "{event}",
        Instrument.COUNTER,
        (Label.EVENT_KIND,),
        "Events that provers sent and that reached this plugin.",
    )
    EVENTS_DROPPED: Final = Metric(
        "proofstream.events.dropped",
        "{event}",
        Instrument.COUNTER,
        (*_LANE, Label.EVENT_KIND),
        "Events that the queue of a plugin could not hold.",
    )
    EVENTS_REFUSED: Final = Metric(
        "proofstream.events.refused",
        "{event}",
        Instrument.COUNTER,
        (),
        "Lines or events that could not be read, counted when their session ends.",
    )
    EVENTS_LOST: Final = Metric(
        "proofstream.events.lost",
        "{event}",
        Instrument.COUNTER,
        (Label.WHERE, Label.EVENT_KIND),
        "Events that are missing before any plugin's queue.",
    )
    LANE_DEPTH: Final = Metric(
        "proofstream.lane.depth", "{event}", Instrument.GAUGE, _LANE, "Events that wait for a plugin."
    )
    LANE_LAG: Final = Metric(
        "proofstream.lane.lag", "s", Instrument.GAUGE, _LANE, "How long the first event has waited for a plugin."
    )
    PLUGIN_FAILURES: Final = Metric(
        "proofstream.plugin.failures", "{failure}", Instrument.COUNTER, _LANE, "Failures that disabled a plugin."
    )
    PLUGIN_READY: Final = Metric(
        "proofstream.plugin.ready", "1", Instrument.GAUGE, _LANE, "1 if a plugin works or has nothing to do, else 0."
    )
    OTLP_EXPORTED: Final = Metric(
        "proofstream.otlp.exported",
        "{item}",
        Instrument.COUNTER,
        (Label.SIGNAL,),
        "Spans, log records and data points that the receiver has acknowledged.",
    )
    OTLP_LOST: Final = Metric(
        "proofstream.otlp.lost",
        "{item}",
        Instrument.COUNTER,
        (Label.SIGNAL,),
        "Spans, log records and data points that could not be delivered.",
    )
    OTLP_FAILURES: Final = Metric(
        "proofstream.otlp.failures",
        "{request}",
        Instrument.COUNTER,
        (Label.SIGNAL,),
        "Attempts to export that failed.",
    )

    GPU_UTILIZATION: Final = Metric(
        "hw.gpu.utilization", "1", Instrument.GAUGE, _GPU, "Share of time in which a kernel ran.", True
    )
    GPU_MEMORY_USAGE: Final = Metric(
        "hw.gpu.memory.usage", "By", Instrument.UP_DOWN_COUNTER, _GPU, "Memory in use.", True
    )
    GPU_MEMORY_LIMIT: Final = Metric("hw.gpu.memory.limit", "By", Instrument.UP_DOWN_COUNTER, _GPU, "All memory.", True)
    GPU_MEMORY_UTILIZATION: Final = Metric(
        "hw.gpu.memory.utilization", "1", Instrument.GAUGE, _GPU, "Share of the memory in use.", True
    )
    POWER: Final = Metric("hw.power", "W", Instrument.GAUGE, _HARDWARE, "Power drawn.", True)
    TEMPERATURE: Final = Metric(
        "hw.temperature", "Cel", Instrument.GAUGE, (Label.HW_ID, Label.HW_NAME, Label.HW_PARENT), "Temperature.", True
    )
    ENERGY: Final = Metric(
        "hw.energy", "J", Instrument.COUNTER, _HARDWARE, "Energy since the driver was loaded.", True, True
    )
    ERRORS: Final = Metric(
        "hw.errors",
        "{error}",
        Instrument.COUNTER,
        (*_HARDWARE, Label.ERROR_TYPE),
        "Memory errors since the driver was loaded, and critical errors since sampling began.",
        True,
        True,
    )
    STATUS: Final = Metric(
        "hw.status",
        "1",
        Instrument.UP_DOWN_COUNTER,
        (*_HARDWARE, Label.HW_STATE),
        "1 for the state that the device is in, 0 for the others.",
        True,
    )
    GPU_MEMORY_CONTROLLER: Final = Metric(
        "proofstream.gpu.memory_controller.utilization",
        "1",
        Instrument.GAUGE,
        _GPU,
        "Share of time in which memory was read or written.",
        True,
    )
    GPU_PCIE: Final = Metric(
        "proofstream.gpu.pcie.throughput",
        "By/s",
        Instrument.GAUGE,
        (Label.HW_ID, Label.HW_NAME, Label.DIRECTION),
        "PCIe throughput, as the GPU sees it.",
        True,
    )
    GPU_CLOCK: Final = Metric(
        "proofstream.gpu.clock.frequency",
        "Hz",
        Instrument.GAUGE,
        (Label.HW_ID, Label.HW_NAME, Label.CLOCK),
        "Clocks.",
        True,
    )
    GPU_THROTTLED: Final = Metric(
        "proofstream.gpu.throttled",
        "1",
        Instrument.GAUGE,
        (Label.HW_ID, Label.HW_NAME, Label.THROTTLE),
        "1 while a reason holds the clocks down; 0 for one that did.",
        True,
    )

    REPORTED_UTILIZATION: Final = Metric(
        "proofstream.reported.gpu.utilization",
        "1",
        Instrument.GAUGE,
        (Label.DEVICE,),
        "A device's utilization as the prover reports it, unless it is the known placeholder.",
        True,
    )
    REPORTED_FREE_MEMORY: Final = Metric(
        "proofstream.reported.gpu.free_memory",
        "By",
        Instrument.GAUGE,
        (Label.DEVICE,),
        "A device's free memory as the prover reports it, unless it is the known placeholder.",
        True,
    )

    STATE_COST: Final = Metric(
        "proofstream.state.program.cost",
        "By",
        Instrument.GAUGE,
        _STATE_GROUP,
        "What one run of a state program writes for one sequence.",
    )
    STATE_RUNS: Final = Metric(
        "proofstream.state.program.runs",
        "{run}",
        Instrument.COUNTER,
        _STATE_PROGRAM,
        "Runs of state programs that an inference engine told of.",
    )
    STATE_SEQUENCES: Final = Metric(
        "proofstream.state.program.sequences",
        "{sequence}",
        Instrument.COUNTER,
        _STATE_PROGRAM,
        "Sequences that those runs were for, each counted once for every run.",
    )
    STATE_MOVED: Final = Metric(
        "proofstream.state.program.moved",
        "By",
        Instrument.COUNTER,
        _STATE_GROUP,
        "What those runs wrote.",
    )
    STATE_TIMED_MOVED: Final = Metric(
        "proofstream.state.program.timed_moved",
        "By",
        Instrument.COUNTER,
        _STATE_PROGRAM,
        "What those runs wrote of which the duration is known.",
    )
    STATE_TIME: Final = Metric(
        "proofstream.state.program.time",
        "s",
        Instrument.COUNTER,
        _STATE_PROGRAM,
        "How long the runs took of which the duration is known.",
    )
    STATE_BANDWIDTH: Final = Metric(
        "proofstream.state.program.bandwidth",
        "By/s",
        Instrument.GAUGE,
        _STATE_PROGRAM,
        "What the latest runs with a known duration wrote per second.",
    )


METRICS: Final[tuple[Metric, ...]] = tuple(value for value in vars(Metrics).values() if isinstance(value, Metric))
"""All metrics, in the order of the documentation."""
