"""The vocabulary: every event a prover emits, as frozen values.

Names and fields are those of the producer's wire format (serde, externally tagged). Three rules hold for all of them:

- A field that the wire has is required, also when its value may be null.
- A field that proofstream adds defaults to ``UNSET`` and is then absent from the JSON.
- A floating point number may be None: a NaN or infinity has no JSON form, and producers write null for it. Constructors
  turn such values into None.

Building an event never raises on a wrong value type: it runs on the prover's thread. The bus checks the values later.
"""

from __future__ import annotations

import enum
from math import isfinite
from typing import Annotated, ClassVar, Self, TypeAlias

import msgspec
from msgspec.structs import force_setattr

U64: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""An unsigned 64-bit integer. The upper bound is checked in `wire`, since msgspec's own bounds end at 2^63 - 1."""

U32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""An unsigned 32-bit integer: a field limb or a sampled field element."""

Shape: TypeAlias = tuple[U64, U64]
"""Rows and columns."""

Float: TypeAlias = float | None
"""A finite number, or None where the producer had none to give."""

M31_PRIME = 2**31 - 1
"""The Mersenne prime that the prover's base field is built on."""


class _Word(enum.Enum):
    """Base of the vocabulary's word lists; each has a member `Unknown`."""

    @classmethod
    def _missing_(cls, value: object) -> Self:  # noqa: ARG003 - enum's signature
        return cls["Unknown"]


class LayerKind(_Word):
    """What a circuit layer computes. A word that is not listed decodes as `Unknown`."""

    MatMul = "MatMul"
    Activation = "Activation"
    LayerNorm = "LayerNorm"
    RMSNorm = "RMSNorm"
    Add = "Add"
    Mul = "Mul"
    Attention = "Attention"
    Embedding = "Embedding"
    Dequantize = "Dequantize"
    Quantize = "Quantize"
    Input = "Input"
    Unknown = "Unknown"

    @property
    def color_rgb(self) -> tuple[int, int, int]:
        """The layer's colour in pictures, as red, green and blue from 0 to 255."""
        return _LAYER_COLORS[self]


_LAYER_COLORS: dict[LayerKind, tuple[int, int, int]] = {
    LayerKind.MatMul: (0x42, 0x9B, 0xF5),
    LayerKind.Activation: (0xF5, 0xA5, 0x42),
    LayerKind.LayerNorm: (0x4C, 0xC6, 0x71),
    LayerKind.RMSNorm: (0x38, 0xB2, 0xAC),
    LayerKind.Add: (0xA0, 0xA0, 0xA0),
    LayerKind.Mul: (0xA8, 0x55, 0xD4),
    LayerKind.Attention: (0xF5, 0xD0, 0x42),
    LayerKind.Embedding: (0xEC, 0x6E, 0xAD),
    LayerKind.Dequantize: (0xFF, 0x8C, 0x00),
    LayerKind.Quantize: (0xFF, 0x4C, 0x4C),
    LayerKind.Input: (0x80, 0x80, 0xFF),
    LayerKind.Unknown: (0x60, 0x60, 0x60),
}


class LayerProofKind(_Word):
    """How a layer was proved. A word that is not listed decodes as `Unknown`."""

    Sumcheck = "Sumcheck"
    LogUp = "LogUp"
    Linear = "Linear"
    Skipped = "Skipped"
    Deferred = "Deferred"
    Unknown = "Unknown"


class LogLevel(_Word):
    """Severity of a `Log` event. A word that is not listed decodes as `Unknown`."""

    Trace = "Trace"
    Debug = "Debug"
    Info = "Info"
    Warn = "Warn"
    Error = "Error"
    Unknown = "Unknown"


class SecureField(msgspec.Struct, frozen=True, gc=False):
    """An element of QM31, the degree-4 extension of the Mersenne-31 field: (a + b*i) + (c + d*i)*j.

    Attributes:
        a: First limb; the base-field part.
        b: Second limb.
        c: Third limb.
        d: Fourth limb.
    """

    a: U32
    b: U32
    c: U32
    d: U32

    def as_f32(self) -> float:
        """The first limb scaled into [0, 1], for plots only: a field element has no magnitude."""
        return self.a / M31_PRIME


class RoundPoly(msgspec.Struct, frozen=True, gc=False):
    """A degree-2 round polynomial by its coefficients: c0 + c1*x + c2*x^2."""

    c0: SecureField
    c1: SecureField
    c2: SecureField


class RoundPolyDeg3(msgspec.Struct, frozen=True, gc=False):
    """A degree-3 round polynomial by its coefficients: c0 + c1*x + c2*x^2 + c3*x^3."""

    c0: SecureField
    c1: SecureField
    c2: SecureField
    c3: SecureField


class CircuitNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One layer of the circuit's DAG; `input_layers` are the indices of its predecessors."""

    layer_idx: U64
    node_id: U64
    kind: LayerKind
    input_shape: Shape
    output_shape: Shape
    trace_cost: U64
    input_layers: list[U64]


class _WithFloats(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of values with floating point fields: what is not finite becomes None."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not isfinite(value):
                force_setattr(self, name, None)


class GpuSnapshot(_WithFloats, frozen=True, kw_only=True, gc=False):
    """One device as the prover reports it; `utilization` is from 0 to 1, `free_memory_bytes` None if unknown."""

    device_id: U64
    device_name: str
    utilization: Float
    free_memory_bytes: U64 | None


class GpuReading(_WithFloats, frozen=True, kw_only=True, gc=False):
    """One GPU, or one MIG instance of a GPU, at one moment.

    Every figure is measured: it is what the driver answered. None means that it gave no usable answer, never zero.

    Attributes:
        id: The driver's UUID as it writes it, `GPU-...` or `MIG-...`.
        parent_id: The UUID of the GPU that a MIG instance is a part of; None for a whole GPU. What is the whole
            GPU's, as power is, is None on its parts.
        index: The GPU's number on this machine; for a MIG instance its number within the GPU.
        name: The product's name, for a MIG instance with its profile.
        vendor: Who made it.
        driver_version: The driver's version.
        state: `ok`, `degraded` (some figures failed that this device has) or `lost` (it does not answer any more; the
            figures are None from here on).
        utilization: Share of the last sampling period in which a kernel ran, from 0 to 1.
        memory_controller_utilization: Share of that period in which memory was read or written, from 0 to 1. Not how
            full the memory is.
        memory_used_bytes: Memory that programs hold. With `memory_source` v1 the driver's own part is in it.
        memory_reserved_bytes: Memory that the driver holds for itself; None with `memory_source` v1.
        memory_total_bytes: All memory.
        memory_source: `v1` or `v2`, the version of the query that gave the memory figures.
        power_w: Draw in watts.
        energy_j: Energy since the driver was loaded, in joules.
        temperature_celsius: Of the chip.
        errors_corrected: Memory errors that ECC corrected since the driver was loaded.
        errors_uncorrected: Memory errors that ECC could not correct since the driver was loaded.
        errors_xid: Critical errors (XID) that the driver has signalled since sampling began.
        pcie_tx_bytes_per_s: PCIe throughput from the GPU.
        pcie_rx_bytes_per_s: PCIe throughput to the GPU.
        clock_sm_mhz: Clock of the multiprocessors.
        clock_memory_mhz: Clock of the memory.
        throttle_reasons: Why the clocks are held below their maximum, in words such as `sw_power_cap`; empty if they
            are not held; None if the driver does not say.
        unsupported: Which of the figures above the driver says that this device does not have.
    """

    id: str
    parent_id: str | None = None
    index: U64 | None = None
    name: str | None = None
    vendor: str | None = None
    driver_version: str | None = None
    state: str
    utilization: Float = None
    memory_controller_utilization: Float = None
    memory_used_bytes: U64 | None = None
    memory_reserved_bytes: U64 | None = None
    memory_total_bytes: U64 | None = None
    memory_source: str | None = None
    power_w: Float = None
    energy_j: Float = None
    temperature_celsius: Float = None
    errors_corrected: U64 | None = None
    errors_uncorrected: U64 | None = None
    errors_xid: U64 | None = None
    pcie_tx_bytes_per_s: Float = None
    pcie_rx_bytes_per_s: Float = None
    clock_sm_mhz: Float = None
    clock_memory_mhz: Float = None
    throttle_reasons: list[str] | None = None
    unsupported: list[str] = []


class ActivationStats(_WithFloats, frozen=True, kw_only=True, gc=False):
    """Statistics over all values of an activation tensor; `sparsity` is the fraction of zeros."""

    mean: Float
    std_dev: Float
    min: Float
    max: Float
    sparsity: Float


class StateDeclaration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One state that a model keeps between tokens: its recurrent state, one side of its KV cache, or a snapshot.

    Attributes:
        id: Unique within the model: `l4.mamba.conv`.
        kind: `recurrent`, `paged_kv` or one of the snapshot kinds.
        section: `main`, or `draft` for the model's own drafting head.
        format: A dtype's word (`f32`, `f16`, `bf16`, `fp8`), or `{key}` for one that is chosen when the model runs.
        elements: Elements of one unit: of one sequence's slot, or of one token of a KV side.
        local: The name within its block: `conv`.
        block: The name of the block that declares it: `mamba`.
        layer: The layer that the block stands in; absent outside of the layers.
        verify: Which intermediates a speculative verify keeps of it: `h_steps` or `conv_steps`.
        lifetime: `model`, `sequence`, `verify` or `snapshot`.
        of: Of a snapshot, the id of the state that it is taken of.
    """

    id: str
    kind: str
    section: str
    format: str
    elements: U64
    local: str | msgspec.UnsetType = msgspec.UNSET
    block: str | msgspec.UnsetType = msgspec.UNSET
    layer: U64 | msgspec.UnsetType = msgspec.UNSET
    verify: str | msgspec.UnsetType = msgspec.UNSET
    lifetime: str | msgspec.UnsetType = msgspec.UNSET
    of: str | msgspec.UnsetType = msgspec.UNSET


class StateBytes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a state program does to the states of one group: all that one block declares under one name.

    Attributes:
        group: Block and local name: `mamba.conv`.
        kind: The states' kind.
        states: How many there are, one for each layer that has the block.
        bytes: What is written of all of them.
    """

    group: str
    kind: str
    states: U64
    bytes: U64


class ProofEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all events. The class name is the event's kind, and its key on the wire.

    Attributes:
        bulk: Whether events of this kind are bulk data that a full lane may drop, rather than facts that others build
            on. A subclass sets it for its kind: ``bulk: ClassVar[bool] = True``.
    """

    bulk: ClassVar[bool] = False


class CircuitCompiled(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The layer DAG, once it is compiled from the model's computation graph."""

    total_layers: U64
    input_shape: Shape
    output_shape: Shape
    nodes: list[CircuitNode]
    has_simd: bool
    simd_num_blocks: U64
    states: list[StateDeclaration] | msgspec.UnsetType = msgspec.UNSET


class LayerActivation(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A sample of one layer's activation tensor with statistics; raw M31 values."""

    bulk: ClassVar[bool] = True
    layer_idx: U64
    node_id: U64
    kind: LayerKind
    output_shape: Shape
    output_sample: list[U32]
    stats: ActivationStats


class AttentionHeatmap(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The attention scores of one head, row-major and at most 64x64; `seq_len` is the sequence's true length."""

    bulk: ClassVar[bool] = True
    layer_idx: U64
    head_idx: U64
    num_heads: U64
    seq_len: U64
    scores: list[Float]

    def __post_init__(self) -> None:
        scores = self.scores
        if type(scores) is list and any(isinstance(s, float) and not isfinite(s) for s in scores):
            finite = [None if isinstance(s, float) and not isfinite(s) else s for s in scores]
            force_setattr(self, "scores", finite)


class ProofStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A proof begins; `num_layers` counts every layer of the circuit, also those that will not be proved one by one."""

    model_name: str | None
    backend: str
    num_layers: U64
    input_shape: Shape
    output_shape: Shape


class LayerStart(_WithFloats, ProofEvent, frozen=True, kw_only=True, gc=False):
    """The reduction of one layer begins. The walk goes from the last layer to the first."""

    layer_idx: U64
    kind: LayerKind
    input_shape: Shape
    output_shape: Shape
    trace_cost: U64
    claim_value_approx: Float
    gpu_device: U64 | None


class SumcheckRound(ProofEvent, frozen=True, kw_only=True, gc=False):
    """One round of a layer's sumcheck; `round` counts from 0. Exactly one polynomial is given, or none."""

    bulk: ClassVar[bool] = True
    layer_idx: U64
    round: U64
    total_rounds: U64
    poly_deg2: RoundPoly | None
    poly_deg3: RoundPolyDeg3 | None
    claim_value_approx: Float

    def __post_init__(self) -> None:
        # Written out, not inherited: rounds are the bulk of every stream.
        claim = self.claim_value_approx
        if isinstance(claim, float) and not isfinite(claim):
            force_setattr(self, "claim_value_approx", None)


class LayerEnd(_WithFloats, ProofEvent, frozen=True, kw_only=True, gc=False):
    """The reduction of one layer ended. `duration_ms` and `rounds_completed` are the producer's own figures."""

    layer_idx: U64
    kind: LayerProofKind
    final_claim_value_approx: Float
    duration_ms: U64
    rounds_completed: U64


class ProofComplete(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A proof ended well. `duration_ms` is the producer's own figure; some producers always write 0."""

    duration_ms: U64
    num_layer_proofs: U64
    num_weight_openings: U64
    weight_binding_mode: str


class WeightOpeningStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The opening of one weight commitment begins."""

    weight_node_id: U64
    eval_point_len: U64


class WeightOpeningEnd(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The opening of one weight commitment ended; `commitment_hex` is the commitment's first 8 bytes."""

    weight_node_id: U64
    duration_ms: U64
    commitment_hex: str


class AggregatedBindingStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The sumcheck that binds all weight claims at once begins."""

    num_claims: U64
    num_matrices: U64


class AggregatedBindingEnd(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The aggregated weight binding ended."""

    duration_ms: U64
    estimated_calldata_felts: U64


class GpuStatus(ProofEvent, frozen=True, kw_only=True, gc=False):
    """Devices and progress as the prover reports them. Its figures are reported, not measured: see docs/events.md."""

    bulk: ClassVar[bool] = True
    devices: list[GpuSnapshot]
    matmul_done: U64
    matmul_total: U64
    layers_done: U64
    layers_total: U64


class StarkProofStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The unified STARK over the layers that the walk does not prove begins."""

    num_activation_layers: U64
    num_add_layers: U64
    num_layernorm_layers: U64


class StarkProofEnd(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The unified STARK ended."""

    duration_ms: U64


class Log(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A line of text from the producer. A "lagged N events" line is how a WebSocket server says that it lost N."""

    bulk: ClassVar[bool] = True
    level: LogLevel
    message: str


PRODUCER_EVENTS: tuple[type[ProofEvent], ...] = (
    CircuitCompiled,
    LayerActivation,
    AttentionHeatmap,
    ProofStart,
    LayerStart,
    SumcheckRound,
    LayerEnd,
    ProofComplete,
    WeightOpeningStart,
    WeightOpeningEnd,
    AggregatedBindingStart,
    AggregatedBindingEnd,
    GpuStatus,
    StarkProofStart,
    StarkProofEnd,
    Log,
)
"""The sixteen variants of the producer's wire format."""


class SessionOpened(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A producer's flow begins.

    Attributes:
        source: Where it comes from, as shown to a person: a file's path, an address, a program's name.
        time_source: How event times came to be: `envelope` (the producer or a recording gave them), `arrival` (stamped
            on arrival) or `reconstructed` (laid out from reported durations).
        traceparent: The W3C trace context in force when the session was opened, or None.
        resource: Who runs the prover, as OpenTelemetry resource attributes.
    """

    source: str
    time_source: str
    traceparent: str | None
    resource: dict[str, str]


class SessionClosed(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A producer's flow ended.

    Attributes:
        outcome: `ended` (the flow came to its end), `lost` (it broke off) or `interrupted` (we were told to stop).
        reason: What is known about the end, or None.
        refused: How many lines or events could not be read.
    """

    outcome: str
    reason: str | None
    refused: U64


class ProofAborted(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The open proof ended without success: the producer's code raised, or said so."""

    reason: str


class EventsLost(ProofEvent, frozen=True, kw_only=True, gc=False):
    """Events are missing at this place of the stream.

    Attributes:
        where: `intake`, or `lane:NAME` for the plugin's own queue.
        counts: How many, by kind.
    """

    where: str
    counts: dict[str, U64]


class PluginHealth(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The condition of one plugin and of its lane.

    Attributes:
        plugin: The plugin's name.
        status: `starting`, `ready`, `idle`, `stalled`, `broken` or `failed`.
        reason: Why, where it is not ready; else None.
        depth: Events waiting in the lane.
        delivered: Events handed to the plugin so far.
        dropped: Events the lane could not hold, by kind.
        counters: What the plugin itself reports.
        lag_s: For how long the first event that the plugin is not done with has been in the lane.
        derives: The kinds that the plugin derives from a producer's events, as its class declares them.
    """

    plugin: str
    status: str
    reason: str | None
    depth: U64
    delivered: U64
    dropped: dict[str, U64]
    counters: dict[str, U64]
    lag_s: float
    derives: list[str] = []


class ReportLine(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A line that a plugin adds to the closing report. The envelope's origin names the plugin.

    Attributes:
        text: The line, as plain text.
    """

    text: str


class TraceStarted(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A proof has a trace now.

    Attributes:
        proof: The proof's ordinal within its session, from 0.
        trace_id: 32 lower-case hex digits.
        span_id: 16 lower-case hex digits, of the proof's span.
        sampled: Whether the trace is exported.
    """

    proof: U64
    trace_id: str
    span_id: str
    sampled: bool


class GpuTelemetry(ProofEvent, frozen=True, kw_only=True, gc=False):
    """What the GPUs of this machine do at one moment, taken from their driver. All figures are measured.

    Attributes:
        devices: One reading for each GPU and each MIG instance that is watched.
    """

    bulk: ClassVar[bool] = True
    devices: list[GpuReading]


class StateProgramCost(ProofEvent, frozen=True, kw_only=True, gc=False):
    """What one run of a state program writes for one sequence. All figures are derived from the states' declarations.

    Attributes:
        proof: The ordinal within its session of the proof that it was published for, from 0.
        circuit: The name of the state circuit.
        convention: Under which convention the states are counted.
        program: `verify_checkpoint`, `verify_rollback`, `commit_accepted`, `slot_zero`, ...
        op: `copy`, `zero` or `convert`.
        recurrent_layers: How many layers keep recurrent state.
        bytes: What is written, of all states.
        states: The same by group.
    """

    proof: U64
    circuit: str
    convention: str
    program: str
    op: str
    recurrent_layers: U64
    bytes: U64
    states: list[StateBytes]


class StateProgramRun(ProofEvent, frozen=True, kw_only=True, gc=False):
    """An inference engine ran a state program.

    Attributes:
        program: Which one.
        sequences: For how many sequences at once.
        duration_ns: How long it took, where the engine knows.
    """

    program: str
    sequences: U64
    duration_ns: U64 | msgspec.UnsetType = msgspec.UNSET


class StateBytesMoved(ProofEvent, frozen=True, kw_only=True, gc=False):
    """What runs of one state program wrote since the event before: counted runs, times derived bytes.

    Attributes:
        circuit: The name of the state circuit.
        convention: Under which convention the states are counted.
        program: Which program.
        runs: How many runs.
        sequences: Over all those runs.
        bytes: What they wrote, of all states.
        states: The same by group.
        timed_bytes: What those runs wrote of which the duration is known.
        timed_ns: How long these took.
    """

    circuit: str
    convention: str
    program: str
    runs: U64
    sequences: U64
    bytes: U64
    states: list[StateBytes]
    timed_bytes: U64
    timed_ns: U64


HOST_EVENTS: tuple[type[ProofEvent], ...] = (
    SessionOpened,
    SessionClosed,
    ProofAborted,
    EventsLost,
    PluginHealth,
    ReportLine,
    TraceStarted,
    GpuTelemetry,
    StateProgramCost,
    StateProgramRun,
    StateBytesMoved,
)
"""The variants that proofstream itself and its plugins add to the stream."""


class UnknownEvent(ProofEvent, frozen=True, kw_only=True, gc=False):
    """An event of a kind that nobody declared; its body is kept in the envelope's `raw`."""

    kind: str


def kind_of(event: ProofEvent) -> str:
    """The event's kind: its key on the wire."""
    return event.kind if isinstance(event, UnknownEvent) else type(event).__name__


def is_bulk(event_type: type[ProofEvent]) -> bool:
    """Return whether events of this type are bulk data."""
    # A type may have a field of this name, which the class shows as a descriptor.
    return event_type.bulk is True


def is_sheddable(event: ProofEvent) -> bool:
    """Return whether a full lane may drop the event: bulk data, except for warnings and errors in words."""
    if isinstance(event, Log):
        return event.level not in (LogLevel.Warn, LogLevel.Error)
    return is_bulk(type(event))
