"""Events whose values no real run has: every figure extreme, every text harmful, more names than a reader wants."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable
from itertools import cycle
from typing import Any

import msgspec
import pytest

from proofstream import (
    Catalog,
    Decoded,
    EventsLost,
    GpuReading,
    GpuSnapshot,
    GpuStatus,
    GpuTelemetry,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    PluginHealth,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StateBytesMoved,
    UnknownEvent,
)
from proofstream.testing import InlineHost, envelopes
from proofstream_console import ConsolePlugin, formats
from proofstream_console.run_summary import MAX_SESSIONS, RunSummary

START = ProofStart(model_name="mlp", backend="cpu", num_layers=2, input_shape=(1, 1), output_shape=(1, 1))
LAYER_START = LayerStart(
    layer_idx=1,
    kind=LayerKind.MatMul,
    input_shape=(1, 1),
    output_shape=(1, 1),
    trace_cost=1,
    claim_value_approx=None,
    gpu_device=None,
)
LAYER_END = LayerEnd(
    layer_idx=1, kind=LayerProofKind.Sumcheck, final_claim_value_approx=None, duration_ms=1, rounds_completed=0
)
COMPLETE = ProofComplete(duration_ms=1, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="x")

WHOLE = (0, 2**32, 2**53 + 1, 2**63 - 1, 2**64 - 1)
"""Whole numbers that the wire format allows."""

REAL = (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, -1.0, 5e-324, 2.0**64)

HARMFUL = "\x1b]52;c;cHdu\x07\x1b[2J\x9b31m\u202e\u2066\u2028\r\n\x7f z"
"""Writes the clipboard, clears the screen, changes colours, turns text round, ends lines."""

Pick = Callable[[str, Any], Any]
"""Returns the value for a number or text, given the path of its field and an ordinary value."""

Terminal = tuple[str, int, int]
TERMINALS = [
    ("live", 80, 24),
    ("plain", 80, 24),
    pytest.param(("live", 200, 60), marks=pytest.mark.slow),
    pytest.param(("live", 20, 6), marks=pytest.mark.slow),
]


class Clock:
    """A monotonic clock in seconds that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def made(kind: type[ProofEvent], pick: Pick) -> ProofEvent:
    """An event of that kind with all of its fields, each number and text chosen by `pick`."""
    event: ProofEvent = built(msgspec.inspect.type_info(kind), kind.__name__, pick)
    return event


def built(of: Any, path: str, pick: Pick) -> Any:
    match of:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return cls(**{each.name: built(each.type, f"{path}.{each.name}", pick) for each in fields})
        case msgspec.inspect.UnionType(types=types):
            return built(types[0], path, pick)
        case msgspec.inspect.ListType(item_type=item):
            return (built(item, path, pick),)
        case msgspec.inspect.TupleType(item_types=items):
            return tuple(built(item, path, pick) for item in items)
        case msgspec.inspect.DictType(value_type=value):
            return {pick(f"{path}.key", "lost_key"): built(value, path, pick)}
        case _:
            return plain(of, path, pick)


def plain(of: Any, path: str, pick: Pick) -> Any:
    match of:
        case msgspec.inspect.EnumType(cls=cls):
            return next(iter(cls))
        case msgspec.inspect.BoolType():
            return False
        case msgspec.inspect.IntType():
            return pick(path, 1)
        case msgspec.inspect.FloatType():
            return pick(path, 0.5)
        case msgspec.inspect.StrType():
            return pick(path, "text")
        case _:
            raise AssertionError(of)


def numbers(whole: int, real: float) -> Pick:
    """Pick these for all numbers."""

    def pick(_path: str, value: Any) -> Any:
        return whole if isinstance(value, int) else real if isinstance(value, float) else value

    return pick


def one(field: str, chosen: object) -> Pick:
    """Pick this for one field."""
    return lambda path, value: chosen if path == field else value


def as_they_are(*events: ProofEvent) -> list[Decoded]:
    """The events, without the JSON that some of them cannot have."""
    return [Decoded(event=event, raw=b"{}") for event in events]


def fields_of(kind: type[ProofEvent], ordinary: type[object]) -> list[str]:
    """The paths of a kind's fields of that type."""
    paths: list[str] = []

    def pick(path: str, value: Any) -> Any:
        if type(value) is ordinary:
            paths.append(path)
        return value

    made(kind, pick)
    return list(dict.fromkeys(paths))


def told(event: ProofEvent, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a run shows that has the event outside a proof, inside one and inside a layer, twice, and after its end."""
    mode, width, height = terminal
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", str(height))
    stream, clock = Screen(), Clock()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": mode, "log_lines_per_s": 1000})
    story = [event, START, event, LAYER_START, event, event, LAYER_END, COMPLETE, event, START, LAYER_START, event]
    for envelope in envelopes(as_they_are(*story)):
        clock.now += 20
        host.feed([envelope])
    host.close()
    return stream.getvalue()


def without_our_styling(shown: str) -> str:
    rows = re.sub(r"\x1b(\[[0-9]+H|E)", "\n", shown)
    return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[78D])", "", rows)


def harmful_characters(shown: str) -> list[str]:
    text = without_our_styling(shown).replace("\n", "").replace("\r", "")
    return sorted({c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}})


KINDS = [kind for _, kind, _ in Catalog()]


@pytest.mark.parametrize("terminal", TERMINALS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_no_figure_ends_a_view_or_the_report(
    kind: type[ProofEvent], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every number of every kind at once, so that sums and ratios are extreme as well."""
    for whole, real in zip(cycle(reversed(WHOLE)), REAL, strict=False):
        event = made(kind, numbers(whole, real))
        shown = told(event, terminal, monkeypatch)
        assert "mlp" in shown
        assert max(map(len, without_our_styling(shown).splitlines())) <= 1000


@pytest.mark.slow
@pytest.mark.parametrize("terminal", TERMINALS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_no_single_figure_ends_a_view_or_the_report(
    kind: type[ProofEvent], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number of a kind at a time, because an impossible one may hide the others."""
    for ordinary, extremes in ((int, WHOLE), (float, REAL)):
        for field in fields_of(kind, ordinary):
            for extreme in extremes:
                event = made(kind, one(field, extreme))
                assert "mlp" in told(event, terminal, monkeypatch)


@pytest.mark.parametrize("terminal", TERMINALS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_reaches_the_terminal_as_it_is(
    kind: type[ProofEvent], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for field in fields_of(kind, str):
        event = made(kind, one(field, HARMFUL))
        assert harmful_characters(told(event, terminal, monkeypatch)) == []


@pytest.mark.parametrize("terminal", TERMINALS, ids=str)
def test_no_kind_reaches_the_terminal_as_it_is(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = told(UnknownEvent(kind="K" + HARMFUL), terminal, monkeypatch)
    assert "undeclaredkinds:K" in "".join(without_our_styling(shown).split()), "on as many lines as it takes"
    assert harmful_characters(shown) == []


FORMATS: list[Callable[[Any], str]] = [
    formats.duration,
    formats.count,
    formats.index,
    formats.percent,
    formats.fine_percent,
    formats.memory,
    formats.size,
    lambda number: formats.counted(number, "layer"),
]


@pytest.mark.parametrize("number", [*WHOLE, *REAL, -1])
def test_every_number_has_a_short_form(number: float) -> None:
    for form in FORMATS:
        assert 0 < len(form(number)) < 50


def test_a_number_without_end_has_a_short_form() -> None:
    for number in (10**400, 10**5000, -(10**400)):
        assert all(len(form(number)) < 50 for form in FORMATS)


# What producers choose the names of


def fed(*events: ProofEvent) -> RunSummary:
    summary = RunSummary(clock=lambda: 0.0)
    summary.add_batch(tuple(envelopes(as_they_are(*events), close=False)))
    return summary


def health(**facts: Any) -> PluginHealth:
    ordinary: dict[str, Any] = {
        "plugin": "p", "status": "ready", "reason": None, "depth": 0, "delivered": 0,
        "dropped": {}, "counters": {}, "lag_s": 0.0,
    }  # fmt: skip
    return PluginHealth(**ordinary | facts)


MANY = 10_000


def test_names_that_producers_choose_are_bounded_and_their_counts_complete() -> None:
    long = "x" * 100_000
    summary = fed(
        START,
        *(UnknownEvent(kind=f"Kind{n}{long if n < 20 else ''}") for n in range(MANY)),
        *(health(plugin=f"plugin{n}", status="failed", counters={f"lost_{n}": 1}) for n in range(MANY)),
        *(
            StateBytesMoved(
                circuit="c", convention="v", program=f"p{n}", runs=1, sequences=1,
                bytes=1, states=(), timed_bytes=1, timed_ns=1,
            )
            for n in range(MANY)
        ),
        *(
            GpuTelemetry(devices=[GpuReading(id=f"GPU-{n}", index=n, state="ok", utilization=0.5)])
            for n in range(MANY)
        ),
    )  # fmt: skip
    assert len(summary.unknown_kinds) == formats.MAX_NAMED + 1
    assert sum(summary.unknown_kinds.values()) == MANY
    assert max(map(len, summary.unknown_kinds)) <= formats.MAX_KEPT
    assert len(summary.health) <= 64
    assert len(summary.devices.measured) == formats.MAX_NAMED
    assert summary.devices.has_more
    (circuit,) = summary.states.circuits
    assert len(circuit.programs) == formats.MAX_NAMED + 1
    assert sum(program.runs for program in circuit.programs.values()) == circuit.total.runs == MANY


def test_reported_devices_are_bounded() -> None:
    statuses = [
        GpuStatus(
            devices=[GpuSnapshot(device_id=n, device_name=f"card {n}", utilization=0.5, free_memory_bytes=n)],
            matmul_done=0, matmul_total=0, layers_done=0, layers_total=0,
        )
        for n in range(MANY)
    ]  # fmt: skip
    summary = fed(START, *statuses)
    assert len(summary.devices.reported) == formats.MAX_NAMED
    assert summary.devices.has_more


def test_one_plugin_s_health_is_bounded_and_its_counts_complete() -> None:
    counters = {f"lost_{'t' * 1000}{n}": 2 for n in range(MANY)}
    summary = fed(START, health(status="failed", reason="r" * 100_000, counters=counters, dropped={"Log": 3, "X": 4}))
    (kept,) = summary.health.values()
    assert len(kept.counters) == 1  # their first characters are alike, and more are not kept
    assert sum(kept.counters.values()) == 2 * MANY
    assert sum(kept.dropped.values()) == 7
    assert len(msgspec.json.encode(kept)) < 3000


def test_health_reports_that_a_lane_could_not_hold_are_no_loss() -> None:
    summary = fed(START, health(dropped={"PluginHealth": 9}))
    assert summary.troubled_plugins == []
    assert fed(START, health(dropped={"PluginHealth": 9, "Log": 1})).troubled_plugins != []


def test_open_sessions_are_bounded_and_each_is_counted() -> None:
    summary = RunSummary(clock=lambda: 0.0)
    for number in range(2 * MAX_SESSIONS):
        summary.add_batch(tuple(envelopes([START], session_id=f"s{number}", close=False)))
    assert len(summary.sessions) == MAX_SESSIONS
    assert summary.totals.sessions == 2 * MAX_SESSIONS


def test_a_loss_with_many_kinds_is_one_number() -> None:
    summary = fed(START, EventsLost(where="intake", counts={f"Kind{n}": 1 for n in range(MANY)}))
    assert summary.totals.lost == MANY
