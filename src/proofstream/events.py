"""The vocabulary: every event that a prover emits, as a frozen value.

Names and fields are those of the producer's wire format (serde, externally tagged). Three rules apply to all events:

- A field of the wire format is required, unless its value may be null: then it may be left out, and is null.
- A field that proofstream adds to a producer's event defaults to ``UNSET``, and is then absent from the JSON. Events
  that proofstream adds for producers have fields that may be absent or null.
- A floating point number may be None. NaN and infinity have no JSON form, so producers write null for them, and
  constructors turn them into None.

Building an event never raises on a wrong value type, because it runs on the prover's thread. The bus checks the values
later.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, ClassVar, Self, TypeAlias, cast

import msgspec
from msgspec.structs import force_setattr

from proofstream.frozen import Frozen, FrozenDict

U64: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""An unsigned 64-bit integer. `wire` checks the upper bound, because msgspec's own bounds end at 2^63 - 1."""

U32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""An unsigned 32-bit integer: a field limb or a sampled field element."""

MAX_NAMES = 65_536
"""The most entries of a mapping by name; a line with more is refused. Names come from producers, and a line of 16 MiB
holds a million of them, which take ten times its size as a dict."""

ByName: TypeAlias = Annotated[Mapping[str, U64], msgspec.Meta(max_length=MAX_NAMES)]
"""Counts by name."""

Shape: TypeAlias = tuple[U64, U64]
"""Rows and columns."""

Float: TypeAlias = float | None
"""A finite number, or None if the producer gave none."""

M31_PRIME = 2**31 - 1
"""The Mersenne prime that the prover's base field is built on."""


class _Word(enum.Enum):
    """Base of the vocabulary's enumerations. Each has a member `Unknown`, which every unlisted word decodes as."""

    @classmethod
    def _missing_(cls, value: object) -> Self:  # noqa: ARG003 - enum's signature
        return cls["Unknown"]


class LayerKind(_Word):
    """The operation that a circuit layer computes. An unlisted word decodes as `Unknown`."""

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
    """How a layer was proved. An unlisted word decodes as `Unknown`."""

    Sumcheck = "Sumcheck"
    LogUp = "LogUp"
    Linear = "Linear"
    Skipped = "Skipped"
    Deferred = "Deferred"
    Unknown = "Unknown"


class LogLevel(_Word):
    """Severity of a `Log` event. An unlisted word decodes as `Unknown`."""

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
        """Return the first limb scaled into [0, 1]. For plots only: a field element has no magnitude."""
        return self.a / M31_PRIME


class RoundPoly(msgspec.Struct, frozen=True, gc=False):
    """A degree-2 round polynomial by its coefficients: c0 + c1*x + c2*x^2.

    Attributes:
        c0: The constant coefficient.
        c1: The coefficient of x.
        c2: The coefficient of x^2.
    """

    c0: SecureField
    c1: SecureField
    c2: SecureField


class RoundPolyDeg3(msgspec.Struct, frozen=True, gc=False):
    """A degree-3 round polynomial by its coefficients: c0 + c1*x + c2*x^2 + c3*x^3.

    Attributes:
        c0: The constant coefficient.
        c1: The coefficient of x.
        c2: The coefficient of x^2.
        c3: The coefficient of x^3.
    """

    c0: SecureField
    c1: SecureField
    c2: SecureField
    c3: SecureField


class CircuitNode(Frozen, frozen=True, kw_only=True, gc=False):
    """One layer of the circuit's DAG. `input_layers` are the indices of its predecessors.

    Attributes:
        layer_idx: The layer's place in the order of execution.
        node_id: Its node of the computation graph.
        kind: What it computes.
        input_shape: Rows and columns of its input.
        output_shape: Rows and columns of its output.
        trace_cost: The producer's estimate of its size, in cells of its trace.
        input_layers: The indices of its predecessors.
    """

    layer_idx: U64
    node_id: U64
    kind: LayerKind
    input_shape: Shape
    output_shape: Shape
    trace_cost: U64
    input_layers: Sequence[U64]


class _WithFloats(Frozen, frozen=True, kw_only=True, gc=False):
    """Base of values with floating point fields. Values that are not finite become None."""

    def __post_init__(self) -> None:
        for name in _float_fields(type(self)):
            value = getattr(self, name)
            if isinstance(value, float) and not isfinite(value):
                force_setattr(self, name, None)


@functools.cache
def _float_fields(event_type: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields that hold floating point numbers."""
    return tuple(field.name for field in msgspec.structs.fields(event_type) if field.type == Float)


class GpuSnapshot(_WithFloats, frozen=True, kw_only=True, gc=False):
    """One device as the prover reports it. `utilization` is from 0 to 1; `free_memory_bytes` is None if unknown.

    Attributes:
        device_id: The device's number.
        device_name: Its name.
        utilization: From 0 to 1.
        free_memory_bytes: Its free memory; None if unknown.
    """

    device_id: U64
    device_name: str
    utilization: Float = None
    free_memory_bytes: U64 | None = None


class GpuReading(_WithFloats, frozen=True, kw_only=True, gc=False):
    """One GPU, or one MIG instance of a GPU, at one moment.

    Every figure is measured: the driver's own answer. None means that the driver gave no usable answer, never zero.

    Attributes:
        id: The driver's UUID as it writes it, `GPU-...` or `MIG-...`.
        parent_id: The UUID of the GPU that a MIG instance is part of; None for a whole GPU. Figures of the whole GPU,
            such as power, are None on its parts.
        index: The GPU's number on this machine. For a MIG instance its number within the GPU.
        name: The product's name. For a MIG instance it includes the profile.
        vendor: The manufacturer.
        driver_version: The driver's version.
        state: `ok`, `degraded` (figures that this device has could not be read) or `lost` (the device no longer
            answers; all further figures are None).
        utilization: Share of the last sampling period in which a kernel ran, from 0 to 1.
        memory_controller_utilization: Share of that period in which memory was read or written, from 0 to 1. It does
            not say how full the memory is.
        memory_used_bytes: Memory that programs hold. With `memory_source` v1 it includes the driver's own part.
        memory_reserved_bytes: Memory that the driver holds for itself; None with `memory_source` v1.
        memory_total_bytes: All memory.
        memory_source: `v1` or `v2`, the version of the query that returned the memory figures.
        power_w: Power draw in watts.
        energy_j: Energy since the driver was loaded, in joules.
        temperature_celsius: Temperature of the chip.
        errors_corrected: Memory errors that ECC corrected since the driver was loaded.
        errors_uncorrected: Memory errors that ECC could not correct since the driver was loaded.
        errors_xid: Critical errors (XID) that the driver signalled since sampling began.
        pcie_tx_bytes_per_s: PCIe throughput from the GPU.
        pcie_rx_bytes_per_s: PCIe throughput to the GPU.
        clock_sm_mhz: Clock of the streaming multiprocessors.
        clock_memory_mhz: Clock of the memory.
        throttle_reasons: Why the clocks are held below their maximum, in words such as `sw_power_cap`. Empty if they
            are not; None if the driver does not say.
        unsupported: The figures above that, according to the driver, this device does not have.
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
    throttle_reasons: Sequence[str] | None = None
    unsupported: Sequence[str] = ()


class ActivationStats(_WithFloats, frozen=True, kw_only=True, gc=False):
    """Statistics over all values of an activation tensor. `sparsity` is the fraction of zeros.

    Attributes:
        mean: The mean.
        std_dev: The standard deviation.
        min: The smallest value.
        max: The largest value.
        sparsity: The fraction of zeros, from 0 to 1.
    """

    mean: Float = None
    std_dev: Float = None
    min: Float = None
    max: Float = None
    sparsity: Float = None


class StateDeclaration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One state that a model keeps between tokens: its recurrent state, one side of its KV cache, or a snapshot.

    Attributes:
        id: Unique within the model: `l4.mamba.conv`.
        kind: `recurrent`, `paged_kv` or one of the snapshot kinds.
        section: `main`, or `draft` for the model's own drafting head.
        format: A dtype (`f32`, `f16`, `bf16`, `fp8`), or `{key}` for one that is chosen when the model runs.
        elements: Elements of one unit: one sequence's slot, or one token of a KV side.
        local: The name within its block: `conv`.
        block: The name of the block that declares it: `mamba`.
        layer: The layer that contains the block. Absent for blocks outside the layers.
        verify: The intermediates of this state that a speculative verify keeps: `h_steps` or `conv_steps`.
        lifetime: `model`, `sequence`, `verify` or `snapshot`.
        of: For a snapshot, the id of the state that it copies.
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
    """Bytes that a state program writes to one group of states: those that one block declares under one name.

    Attributes:
        group: Block and local name: `mamba.conv`.
        kind: The states' kind.
        states: How many states, one for each layer that has the block.
        bytes: Bytes written, over all of them.
    """

    group: str
    kind: str
    states: U64
    bytes: U64


class ProofEvent(Frozen, frozen=True, kw_only=True, gc=False):
    """Base of all events. The class name is the event's kind, and its key on the wire.

    Attributes:
        bulk: True for bulk data, which a full lane may drop; False for facts that plugins build on. A subclass
            sets it for its kind: ``bulk: ClassVar[bool] = True``.
    """

    bulk: ClassVar[bool] = False


class CircuitCompiled(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The layer DAG, once it is compiled from the model's computation graph.

    Attributes:
        total_layers: Layers in the circuit.
        input_shape: Rows and columns of the circuit's input.
        output_shape: Rows and columns of its output.
        nodes: One for each layer.
        has_simd: Whether identical blocks are proved together.
        simd_num_blocks: How many such blocks there are.
        states: The states that the model keeps between tokens.
    """

    total_layers: U64
    input_shape: Shape
    output_shape: Shape
    nodes: Sequence[CircuitNode]
    has_simd: bool
    simd_num_blocks: U64
    states: Sequence[StateDeclaration] | msgspec.UnsetType = msgspec.UNSET


class LayerActivation(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A sample of one layer's activation tensor, in raw M31 values, with statistics over the whole tensor.

    Attributes:
        layer_idx: The layer's place in the order of execution.
        node_id: Its node of the computation graph, by which it is joined with the circuit.
        kind: What it computes.
        output_shape: Rows and columns of the tensor.
        output_sample: The tensor's first values.
        stats: Over all of its values.
    """

    bulk: ClassVar[bool] = True
    layer_idx: U64
    node_id: U64
    kind: LayerKind
    output_shape: Shape
    output_sample: Sequence[U32]
    stats: ActivationStats


class AttentionHeatmap(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The attention scores of one head, row-major and at most 64x64. `seq_len` is the sequence's true length.

    Attributes:
        layer_idx: The layer.
        head_idx: The head, from 0.
        num_heads: Heads in the layer.
        seq_len: The sequence's length.
        scores: Row by row.
    """

    bulk: ClassVar[bool] = True
    layer_idx: U64
    head_idx: U64
    num_heads: U64
    seq_len: U64
    scores: Sequence[Float]

    def __post_init__(self) -> None:
        given: object = self.scores
        if isinstance(given, list):
            scores = cast("list[object]", given)
            finite = (None if isinstance(score, float) and not isfinite(score) else score for score in scores)
            force_setattr(self, "scores", tuple(finite))


class ProofStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A proof begins. `num_layers` counts every layer of the circuit, including those not proved one by one.

    Attributes:
        model_name: The model; None if the prover gives it no name.
        backend: What proves, such as `cpu-gkr`.
        num_layers: Every layer of the circuit, including those not proved one by one.
        input_shape: Rows and columns of the model's input.
        output_shape: Rows and columns of its output.
    """

    model_name: str | None = None
    backend: str
    num_layers: U64
    input_shape: Shape
    output_shape: Shape


class LayerStart(_WithFloats, ProofEvent, frozen=True, kw_only=True, gc=False):
    """The reduction of one layer begins. The walk goes from the last layer to the first.

    Attributes:
        layer_idx: The layer.
        kind: What it computes.
        input_shape: Rows and columns of its input.
        output_shape: Rows and columns of its output.
        trace_cost: The producer's estimate of its size, in cells of its trace.
        claim_value_approx: The claim that it reduces, scaled into [0, 1].
        gpu_device: The device that proves it; None on a CPU.
    """

    layer_idx: U64
    kind: LayerKind
    input_shape: Shape
    output_shape: Shape
    trace_cost: U64
    claim_value_approx: Float = None
    gpu_device: U64 | None = None


class SumcheckRound(ProofEvent, frozen=True, kw_only=True, gc=False):
    """One round of a layer's sumcheck. `round` counts from 0. At most one of the two polynomials is given.

    Attributes:
        layer_idx: The layer.
        round: From 0.
        total_rounds: Rounds of this layer's sumcheck.
        poly_deg2: The round's polynomial, if it has degree 2.
        poly_deg3: The round's polynomial, if it has degree 3.
        claim_value_approx: The claim after the round, scaled into [0, 1].
    """

    bulk: ClassVar[bool] = True
    layer_idx: U64
    round: U64
    total_rounds: U64
    poly_deg2: RoundPoly | None = None
    poly_deg3: RoundPolyDeg3 | None = None
    claim_value_approx: Float = None

    def __post_init__(self) -> None:
        # Not inherited from _WithFloats, which loops over all fields: rounds are the bulk of every stream.
        claim = self.claim_value_approx
        if isinstance(claim, float) and not isfinite(claim):
            force_setattr(self, "claim_value_approx", None)


class LayerEnd(_WithFloats, ProofEvent, frozen=True, kw_only=True, gc=False):
    """The reduction of one layer ended. `duration_ms` and `rounds_completed` are the producer's own figures.

    Attributes:
        layer_idx: The layer.
        kind: How it was proved.
        final_claim_value_approx: The claim that is left, scaled into [0, 1].
        duration_ms: How long it took, in milliseconds.
        rounds_completed: Rounds of its sumcheck.
    """

    layer_idx: U64
    kind: LayerProofKind
    final_claim_value_approx: Float = None
    duration_ms: U64
    rounds_completed: U64


class ProofComplete(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A proof succeeded. `duration_ms` is the producer's own figure; some producers always write 0.

    Attributes:
        duration_ms: How long the proof took, in milliseconds.
        num_layer_proofs: Layers that were proved.
        num_weight_openings: Weight commitments that were opened.
        weight_binding_mode: How the weights were bound.
    """

    duration_ms: U64
    num_layer_proofs: U64
    num_weight_openings: U64
    weight_binding_mode: str


class WeightOpeningStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The opening of one weight commitment begins.

    Attributes:
        weight_node_id: The weight's node of the computation graph.
        eval_point_len: Coordinates of the point that it is opened at.
    """

    weight_node_id: U64
    eval_point_len: U64


class WeightOpeningEnd(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The opening of one weight commitment ended. `commitment_hex` is the commitment's first 8 bytes.

    Attributes:
        weight_node_id: The weight's node of the computation graph.
        duration_ms: How long it took, in milliseconds.
        commitment_hex: The first 8 bytes of the commitment.
    """

    weight_node_id: U64
    duration_ms: U64
    commitment_hex: str


class AggregatedBindingStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The sumcheck that binds all weight claims at once begins.

    Attributes:
        num_claims: Claims that are bound.
        num_matrices: Weight matrices that they are about.
    """

    num_claims: U64
    num_matrices: U64


class AggregatedBindingEnd(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The aggregated weight binding ended.

    Attributes:
        duration_ms: How long it took, in milliseconds.
        estimated_calldata_felts: The proof's size on a chain, in field elements, as the producer estimates it.
    """

    duration_ms: U64
    estimated_calldata_felts: U64


class GpuStatus(ProofEvent, frozen=True, kw_only=True, gc=False):
    """Devices and progress as the prover reports them. The figures are not measured: see docs/events.md.

    Attributes:
        devices: One for each device.
        matmul_done: Matrix products that are proved.
        matmul_total: Matrix products of the circuit.
        layers_done: Layers that are proved.
        layers_total: Layers of the circuit.
    """

    bulk: ClassVar[bool] = True
    devices: Sequence[GpuSnapshot]
    matmul_done: U64
    matmul_total: U64
    layers_done: U64
    layers_total: U64


class StarkProofStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The unified STARK begins. It covers the layers that the walk does not prove.

    Attributes:
        num_activation_layers: Activation layers that it covers.
        num_add_layers: Addition layers that it covers.
        num_layernorm_layers: Normalization layers that it covers.
    """

    num_activation_layers: U64
    num_add_layers: U64
    num_layernorm_layers: U64


class StarkProofEnd(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The unified STARK ended.

    Attributes:
        duration_ms: How long it took, in milliseconds.
    """

    duration_ms: U64


_LAGGED = re.compile(r"lagged (\d{1,18}) events")


class Log(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A line of text from the producer. With "lagged N events", a WebSocket server reports that it lost N events.

    Attributes:
        level: How severe it is.
        message: The line.
    """

    bulk: ClassVar[bool] = True
    level: LogLevel
    message: str

    @property
    def lagged_events(self) -> int:
        """The number of events that the line reports as lost by a WebSocket server; 0 for any other line."""
        lagged = _LAGGED.fullmatch(self.message)
        return 0 if lagged is None else int(lagged[1])


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


PhaseAttributes: TypeAlias = Annotated[
    Mapping[str, str | bool | int | float | None], msgspec.Meta(max_length=MAX_NAMES)
]
"""What a producer says of a phase, by name."""


class PhaseStart(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A phase begins: a stretch of the producer's work that has a name, inside a proof or outside of any.

    Attributes:
        name: What the producer calls it; one of a fixed set of names, as `weight commitments`.
        phase: The producer's number for it, unique in its session and job; None if it has none. Without one, an end
            belongs to the latest phase of its name.
        parent: The number of the phase around it; None for the innermost that is open in the same job.
        layer_idx: The layer that it is part of, or None.
        attributes: What else is to be said of it.
    """

    name: str
    phase: U64 | None = None
    parent: U64 | None = None
    layer_idx: U64 | None = None
    attributes: PhaseAttributes = FrozenDict()


class PhaseEnd(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A phase ended.

    Attributes:
        name: Its name.
        phase: Its number, or None.
        duration_ns: How long it took by the producer's own clock, in nanoseconds; None if the producer did not measure.
        failed: The error that ended it; None if it succeeded.
    """

    name: str
    phase: U64 | None = None
    duration_ns: U64 | None = None
    failed: str | None = None


class PhaseProgress(ProofEvent, frozen=True, kw_only=True, gc=False):
    """How far an open phase has come: `done` of `total`, in units of its own. Each such event replaces the one before.

    Attributes:
        phase: The phase's number, or None.
        name: The phase's name, where it has no number. None, too, for the innermost that is open in the same job.
        done: What is done.
        total: What there is to be done; None if that is not known.
    """

    bulk: ClassVar[bool] = True
    phase: U64 | None = None
    name: str | None = None
    done: U64
    total: U64 | None = None


class SessionOpened(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A producer's stream begins.

    Attributes:
        source: Where it comes from, as shown to the user: a file's path, an address, a program's name.
        time_source: Where event times come from: `envelope` (the producer or a recording), `arrival` (stamped on
            arrival) or `reconstructed` (computed from reported durations).
        traceparent: The W3C trace context that was current when the session was opened, or None.
        tracestate: The vendors' part of that context, W3C's tracestate. Absent without one.
        resource: The process that runs the prover, as OpenTelemetry resource attributes.
        time_resolution_ns: How far apart two times of arrival must lie to be told apart, in nanoseconds. Absent where
            that is not known, or where times have another source.
        in_process: Whether the program that proves opened the session in itself. Its jobs then end by themselves,
            however long they say nothing. Absent if not.
    """

    source: str
    time_source: str
    traceparent: str | None
    resource: Annotated[Mapping[str, str], msgspec.Meta(max_length=MAX_NAMES)]
    time_resolution_ns: U64 | msgspec.UnsetType = msgspec.UNSET
    in_process: bool | msgspec.UnsetType = msgspec.UNSET
    tracestate: str | msgspec.UnsetType = msgspec.UNSET


class SessionClosed(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A producer's stream ended.

    Attributes:
        outcome: `ended` (it was complete), `lost` (it broke off) or `interrupted` (proofstream was told to stop).
        reason: Why it ended, or None.
        refused: How many lines or events could not be read.
    """

    outcome: str
    reason: str | None
    refused: U64


class ProofAborted(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The open proof ended without success: the producer's code raised an error or reported one.

    Attributes:
        reason: Why, in one line.
    """

    reason: str


class EventsLost(ProofEvent, frozen=True, kw_only=True, gc=False):
    """Events are missing at this place of the stream.

    Attributes:
        where: `intake`; `lane:NAME` for a plugin's own queue; or `plugin:NAME` for what a plugin published too fast.
        counts: How many, by kind.
    """

    where: str
    counts: ByName


class PluginHealth(ProofEvent, frozen=True, kw_only=True, gc=False):
    """The health of one plugin and its lane.

    Attributes:
        plugin: The plugin's name.
        status: `starting`, `ready`, `idle`, `stalled`, `broken` or `failed`.
        reason: Why the plugin is not ready, or None.
        depth: Events waiting in the lane.
        delivered: Events handed to the plugin so far.
        dropped: Events that the lane could not hold, by kind.
        counters: The plugin's own counters.
        lag_s: Seconds since the oldest event that the plugin has not finished entered the lane.
        derives: The kinds that the plugin derives from a producer's events, as its class declares them.
    """

    plugin: str
    status: str
    reason: str | None
    depth: U64
    delivered: U64
    dropped: ByName
    counters: ByName
    lag_s: float
    derives: Sequence[str] = ()


class ReportLine(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A line that a plugin adds to the closing report. The envelope's origin names the plugin.

    Attributes:
        text: The line, as plain text.
    """

    text: str


class TraceStarted(ProofEvent, frozen=True, kw_only=True, gc=False):
    """A trace was started for a proof.

    Attributes:
        proof: The proof's ordinal within its session, from 0.
        trace_id: 32 lower-case hex digits.
        span_id: The id of the proof's span, 16 lower-case hex digits.
        sampled: True if the trace is exported.
    """

    proof: U64
    trace_id: str
    span_id: str
    sampled: bool


class GpuTelemetry(ProofEvent, frozen=True, kw_only=True, gc=False):
    """Readings of this machine's GPUs at one moment, from their driver. All figures are measured.

    Attributes:
        devices: One reading for each GPU and each MIG instance that is sampled.
    """

    bulk: ClassVar[bool] = True
    devices: Sequence[GpuReading]


class StateProgramCost(ProofEvent, frozen=True, kw_only=True, gc=False):
    """Bytes that one run of a state program writes for one sequence, derived from the states' declarations.

    Attributes:
        proof: Ordinal within its session, from 0, of the proof that the event was published for.
        circuit: The name of the state circuit.
        convention: The convention by which states are counted.
        program: `verify_checkpoint`, `verify_rollback`, `commit_accepted`, `slot_zero`, ...
        op: `copy`, `zero` or `convert`.
        recurrent_layers: How many layers keep recurrent state.
        bytes: Bytes written, over all states.
        states: The same by group.
    """

    proof: U64
    circuit: str
    convention: str
    program: str
    op: str
    recurrent_layers: U64
    bytes: U64
    states: Sequence[StateBytes]


class StateProgramRun(ProofEvent, frozen=True, kw_only=True, gc=False):
    """An inference engine ran a state program.

    Attributes:
        program: The program's name.
        sequences: How many sequences it ran for at once.
        duration_ns: How long it took, in nanoseconds. Absent if the engine does not know.
    """

    program: str
    sequences: U64
    duration_ns: U64 | msgspec.UnsetType = msgspec.UNSET


class StateBytesMoved(ProofEvent, frozen=True, kw_only=True, gc=False):
    """Bytes that runs of one state program wrote since the last such event: counted runs times derived bytes.

    Attributes:
        circuit: The name of the state circuit.
        convention: The convention by which states are counted.
        program: The program's name.
        runs: How many runs.
        sequences: How many sequences, over all those runs.
        bytes: Bytes written, over all states.
        states: The same by group.
        timed_bytes: Bytes written by the runs with a known duration.
        timed_ns: Total duration of those runs, in nanoseconds.
    """

    circuit: str
    convention: str
    program: str
    runs: U64
    sequences: U64
    bytes: U64
    states: Sequence[StateBytes]
    timed_bytes: U64
    timed_ns: U64


HOST_EVENTS: tuple[type[ProofEvent], ...] = (
    PhaseStart,
    PhaseEnd,
    PhaseProgress,
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
"""The variants that proofstream adds to the producer's wire format."""


class UnknownEvent(ProofEvent, frozen=True, kw_only=True, gc=False):
    """An event of an undeclared kind. Its body is kept in the envelope's `raw`.

    It is bulk: no plugin builds on a kind that it cannot know, and a newer producer's bulk kind must not push facts out
    of a full lane.
    """

    bulk: ClassVar[bool] = True
    kind: str


def kind_of(event: ProofEvent) -> str:
    """Return the event's kind: its key on the wire."""
    return event.kind if isinstance(event, UnknownEvent) else type(event).__name__


def is_bulk(event_type: type[ProofEvent]) -> bool:
    """Return whether events of this type are bulk data."""
    # A type may have a field of this name, which the class shows as a descriptor.
    return event_type.bulk is True


def is_sheddable(event: ProofEvent) -> bool:
    """Return whether a full lane may drop the event: bulk and undeclared kinds, but no warning or error."""
    if isinstance(event, Log):
        return event.level not in (LogLevel.Warn, LogLevel.Error)
    return is_bulk(type(event))
