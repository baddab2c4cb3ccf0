"""What the plugin `rerun` costs, beside the naive way in the same run: entities, bytes, events a second; CPU time.

The proof is of the size of a language model of 14 billion parameters: 281 layers, 160 of them matrix products with 2160
rounds in all, 3286 events.

CPU time is that of the plugin's thread while it handles batches, at 3000 events a second. It is given twice: for one
proof three times as large, from its second second on, which leaves out what it costs to begin one, its file and its
layout; and for proofs of the size above, one after the other, each over after little more than a second, with all they
cost. Beside it stands what an append to a deque takes on that thread, after each batch. A machine that is slow or busy
makes both slower, so their ratio tells more than microseconds do. What was in memory before, such as the events of all
proofs, is kept from Python's garbage collector: to look through it takes 80 ms, in whichever thread it happens to fall.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rerun.chunk import RrdReader
from rerun_naive import NaiveRerun

from proofstream import (
    ActivationStats,
    Batch,
    Envelope,
    GpuSnapshot,
    GpuStatus,
    LayerActivation,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    ProofComplete,
    ProofEvent,
    ProofStart,
    RoundPoly,
    SecureField,
    SumcheckRound,
    hookimpl,
    open_session,
)
from proofstream.testing import InlineHost, RecordingPlugin, envelopes
from proofstream_rerun import RerunPlugin

M31_PRIME = 2**31 - 1

BLOCK = (
    (LayerKind.RMSNorm, 0),
    (LayerKind.MatMul, 13),
    (LayerKind.MatMul, 13),
    (LayerKind.RMSNorm, 0),
    (LayerKind.MatMul, 13),
    (LayerKind.Activation, 0),
    (LayerKind.MatMul, 15),
)
"""The layers of one block, with the rounds that each is proved in."""

BLOCKS = 40
LONG = 3
"""So many times as many blocks has the long proof."""
SHAPE = (1, 5120)

EVENTS_PER_S = 3000
PROOFS = 4
APPENDS = 2000
TICKS_PER_S = 100
BATCH = 150
"""Events in a batch: what the bus collects in 50 ms at that pace."""

REPEATS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What it took to put the proof into a file."""

    entities: int
    file_bytes: int
    seconds: float


def events(blocks: int = BLOCKS) -> Iterator[ProofEvent]:
    """One proof, in the order of real provers: all activations, then the walk from the last layer to the first."""
    chance = random.Random(1)
    layers = [*BLOCK * blocks, (LayerKind.RMSNorm, 0)]
    stats = ActivationStats(mean=0.1, std_dev=1.0, min=-3.0, max=3.0, sparsity=0.02)
    for layer, (kind, _) in enumerate(layers):
        sample = [chance.randrange(M31_PRIME) for _ in range(64)]
        yield LayerActivation(
            layer_idx=layer, node_id=layer, kind=kind, output_shape=SHAPE, output_sample=sample, stats=stats
        )
    yield ProofStart(
        model_name="qwen3-14b", backend="gpu", num_layers=len(layers), input_shape=SHAPE, output_shape=SHAPE
    )
    for done, (layer, (kind, rounds)) in enumerate(reversed(list(enumerate(layers))), start=1):
        yield from walk_of(layer, kind, rounds, chance)
        device = GpuSnapshot(device_id=0, device_name="gpu", utilization=done / len(layers), free_memory_bytes=10**10)
        yield GpuStatus(
            devices=[device], matmul_done=done, matmul_total=160, layers_done=done, layers_total=len(layers)
        )
    yield ProofComplete(
        duration_ms=47_000, num_layer_proofs=len(layers), num_weight_openings=0, weight_binding_mode="aggregated"
    )


def walk_of(layer: int, kind: LayerKind, rounds: int, chance: random.Random) -> Iterator[ProofEvent]:
    """One layer's reduction."""
    yield LayerStart(
        layer_idx=layer,
        kind=kind,
        input_shape=SHAPE,
        output_shape=SHAPE,
        trace_cost=5120 * (rounds + 1),
        claim_value_approx=chance.random(),
        gpu_device=0,
    )
    for number in range(rounds):
        c0, c1, c2 = (SecureField(*(chance.randrange(M31_PRIME) for _ in range(4))) for _ in range(3))
        yield SumcheckRound(
            layer_idx=layer,
            round=number,
            total_rounds=rounds,
            poly_deg2=RoundPoly(c0=c0, c1=c1, c2=c2),
            poly_deg3=None,
            claim_value_approx=chance.random(),
        )
    yield LayerEnd(
        layer_idx=layer,
        kind=LayerProofKind.Sumcheck if rounds else LayerProofKind.Linear,
        final_claim_value_approx=chance.random(),
        duration_ms=rounds,
        rounds_completed=rounds,
    )


def into(path: Path) -> list[str]:
    """The plugin's connections: a file, nothing else."""
    return [f"file:{path}"]


def naively(stream: list[Envelope], path: Path) -> None:
    """One call for each event and more."""
    sink = NaiveRerun(path)
    for envelope in stream:
        sink.log(envelope.event)
    sink.close()


def by_plugin(stream: list[Envelope], path: Path) -> None:
    """As a lane hands it over."""
    host = InlineHost(RerunPlugin(connections=into(path)))
    host.feed(stream, batch_size=BATCH)
    host.close()


def cost_of(write: Callable[[list[Envelope], Path], None], stream: list[Envelope]) -> Cost:
    """The best of a few runs, each into a file of its own."""
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(REPEATS):
            path = Path(folder) / f"{number}.rrd"
            began = time.perf_counter()
            write(stream, path)
            seconds.append(time.perf_counter() - began)
        store = RrdReader(path).store()
        return Cost(entities=len(store.schema().entity_paths()), file_bytes=path.stat().st_size, seconds=min(seconds))


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """CPU time for an event in us, for an append to a deque in ns, and how many appends an event is worth."""

    event_us: float
    append_ns: float
    appends: float


class Measured(RerunPlugin):
    """Sums the CPU time that its thread spends on batches, but for those with the first events.

    Attributes:
        cpu_s: That time.
        events: Events in those batches.
        append_s: CPU time of appends to a deque, APPENDS of them after each of those batches.
        batches: How many those are.
    """

    def __init__(self, path: Path, *, skip: int) -> None:
        super().__init__(connections=into(path))
        self.cpu_s = 0.0
        self.events = 0
        self.append_s = 0.0
        self.batches = 0
        self._skip = skip

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """As it is, with a watch."""
        began = time.thread_time()
        super().proofstream_consume(batch)
        took = time.thread_time() - began
        self._skip -= len(batch)
        if self._skip < 0:
            self.cpu_s += took
            self.events += len(batch)
            self.batches += 1
            self.append_s += cpu_of_appends()

    @property
    def load(self) -> Load:
        """What an event and an append took on average."""
        event_us, append_ns = self.cpu_s / self.events * 1e6, self.append_s / (self.batches * APPENDS) * 1e9
        return Load(event_us=event_us, append_ns=append_ns, appends=event_us * 1000 / append_ns)


def cpu_of_appends() -> float:
    """CPU time of APPENDS appends to a deque, in seconds."""
    append = deque[int]().append
    began = time.thread_time()
    for number in range(APPENDS):
        append(number)
    return time.thread_time() - began


class Null(RecordingPlugin):
    """Forgets what it is given."""

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Let go of it."""


def paced(plugin: object, first: list[ProofEvent], stream: list[ProofEvent]) -> float:
    """The CPU time of the process in seconds for events that come at their pace; a proof comes before, at once."""
    with open_session(plugins=[plugin], source="benchmark") as session:
        for event in first:
            session.emit(event)
        session.flush(30.0)
        gc.collect()
        gc.freeze()
        began, start = time.process_time(), time.perf_counter()
        each = EVENTS_PER_S // TICKS_PER_S
        for tick, place in enumerate(range(0, len(stream), each), start=1):
            for event in stream[place : place + each]:
                session.emit(event)
            time.sleep(max(0.0, start + tick / TICKS_PER_S - time.perf_counter()))
        session.flush(30.0)
    gc.unfreeze()
    return time.process_time() - began


def cpu_per_event() -> dict[str, Load]:
    """CPU time of the plugin's thread: in a long proof once it runs, and in short ones with all they cost.

    What is imported and compiled for the first proof is no part of it.
    """
    proof, long_proof = list(events()), list(events(BLOCKS * LONG))
    with tempfile.TemporaryDirectory() as folder:
        sustained = Measured(Path(folder) / "long.rrd", skip=len(proof) + EVENTS_PER_S)
        paced(sustained, proof, long_proof)
        short = Measured(Path(folder) / "short.rrd", skip=len(proof))
        paced(short, proof, proof * PROOFS)
    return {"sustained": sustained.load, "short_proofs": short.load}


def cpu_of_process() -> float:
    """CPU time of the process for an event of short proofs in us, less that with a plugin that is idle.

    That is with Rerun's own threads, which put files together.
    """
    proof = list(events())
    nothing = paced(Null("null"), proof, proof * PROOFS)
    with tempfile.TemporaryDirectory() as folder:
        something = paced(RerunPlugin(connections=into(Path(folder) / "process.rrd")), proof, proof * PROOFS)
    return (something - nothing) / (len(proof) * PROOFS) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    as_json = parser.parse_args().json
    stream = envelopes(events())
    naive, plugin = cost_of(naively, stream), cost_of(by_plugin, stream)
    loads, process_us = cpu_per_event(), cpu_of_process()
    ratios = {
        "entities": naive.entities / plugin.entities,
        "file_bytes": naive.file_bytes / plugin.file_bytes,
        "events_per_s": naive.seconds / plugin.seconds,
    }
    if as_json:
        cpu = {"process_us": process_us, **{name: asdict(load) for name, load in loads.items()}}
        json.dump({"naive": asdict(naive), "plugin": asdict(plugin), "ratios": ratios, "cpu": cpu}, sys.stdout)
        return
    for name, cost in (("naive", naive), ("plugin", plugin)):
        rate = len(stream) / cost.seconds
        print(f"{name}: {cost.entities} entities, {cost.file_bytes / 1000:.0f} kB, {rate:.0f} events/s")
    print("the naive way takes " + ", ".join(f"{ratio:.1f} times the {what}" for what, ratio in ratios.items()))
    print(f"CPU time of an event at {EVENTS_PER_S}/s:")
    for name, load in loads.items():
        unit = f"{load.appends:.0f} appends of {load.append_ns:.1f} ns"
        print(f"  {name.replace('_', ' ')}: {load.event_us:.1f} us on the lane, which is {unit}")
    print(f"  short proofs: {process_us:.1f} us in the process, with Rerun's own threads")


if __name__ == "__main__":
    main()
