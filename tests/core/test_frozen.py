"""What is given to an event is copied, so that neither a producer nor a plugin can change it afterwards."""

from __future__ import annotations

import copy
import pickle
from typing import Any, cast

import msgspec
import pytest

from proofstream import (
    AttentionHeatmap,
    Catalog,
    EventsLost,
    GpuReading,
    LayerEnd,
    LayerKind,
    LayerStart,
    LineDecoder,
    ProofEvent,
    SumcheckRound,
    WireError,
    encode_event,
)
from proofstream.frozen import FrozenDict


class Sampled(ProofEvent, frozen=True, kw_only=True):
    """An event of a third party."""

    values: list[float]
    by_name: dict[str, list[int]]
    seen: set[int]


Vector = list[float]


class Mixed:
    """A third party's mixin with a hook of its own."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check nothing."""


class Resampled(Sampled, frozen=True, kw_only=True):
    """A kind with a hook of its own, which adds no collection to those that it inherits."""

    factor: float

    def __post_init__(self) -> None:
        if self.factor < 0:
            raise ValueError("factor")


class Aliased(ProofEvent, frozen=True, kw_only=True):
    """A kind whose fields hide their collections behind other names."""

    values: Vector
    pairs: tuple[list[int], ...]
    anything: Any
    raw: bytes
    elsewhere: Nowhere  # type: ignore[name-defined]  # noqa: F821 - as a name that only type checkers import


def heat_map(scores: Any) -> AttentionHeatmap:
    return AttentionHeatmap(layer_idx=0, head_idx=0, num_heads=1, seq_len=2, scores=scores)


def test_a_producer_may_reuse_its_list() -> None:
    scores = [0.0, 1.0]
    event = heat_map(scores)
    scores[0] = 9.0
    scores.clear()

    assert event.scores == (0.0, 1.0)


def test_a_producer_may_reuse_its_dict() -> None:
    counts = {"Log": 1}
    event = EventsLost(where="intake", counts=counts)
    counts["Log"] = 2

    assert event.counts == {"Log": 1}


def test_a_decoded_event_is_frozen_too() -> None:
    decoder = LineDecoder(Catalog())
    lost = decoder.decode(encode_event(EventsLost(where="intake", counts={"Log": 1}))).event
    assert isinstance(lost, EventsLost)
    assert isinstance(decoder.decode(encode_event(heat_map([0.5] * 4))).event.scores, tuple)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="does not change"):
        lost.counts["Log"] = 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "arguments"),
    [
        ("__setitem__", ("a", 2)),
        ("__delitem__", ("a",)),
        ("__ior__", ({"b": 1},)),
        ("update", ({"b": 1},)),
        ("setdefault", ("b", 1)),
        ("pop", ("a",)),
        ("popitem", ()),
        ("clear", ()),
    ],
)
def test_a_frozen_dict_refuses_every_change(change: str, arguments: tuple[object, ...]) -> None:
    frozen: FrozenDict[str, int] = FrozenDict(a=1)
    with pytest.raises(TypeError, match="does not change"):
        getattr(frozen, change)(*arguments)
    assert frozen == {"a": 1}


def test_a_frozen_dict_is_copied_pickled_and_encoded_as_a_dict() -> None:
    frozen: FrozenDict[str, int] = FrozenDict(a=1)

    assert pickle.loads(pickle.dumps(frozen)) == copy.deepcopy(frozen) == {"a": 1}
    assert msgspec.json.encode(frozen) == b'{"a":1}'


def test_kinds_of_third_parties_are_frozen_all_the_way_down() -> None:
    values, inner = [1.0], [1]
    event = Sampled(values=values, by_name={"a": inner}, seen={1})
    values.append(2.0)
    inner.append(2)

    held: tuple[object, ...] = (event.values, event.by_name, event.seen)
    assert held == ((1.0,), {"a": (1,)}, frozenset({1}))
    assert encode_event(event) == b'{"Sampled":{"values":[1.0],"by_name":{"a":[1]},"seen":[1]}}'


def test_a_hook_of_its_own_leaves_what_a_kind_inherits_frozen() -> None:
    values, inner = [1.0], [1]
    event = Resampled(values=values, by_name={"a": inner}, seen={1}, factor=2.0)
    values.append(2.0)
    inner.append(2)

    held: tuple[object, ...] = (event.values, event.by_name, event.seen)
    assert held == ((1.0,), {"a": (1,)}, frozenset({1}))
    with pytest.raises(ValueError, match="factor"):
        Resampled(values=values, by_name={}, seen=set(), factor=-1.0)


def test_a_mixins_hook_leaves_what_a_kind_inherits_frozen() -> None:
    class Derived(Mixed, Sampled, frozen=True, kw_only=True):
        """Whose hook is the mixin's."""

    assert Derived(values=[1.0], by_name={}, seen=set()).values == (1.0,)  # type: ignore[comparison-overlap]


def test_collections_behind_other_names_are_frozen() -> None:
    buffer = bytearray(b"ab")
    event = Aliased(values=[1.0], pairs=([1], [2]), anything={"a": [1]}, raw=cast("Any", buffer), elsewhere=[[1]])
    buffer.clear()

    held = [getattr(event, name) for name in ("values", "pairs", "anything", "raw", "elsewhere")]
    assert held == [(1.0,), ((1,), (2,)), {"a": (1,)}, b"ab", ((1,),)]


def test_a_shape_that_is_given_as_a_list_is_copied() -> None:
    shape = [2, 3]
    event = LayerStart(
        layer_idx=0,
        kind=LayerKind.MatMul,
        input_shape=shape,  # type: ignore[arg-type]
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=float("inf"),
        gpu_device=None,
    )
    shape.clear()

    assert (event.input_shape, event.claim_value_approx) == ((2, 3), None)


def test_a_collection_that_cannot_be_copied_reaches_the_bus_and_not_the_prover() -> None:
    endless: list[Any] = []
    endless.append(endless)
    event = Aliased(values=[], pairs=(), anything=endless, raw=b"", elsewhere=None)

    assert event.anything is endless
    with pytest.raises(WireError):
        encode_event(event)


def test_parts_of_events_are_frozen() -> None:
    unsupported = ["power_w"]
    reading = GpuReading(id="GPU-1", state="ok", unsupported=unsupported, utilization=float("nan"))
    unsupported.clear()

    assert (reading.unsupported, reading.utilization) == (("power_w",), None)


def test_events_without_collections_pay_nothing() -> None:
    assert not hasattr(LayerEnd, "__flat_fields__") or LayerEnd.__flat_fields__ == ()
    assert SumcheckRound.__flat_fields__ == SumcheckRound.__nested_fields__ == ()
