"""Measures the cost of an emit on the prover's thread, as a multiple of a bare deque.append in the same run.

Many calls in a row are measured by the thread's processor time. Single calls are too short for that, and are measured
by the clock: of those, the median is given while plugins work, and the 99.9th percentile.
"""

from __future__ import annotations

import time
import timeit
from collections import deque
from collections.abc import Callable, Sequence

import harness
from backdrop import Backdrop, backdrop
from harness import Result, Scale

from proofstream import Batch, LayerKind, LayerStart, ProofEvent, Session, SumcheckRound, hookimpl, open_session

COUNT = 10_000
"""Calls in a row: fewer than the intake holds, because a dropped event would be cheaper."""

PAUSE_US = 100.0
"""What the producer computes between two calls while plugins work."""

EVENT: ProofEvent = LayerStart(
    layer_idx=1,
    kind=LayerKind.MatMul,
    input_shape=(1, 8),
    output_shape=(1, 8),
    trace_cost=64,
    claim_value_approx=0.5,
    gpu_device=None,
)
ROUND: ProofEvent = SumcheckRound(layer_idx=1, round=0, total_rounds=1000, claim_value_approx=0.5)


class Sink:
    """Discards its events."""

    def __init__(self, number: int) -> None:
        self.name = f"sink-{number}"

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Discard the batch."""


def in_a_row(call: Callable[[], object]) -> float:
    """Return how long one of many calls in a row takes, in nanoseconds."""
    return timeit.timeit(call, timer=time.thread_time, number=COUNT) / COUNT * 1e9


def singly(call: Callable[[ProofEvent], object], event: ProofEvent = EVENT, *, pause_us: float = 0.0) -> list[int]:
    """Return how long each call takes by itself, in nanoseconds."""
    clock = time.perf_counter_ns
    taken: list[int] = []
    for _ in range(COUNT):
        until = clock() + pause_us * 1000
        while clock() < until:
            pass
        began = clock()
        call(event)
        taken.append(clock() - began)
    return taken


def clock_ns() -> int:
    """Return what `singly` adds to each call."""
    return percentile(singly(lambda _: None), 0.5) - round(in_a_row(lambda: None))


def percentile(values: Sequence[int], share: float) -> int:
    """Return the value below which that share of them lies."""
    return sorted(values)[int(len(values) * share)]


def append_ns() -> float:
    """Return how long a deque.append takes."""
    bare = deque[ProofEvent]()
    return in_a_row(lambda: bare.append(EVENT))


def with_plugins(count: int, scale: Scale) -> list[Result]:
    """Measure with so many plugins that take events and do nothing."""
    ratios: list[float] = []
    single: list[int] = []
    with open_session(plugins=[Sink(number) for number in range(count)], source="benchmark") as session:
        for _ in range(scale.of(20)):
            session.flush(60.0)
            before = append_ns()
            ratios.append(in_a_row(lambda: session.emit(EVENT)) / before)
            session.flush(60.0)
            single += singly(session.emit)
    slow = (percentile(single, 0.999) - clock_ns()) / append_ns()
    name, against = f"emit with {count} plugins", "deque.append"
    return [
        Result(name, harness.middle(ratios).value, "x", harness.middle(ratios).noise, against, goal=6.0),
        Result(f"{name}, p99.9 of single calls", slow, "x", against=against, goal=100.0),
    ]


def at_work(stage: Backdrop, scale: Scale) -> list[Result]:
    """Measure while otel and record work: the producer computes a little between its calls, so that they can."""
    emits, empty, appends = list[int](), list[int](), list[float]()
    with (
        stage.observe(console=False) as session,
        session.proof(num_layers=1) as proof,
        proof.layer(1, kind=LayerKind.MatMul),
    ):
        for _ in range(scale.of(6)):
            emits += singly(proof.emit, ROUND, pause_us=PAUSE_US)
            # Both while the plugins work off what was emitted. A single append is too short for the clock.
            empty += singly(lambda _: None, ROUND, pause_us=PAUSE_US / 4)
            appends.append(append_ns())
    own = percentile(empty, 0.5) - round(in_a_row(lambda: None))
    typical, slow = percentile(emits, 0.5) - own, percentile(emits, 0.999) - own
    name = "emit while otel and record work"
    return [
        Result(name, typical / harness.middle(appends).value, "x", against="deque.append", goal=8.0),
        Result(f"{name}, p99.9 of single calls", slow / 1000, "us", goal=10.0),
    ]


def unheard(scale: Scale) -> list[Result]:
    """Measure emit_if where no plugin has anything to do, from its first call on."""
    called: list[int] = []

    def make() -> ProofEvent:
        called.append(1)
        return EVENT

    def empty() -> None:
        pass

    def measured(session: Session) -> float:
        return in_a_row(lambda: session.emit_if(make)) / in_a_row(lambda: empty())  # noqa: PLW0108 - called as the other

    ratios: list[float] = []
    for _ in range(scale.of(10)):
        with open_session(source="benchmark") as session:
            ratios += [measured(session) for _ in range(5)]
    name = "emit_if while nobody listens"
    return [
        Result(name, harness.middle(ratios).value, "x", harness.middle(ratios).noise, "an empty call", goal=2.5),
        Result(f"{name}, calls of its function", len(called), "calls", goal=0),
    ]


def measure(scale: Scale) -> list[Result]:
    """Measure all of them."""
    results = [*with_plugins(3, scale), *with_plugins(10, scale), *unheard(scale)]
    with backdrop() as stage:
        return results + at_work(stage, scale)


if __name__ == "__main__":
    harness.main(measure)
