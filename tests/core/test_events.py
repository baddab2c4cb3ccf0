"""The vocabulary: the producer's own names and fields, and values of every wrong type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args, get_origin

import msgspec
import pytest

from proofstream import events as ev

# As the producer declares them, in its order. A question mark marks fields that may be null on the wire.
INT, TEXT, BOOL, FLOAT, SHAPE = "int", "str", "bool", "float?", "[int,int]"
PRODUCER: dict[str, dict[str, str]] = {
    "CircuitCompiled": {
        "total_layers": INT,
        "input_shape": SHAPE,
        "output_shape": SHAPE,
        "nodes": "[CircuitNode]",
        "has_simd": BOOL,
        "simd_num_blocks": INT,
    },
    "LayerActivation": {
        "layer_idx": INT,
        "node_id": INT,
        "kind": "LayerKind",
        "output_shape": SHAPE,
        "output_sample": "[int]",
        "stats": "ActivationStats",
    },
    "AttentionHeatmap": {
        "layer_idx": INT,
        "head_idx": INT,
        "num_heads": INT,
        "seq_len": INT,
        "scores": "[float?]",
    },
    "ProofStart": {
        "model_name": "str?",
        "backend": TEXT,
        "num_layers": INT,
        "input_shape": SHAPE,
        "output_shape": SHAPE,
    },
    "LayerStart": {
        "layer_idx": INT,
        "kind": "LayerKind",
        "input_shape": SHAPE,
        "output_shape": SHAPE,
        "trace_cost": INT,
        "claim_value_approx": FLOAT,
        "gpu_device": "int?",
    },
    "SumcheckRound": {
        "layer_idx": INT,
        "round": INT,
        "total_rounds": INT,
        "poly_deg2": "RoundPoly?",
        "poly_deg3": "RoundPolyDeg3?",
        "claim_value_approx": FLOAT,
    },
    "LayerEnd": {
        "layer_idx": INT,
        "kind": "LayerProofKind",
        "final_claim_value_approx": FLOAT,
        "duration_ms": INT,
        "rounds_completed": INT,
    },
    "ProofComplete": {
        "duration_ms": INT,
        "num_layer_proofs": INT,
        "num_weight_openings": INT,
        "weight_binding_mode": TEXT,
    },
    "WeightOpeningStart": {"weight_node_id": INT, "eval_point_len": INT},
    "WeightOpeningEnd": {"weight_node_id": INT, "duration_ms": INT, "commitment_hex": TEXT},
    "AggregatedBindingStart": {"num_claims": INT, "num_matrices": INT},
    "AggregatedBindingEnd": {"duration_ms": INT, "estimated_calldata_felts": INT},
    "GpuStatus": {
        "devices": "[GpuSnapshot]",
        "matmul_done": INT,
        "matmul_total": INT,
        "layers_done": INT,
        "layers_total": INT,
    },
    "StarkProofStart": {"num_activation_layers": INT, "num_add_layers": INT, "num_layernorm_layers": INT},
    "StarkProofEnd": {"duration_ms": INT},
    "Log": {"level": "LogLevel", "message": TEXT},
}
PARTS: dict[type[msgspec.Struct], dict[str, str]] = {
    ev.SecureField: dict.fromkeys("abcd", INT),
    ev.RoundPoly: dict.fromkeys(("c0", "c1", "c2"), "SecureField"),
    ev.RoundPolyDeg3: dict.fromkeys(("c0", "c1", "c2", "c3"), "SecureField"),
    ev.CircuitNode: {
        "layer_idx": INT,
        "node_id": INT,
        "kind": "LayerKind",
        "input_shape": SHAPE,
        "output_shape": SHAPE,
        "trace_cost": INT,
        "input_layers": "[int]",
    },
    ev.GpuSnapshot: {"device_id": INT, "device_name": TEXT, "utilization": FLOAT, "free_memory_bytes": "int?"},
    ev.ActivationStats: dict.fromkeys(("mean", "std_dev", "min", "max", "sparsity"), FLOAT),
}


ADDED: dict[type[msgspec.Struct], list[str]] = {
    ev.CircuitCompiled: ["states"],
    ev.SessionOpened: ["time_resolution_ns", "in_process", "tracestate"],
    ev.StateProgramRun: ["duration_ns"],
    ev.PluginHealth: ["derives"],
    ev.PhaseStart: ["phase", "parent", "layer_idx", "attributes"],
    ev.PhaseEnd: ["phase", "duration_ns", "failed"],
    ev.PhaseProgress: ["phase", "name", "total"],
}
"""Fields that today's producers or older recordings lack, or that clients in other languages need not write."""


def written(annotation: Any) -> str:
    """Write an annotation in the shorthand of the tables above."""
    if hasattr(annotation, "__metadata__"):
        return written(get_args(annotation)[0])
    arguments = get_args(annotation)
    if type(None) in arguments:
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return f"{written(inner)}?"
    if get_origin(annotation) in (Sequence, tuple):
        return f"[{','.join(map(written, arguments))}]"
    return str(annotation.__name__)


def fields_of(event_type: type[msgspec.Struct]) -> dict[str, str]:
    added = ADDED.get(event_type, [])
    return {f.name: written(f.type) for f in msgspec.structs.fields(event_type) if f.name not in added}


def test_the_sixteen_variants_are_those_of_the_producer() -> None:
    assert [event_type.__name__ for event_type in ev.PRODUCER_EVENTS] == list(PRODUCER)


@pytest.mark.parametrize("event_type", ev.PRODUCER_EVENTS, ids=lambda t: t.__name__)
def test_a_variant_has_the_producers_fields(event_type: type[ev.ProofEvent]) -> None:
    assert fields_of(event_type) == PRODUCER[event_type.__name__]
    assert list(fields_of(event_type)) == list(PRODUCER[event_type.__name__])


@pytest.mark.parametrize("part", PARTS, ids=lambda t: t.__name__)
def test_a_part_has_the_producers_fields(part: type[msgspec.Struct]) -> None:
    assert fields_of(part) == PARTS[part]


@pytest.mark.parametrize(
    "event_type", [*ev.PRODUCER_EVENTS, *ev.HOST_EVENTS, *PARTS, ev.UnknownEvent], ids=lambda t: t.__name__
)
def test_values_are_frozen_and_only_fields_that_may_be_null_or_are_added_are_optional(
    event_type: type[msgspec.Struct],
) -> None:
    assert event_type.__struct_config__.frozen
    optional = [f for f in msgspec.structs.fields(event_type) if not f.required]
    by_producers = {**PRODUCER, **{part.__name__: fields for part, fields in PARTS.items()}}.get(
        event_type.__name__, {}
    )
    may_be_null = [name for name, kind in by_producers.items() if kind.endswith("?")]
    assert [f.name for f in optional] == [*may_be_null, *ADDED.get(event_type, [])]
    absent = (f.default in (msgspec.UNSET, None, (), {}) for f in optional)
    assert all(absent)


def test_words_of_the_enums_and_their_order() -> None:
    assert [kind.value for kind in ev.LayerKind] == [
        *("MatMul", "Activation", "LayerNorm", "RMSNorm", "Add", "Mul", "Attention", "Embedding"),
        *("Dequantize", "Quantize", "Input", "Unknown"),
    ]
    assert [kind.value for kind in ev.LayerProofKind] == [
        *("Sumcheck", "LogUp", "Linear", "Skipped", "Deferred", "Unknown"),
    ]
    assert [level.value for level in ev.LogLevel] == ["Trace", "Debug", "Info", "Warn", "Error", "Unknown"]
    for enum in (ev.LayerKind, ev.LayerProofKind, ev.LogLevel):
        assert all(member.name == member.value for member in enum)


@pytest.mark.parametrize("enum", [ev.LayerKind, ev.LayerProofKind, ev.LogLevel])
@pytest.mark.parametrize("word", ["RoPE", "", "matmul", "unknown"])
def test_an_unknown_word_is_unknown(enum: Any, word: str) -> None:
    assert enum(word) is enum.Unknown
    assert msgspec.json.decode(msgspec.json.encode(word), type=enum) is enum.Unknown


def test_each_layer_kind_has_its_own_colour() -> None:
    colours = {kind: kind.color_rgb for kind in ev.LayerKind}

    assert len(set(colours.values())) == 12
    assert all(0 <= part <= 255 for colour in colours.values() for part in colour)
    assert colours[ev.LayerKind.MatMul] == (0x42, 0x9B, 0xF5)
    assert colours[ev.LayerKind.Input] == (0x80, 0x80, 0xFF)
    assert colours[ev.LayerKind.Unknown] == (0x60, 0x60, 0x60)


def test_a_field_element_as_a_number() -> None:
    assert ev.SecureField(0, 1, 2, 3).as_f32() == 0.0
    assert ev.SecureField(ev.M31_PRIME - 1, 0, 0, 0).as_f32() < 1.0
    assert ev.SecureField(2**30, 0, 0, 0).as_f32() == pytest.approx(0.5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_become_none(value: float) -> None:
    start = ev.LayerStart(
        layer_idx=0,
        kind=ev.LayerKind.Add,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=0,
        claim_value_approx=value,
        gpu_device=None,
    )
    end = ev.LayerEnd(
        layer_idx=0,
        kind=ev.LayerProofKind.Linear,
        final_claim_value_approx=value,
        duration_ms=0,
        rounds_completed=0,
    )
    one_round = ev.SumcheckRound(
        layer_idx=0, round=0, total_rounds=1, poly_deg2=None, poly_deg3=None, claim_value_approx=value
    )
    stats = ev.ActivationStats(mean=value, std_dev=value, min=0.5, max=value, sparsity=value)
    snapshot = ev.GpuSnapshot(device_id=0, device_name="gpu", utilization=value, free_memory_bytes=None)
    heatmap = ev.AttentionHeatmap(layer_idx=0, head_idx=0, num_heads=1, seq_len=2, scores=[0.5, value, 1.0, value])

    assert start.claim_value_approx is None
    assert end.final_claim_value_approx is None
    assert one_round.claim_value_approx is None
    assert (stats.mean, stats.std_dev, stats.min, stats.max, stats.sparsity) == (None, None, 0.5, None, None)
    assert snapshot.utilization is None
    assert heatmap.scores == (0.5, None, 1.0, None)


def test_numpys_own_infinity_raises_no_warning() -> None:
    numpy = pytest.importorskip("numpy")
    with numpy.errstate(all="raise"):
        snapshot = ev.GpuSnapshot(
            device_id=0, device_name="gpu", utilization=numpy.float64("inf"), free_memory_bytes=None
        )
        heatmap = ev.AttentionHeatmap(layer_idx=0, head_idx=0, num_heads=1, seq_len=1, scores=[numpy.float64("-inf")])

    assert snapshot.utilization is None
    assert heatmap.scores == (None,)


class Awkward:
    """A value without usable methods."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = None  # type: ignore[assignment]  # part of being awkward


@pytest.mark.parametrize("event_type", [*ev.PRODUCER_EVENTS, *ev.HOST_EVENTS, *PARTS], ids=lambda t: t.__name__)
@pytest.mark.parametrize(
    "value", ["text", None, -1, 2**80, 1.5, b"", [], (), {}, object(), Awkward()], ids=lambda v: type(v).__name__
)
def test_constructors_accept_anything(event_type: Any, value: object) -> None:
    made = event_type(**dict.fromkeys(event_type.__struct_fields__, value))
    frozen = () if isinstance(value, list) else value  # a list becomes a tuple where the field holds a collection

    for name in event_type.__struct_fields__:
        held = getattr(made, name)
        assert held is value or (held == frozen and held is not value)


def test_kinds() -> None:
    assert ev.kind_of(ev.StarkProofEnd(duration_ms=1)) == "StarkProofEnd"
    assert ev.kind_of(ev.UnknownEvent(kind="QuantumRound")) == "QuantumRound"


def test_only_bulk_events_may_be_shed() -> None:
    def log(level: ev.LogLevel) -> ev.Log:
        return ev.Log(level=level, message="")

    assert [level.value for level in ev.LogLevel if not ev.is_sheddable(log(level))] == ["Warn", "Error"]
    sheddable = {"SumcheckRound", "LayerActivation", "AttentionHeatmap", "GpuStatus", "GpuTelemetry", "PhaseProgress"}
    for event_type in (*ev.PRODUCER_EVENTS, *ev.HOST_EVENTS):
        if event_type is not ev.Log:
            made: Any = event_type(**dict.fromkeys(event_type.__struct_fields__))
            assert ev.is_sheddable(made) == (event_type.__name__ in sheddable)
    assert ev.is_sheddable(ev.UnknownEvent(kind="QuantumRound"))  # it must not push facts out of a full lane
