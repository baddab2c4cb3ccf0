"""Measures what otel, record and console together cost a producer in Python while it runs.

The producer computes in a prime field between events, as long as makes it run at a given rate alone. Its speed is
events per second by the clock, which on a shared machine is noisy. So a second figure tells the same by processor time:
all threads share the interpreter's lock, and the producer cannot keep more than its share of what they take together.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import harness
from backdrop import Backdrop, backdrop
from harness import Result, Scale

from proofstream import (
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    ProofEvent,
    RoundPoly,
    SecureField,
    SumcheckRound,
)

GOALS = {3_000: 97.0, 20_000: 75.0}
"""Events per second of the producer alone, and how much of that it must keep, in percent."""

ROUNDS_PER_LAYER = 200
_PRIME = 2**31 - 1

Emit = Callable[[ProofEvent], object]


class Speed(NamedTuple):
    """One round."""

    events_per_s: float
    own_cpu_us: float
    other_cpu_us: float


def work(steps: int, x: int = 3) -> int:
    """Compute in the field."""
    for _ in range(steps):
        x = (x * x + 7) % _PRIME
    return x


def produce(steps: int, seconds: float, emit: Emit | None) -> Speed:
    """Run the producer for so long. Without `emit`, it makes no events."""
    count, layer, x = 0, 0, 3
    began, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
    while time.perf_counter() - began < seconds:
        if emit is not None:
            emit(_start(layer))
        for index in range(ROUNDS_PER_LAYER):
            x = work(steps, x)
            if emit is not None:
                limb = SecureField(a=x, b=1, c=2, d=3)
                emit(
                    SumcheckRound(
                        layer_idx=layer,
                        round=index,
                        total_rounds=ROUNDS_PER_LAYER,
                        poly_deg2=RoundPoly(c0=limb, c1=limb, c2=limb),
                        poly_deg3=None,
                        claim_value_approx=0.25,
                    )
                )
        if emit is not None:
            emit(_end(layer))
        count += ROUNDS_PER_LAYER + 2
        layer += 1
    took = time.perf_counter() - began
    own = time.thread_time() - own
    return Speed(count / took, own / count * 1e6, (time.process_time() - cpu - own) / count * 1e6)


def _start(layer: int) -> LayerStart:
    return LayerStart(
        layer_idx=layer,
        kind=LayerKind.MatMul,
        input_shape=(1, 64),
        output_shape=(1, 64),
        trace_cost=64,
        claim_value_approx=0.5,
        gpu_device=None,
    )


def _end(layer: int) -> LayerEnd:
    return LayerEnd(
        layer_idx=layer,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=0.5,
        duration_ms=1,
        rounds_completed=ROUNDS_PER_LAYER,
    )


def steps_for(rate: int) -> int:
    """Return how many steps between events make the producer run at that rate alone."""
    step = min(_time_of_step() for _ in range(5))
    return max(1, round(1 / rate / step))


def _time_of_step() -> float:
    began = time.thread_time()
    work(200_000)
    return (time.thread_time() - began) / 200_000


class Found(NamedTuple):
    """What was measured at one rate, in each round."""

    alone: list[Speed]
    observed: list[Speed]
    kept: list[float]
    """The share of its speed that the producer kept, in percent."""
    kept_of_cpu: list[float]
    """The producer's share of the processor time, in percent of what it takes alone."""
    lost: int


def measured(stage: Backdrop, rate: int, *, rounds: int, seconds: float, console: bool = True) -> Found:
    """Alternate rounds alone and observed."""
    steps = steps_for(rate)
    found = Found([], [], [], [], 0)
    produce(steps, seconds / 2, None)
    before = produce(steps, seconds, None)
    for _ in range(rounds):
        session = stage.observe(console=console)
        with session.proof(num_layers=100_000) as proof:
            produce(steps, seconds / 2, proof.emit)  # until the plugins have loaded what they need
            observed = produce(steps, seconds, proof.emit)
        session.flush(60.0)
        lost = sum(session.dropped.take_counts().values())
        session.close()
        after = produce(steps, seconds, None)
        alone = _median([before, after])
        found.alone.append(alone)
        found.observed.append(observed)
        found.kept.append(observed.events_per_s / alone.events_per_s * 100)
        found.kept_of_cpu.append(alone.own_cpu_us / (observed.own_cpu_us + observed.other_cpu_us) * 100)
        found = found._replace(lost=found.lost + lost)
        before = after
    return found


def _median(speeds: list[Speed]) -> Speed:
    return Speed(*(statistics.median(column) for column in zip(*speeds, strict=True)))


def measure(scale: Scale) -> list[Result]:
    """Measure at each rate."""
    results: list[Result] = []
    with backdrop() as stage:
        for rate, goal in GOALS.items():
            found = measured(stage, rate, rounds=scale.of(7), seconds=max(0.5, min(1.0, scale.size)))
            alone, observed = _median(found.alone), _median(found.observed)
            note = (
                f"alone {alone.events_per_s:.0f} events/s; processor time of an event: producer"
                f" {observed.own_cpu_us:.1f} us, alone {alone.own_cpu_us:.1f} us, other threads"
                f" {observed.other_cpu_us:.1f} us; {found.lost} lost"
            )
            name, against = f"producer at {rate:,} events/s keeps", "the same alone"
            by_clock, by_cpu = harness.middle(found.kept), harness.middle(found.kept_of_cpu)
            results += [
                Result(name, by_clock.value, "%", by_clock.noise, against, goal, "higher", note),
                Result(f"{name}, by processor time", by_cpu.value, "%", by_cpu.noise, against, goal, "higher"),
                Result(f"other threads at {rate:,} events/s", observed.other_cpu_us, "us per event"),
            ]
    return results


if __name__ == "__main__":
    harness.main(measure)
