"""Events made in Python that are checked in a few steps: the same as in many, for right ones and wrong ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.errors import WireError
from proofstream.events import (
    LayerKind,
    LayerStart,
    Log,
    LogLevel,
    PhaseStart,
    ProofEvent,
    RoundPoly,
    SecureField,
    SumcheckRound,
    UnknownEvent,
)
from proofstream.fast_events import FastEvents
from proofstream.wire import LineDecoder, check_event


class Scalar:
    """Looks like a numpy scalar."""

    ndim = 0

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        if isinstance(self._value, BaseException):
            raise self._value
        return self._value


class Text(str):
    __slots__ = ()


class AsWritten(ProofEvent, frozen=True):
    json: msgspec.Raw
    name: str = ""


class Undeclared(ProofEvent, frozen=True):
    name: str = ""


class SpecialRound(SumcheckRound, frozen=True, kw_only=True):
    pass


ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**32),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, -1]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["\ud800", Text("text"), b"bytes", Scalar(3), Scalar(2**64), Scalar(KeyboardInterrupt()), object()]
    ),
    st.lists(st.integers(0, 2**33), max_size=3),
    st.tuples(st.integers(-1, 9), st.integers(0, 9)),
)
MOSTLY_NUMBERS = st.one_of(st.integers(0, 2**32), st.integers(0, 9), ANYTHING)
LIMBS = st.builds(SecureField, a=MOSTLY_NUMBERS, b=st.just(1), c=st.just(2), d=st.just(3))
POLYS = st.builds(RoundPoly, c0=LIMBS, c1=LIMBS, c2=LIMBS)
JSON = st.sampled_from(
    [b"1", b'{"a": 1}', b"[1,\n2]", b"1}", b'"\xff"', b'1},"Log":{"level":"Info"', b"", b"12345678901234567890123"]
)
EVENTS: st.SearchStrategy[object] = st.one_of(
    st.builds(
        SumcheckRound,
        layer_idx=MOSTLY_NUMBERS,
        round=st.integers(0, 2**64),
        total_rounds=st.integers(0, 2**64),
        poly_deg2=st.one_of(st.none(), POLYS, ANYTHING),
        poly_deg3=st.none(),
        claim_value_approx=ANYTHING,
    ),
    st.builds(
        LayerStart,
        layer_idx=MOSTLY_NUMBERS,
        kind=st.one_of(st.just(LayerKind.MatMul), ANYTHING),
        input_shape=st.one_of(st.just((1, 2)), ANYTHING),
        output_shape=st.just((1, 2)),
        trace_cost=MOSTLY_NUMBERS,
        claim_value_approx=ANYTHING,
        gpu_device=ANYTHING,
    ),
    st.builds(Log, level=st.one_of(st.just(LogLevel.Info), ANYTHING), message=st.one_of(st.text(), ANYTHING)),
    st.builds(PhaseStart, name=ANYTHING, phase=ANYTHING, attributes=st.dictionaries(st.text(max_size=3), ANYTHING)),
    st.builds(AsWritten, json=JSON.map(msgspec.Raw), name=ANYTHING),
    st.builds(Undeclared, name=ANYTHING),
    st.builds(UnknownEvent, kind=st.just("Other")),
    st.builds(SpecialRound, layer_idx=st.just(1), round=st.just(1), total_rounds=st.just(1)),
    ANYTHING,
)


@pytest.fixture(scope="module", name="catalog")
def catalog_fixture() -> Catalog:
    catalog = Catalog()
    catalog.add("test", [AsWritten])
    return catalog


@given(EVENTS)
def test_what_is_checked_quickly_is_what_the_slow_check_gives(catalog: Catalog, event: object) -> None:
    quick = FastEvents(catalog).check(event)
    if quick is None:
        return
    decoded = check_event(event, LineDecoder(catalog))
    # As text, because a float that is not a number equals nothing.
    assert (repr(quick[0]), quick[1]) == (repr(decoded.event), decoded.raw)


@given(EVENTS)
def test_what_the_slow_check_refuses_is_left_to_it(catalog: Catalog, event: object) -> None:
    try:
        check_event(event, LineDecoder(catalog))
    except WireError:
        assert FastEvents(catalog).check(event) is None


def test_ordinary_events_are_checked_quickly(catalog: Catalog) -> None:
    limb = SecureField(a=1, b=2, c=3, d=2**31 - 2)
    events = [
        SumcheckRound(layer_idx=1, round=2, total_rounds=3, poly_deg2=RoundPoly(c0=limb, c1=limb, c2=limb)),
        Log(level=LogLevel.Info, message="größer"),
        AsWritten(json=msgspec.Raw(b'{"a": 1}'), name="x"),
        LayerStart(
            layer_idx=0,
            kind=LayerKind.MatMul,
            input_shape=(1, 1),
            output_shape=(1, 1),
            trace_cost=1,
            claim_value_approx=None,
            gpu_device=None,
        ),
    ]
    assert all(FastEvents(catalog).check(event) is not None for event in events)


def test_types_can_be_left_to_the_slow_check(catalog: Catalog) -> None:
    assert FastEvents(catalog, left_out=[Log]).check(Log(level=LogLevel.Info, message="text")) is None
