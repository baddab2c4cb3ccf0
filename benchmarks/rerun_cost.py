"""Measures what the plugin `rerun` costs, and compares it with the naive way: entities, bytes, events/s and CPU time.

The proof has the size of a language model with 14 billion parameters: 281 layers, 160 of them matrix products with 2160
rounds in all, 3286 events.

CPU time is that of the plugin's thread while it handles batches, at 3000 events per second. It is measured twice:

- sustained: in one proof that is three times as large, from its second second on. This leaves out the cost of
  beginning a proof, its file and its layout.
- short proofs: in proofs of the size above, one after another, each little more than a second long, at full cost.

After each batch, the same thread is timed while it appends to a deque. A slow or busy machine slows both down, so their
ratio says more than microseconds do. Objects from before the measurement, such as the events of all proofs, are hidden
from Python's garbage collector: a scan of them takes 80 ms, in whichever thread it happens to start.
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
"""The layers of one block, each with its number of sumcheck rounds."""

BLOCKS = 40
LONG = 3
"""How many times more blocks the long proof has."""
SHAPE = (1, 5120)

EVENTS_PER_S = 3000
PROOFS = 4
APPENDS = 2000
TICKS_PER_S = 100
BATCH = 150
"""Events in a batch: as many as the bus collects in 50 ms at that pace."""

REPEATS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The cost of writing the proof to a file."""

    entities: int
    file_bytes: int
    seconds: float


def events(blocks: int = BLOCKS) -> Iterator[ProofEvent]:
    """Yield one proof in the order of real provers: all activations, then the walk from the last layer to the first."""
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
    """Yield the events of one layer's reduction."""
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
    """Return the plugin's connections: one file."""
    return [f"file:{path}"]


def naively(stream: list[Envelope], path: Path) -> None:
    """Write the stream the naive way, with one call or more for each event."""
    sink = NaiveRerun(path)
    for envelope in stream:
        sink.log(envelope.event)
    sink.close()


def by_plugin(stream: list[Envelope], path: Path) -> None:
    """Write the stream with the plugin, in batches as a lane delivers them."""
    host = InlineHost(RerunPlugin(connections=into(path)))
    host.feed(stream, batch_size=BATCH)
    host.close()


def cost_of(write: Callable[[list[Envelope], Path], None], stream: list[Envelope]) -> Cost:
    """Return the cost of the best of a few runs, each into a new file."""
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
    """CPU time of an event (us) and of an append to a deque (ns), and their ratio."""

    event_us: float
    append_ns: float
    appends: float


class Measured(RerunPlugin):
    """Sums the CPU time that its thread spends on batches, after the first `skip` events.

    Attributes:
        cpu_s: The CPU time of the batches that count, in seconds.
        events: How many events those batches had.
        append_s: The CPU time of APPENDS appends to a deque after each of those batches, in seconds.
        batches: How many batches counted.
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
        """Draw the batch and measure the CPU time."""
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
        """The averages of an event and of an append."""
        event_us, append_ns = self.cpu_s / self.events * 1e6, self.append_s / (self.batches * APPENDS) * 1e9
        return Load(event_us=event_us, append_ns=append_ns, appends=event_us * 1000 / append_ns)


def cpu_of_appends() -> float:
    """Return the CPU time of APPENDS appends to a deque, in seconds."""
    append = deque[int]().append
    began = time.thread_time()
    for number in range(APPENDS):
        append(number)
    return time.thread_time() - began


class Null(RecordingPlugin):
    """Ignores every event."""

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Ignore the batch."""


def paced(plugin: object, first: list[ProofEvent], stream: list[ProofEvent]) -> float:
    """Emit a stream at EVENTS_PER_S, and return the CPU time of the process in seconds.

    The events in `first` come before, at once and unmeasured.
    """
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
    """Return the CPU time of the plugin's thread, in the middle of a long proof and over whole short proofs.

    A proof before each measurement keeps imports and compilation out of it.
    """
    proof, long_proof = list(events()), list(events(BLOCKS * LONG))
    with tempfile.TemporaryDirectory() as folder:
        sustained = Measured(Path(folder) / "long.rrd", skip=len(proof) + EVENTS_PER_S)
        paced(sustained, proof, long_proof)
        short = Measured(Path(folder) / "short.rrd", skip=len(proof))
        paced(short, proof, proof * PROOFS)
    return {"sustained": sustained.load, "short_proofs": short.load}


def cpu_of_process() -> float:
    """Return the CPU time of the process for an event of short proofs in us, minus the same with an idle plugin.

    It includes Rerun's own threads, which write the files.
    """
    proof = list(events())
    nothing = paced(Null("null"), proof, proof * PROOFS)
    with tempfile.TemporaryDirectory() as folder:
        something = paced(RerunPlugin(connections=into(Path(folder) / "process.rrd")), proof, proof * PROOFS)
    return (something - nothing) / (len(proof) * PROOFS) * 1e6


def main() -> None:
    """Measure, and print the figures as text or JSON."""
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
