"""What drawing a proof into a file of Rerun costs, against the naive way: a call of Rerun's SDK for each event or more.

`rerun_naive.py` is the naive way: the picture of the original Rust sink, with an entity for each bar. Both sides get
decoded events, and both are measured to the end of their file, in processor time of the process with Rerun's own
threads. The plugin gets them in batches, as a lane delivers them.

"Live" is the processor time on the plugin's thread alone while events come at 3,000 a second. There are pauses between
batches, so caches are cold, and the rows are written several times a second however few there are.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import harness
import msgspec
from harness import Result, Scale
from rerun.chunk import RrdReader
from rerun_naive import NaiveRerun

import proofstream
from proofstream import Batch, Catalog, Envelope, LineDecoder, ProofEvent, hookimpl, open_session
from proofstream.testing import InlineHost, envelopes
from proofstream_rerun import RerunPlugin

ROUNDS = 60
"""Rounds of a layer where the naive way is measured: it takes ten seconds and more for a proof of real length."""
LONG = 468
"""Rounds of a layer in a long proof: with 281 layers, 131,512 events."""
BATCH = 512
EVENTS_PER_S = 3000
LIVE_S = 6.0
TICKS_PER_S = 100
_NO_KINDS = ("ProofEvent", "UnknownEvent")


class Drawing(NamedTuple):
    """One drawing of a proof.

    Attributes:
        cpu_s: The processor time that it took.
        entities: How many entities it has.
        file_bytes: The size of its file.
    """

    cpu_s: float
    entities: int
    file_bytes: int


def naively(stream: Sequence[Envelope], path: Path) -> None:
    """Draw the stream the naive way."""
    sink = NaiveRerun(path)
    for envelope in stream:
        sink.log(envelope.event)
    sink.close()


def by_plugin(stream: Sequence[Envelope], path: Path) -> None:
    """Draw the stream with the plugin."""
    host = InlineHost(RerunPlugin(connections=[f"file:{path}"]))
    host.feed(stream, batch_size=BATCH)
    host.close()


def drawn(draw: Callable[[Sequence[Envelope], Path], None], stream: Sequence[Envelope]) -> Drawing:
    """Draw a stream into a new file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.rrd"
        cpu_s = harness.cpu_s(lambda: draw(stream, path))
        entities = len(RrdReader(path).store().schema().entity_paths())
        return Drawing(cpu_s, entities, path.stat().st_size)


class Measured(RerunPlugin):
    """Sums the processor time that its thread spends on batches.

    Attributes:
        cpu_s: The processor time of the batches, in seconds.
        events: How many events they had.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(connections=[f"file:{path}"])
        self.cpu_s = 0.0
        self.events = 0

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Draw the batch."""
        began = time.thread_time()
        super().proofstream_consume(batch)
        self.cpu_s += time.thread_time() - began
        self.events += len(batch)


def live_us(events: Sequence[ProofEvent], seconds: float) -> float:
    """Emit events at EVENTS_PER_S; return the processor time of one on the plugin's thread, after the first second."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = Measured(Path(folder) / "live.rrd")
        with open_session(plugins=[plugin], source="benchmark") as session:
            each = EVENTS_PER_S // TICKS_PER_S
            first = EVENTS_PER_S
            for event in events[:first]:
                session.emit(event)
            session.flush(30.0)
            cpu_s, before = plugin.cpu_s, plugin.events
            start = time.perf_counter()
            for tick in range(round(seconds * TICKS_PER_S)):
                for event in events[first + tick * each : first + (tick + 1) * each]:
                    session.emit(event)
                time.sleep(max(0.0, start + (tick + 1) / TICKS_PER_S - time.perf_counter()))
            session.flush(30.0)
            return (plugin.cpu_s - cpu_s) / max(1, plugin.events - before) * 1e6


def decoded(lines: Sequence[bytes]) -> None:
    """Decode the lines with msgspec alone, into the same types."""
    named = {name: kind for name, kind in vars(proofstream.events).items() if isinstance(kind, type)}
    kinds = {name: kind for name, kind in named.items() if issubclass(kind, ProofEvent)}
    fields = [(name, kind | msgspec.UnsetType, msgspec.UNSET) for name, kind in kinds.items() if name not in _NO_KINDS]
    decode = msgspec.json.Decoder(msgspec.defstruct("Line", fields)).decode
    for line in lines:
        decode(line)


def measure(scale: Scale) -> list[Result]:
    """Compare the two ways on a proof, and the plugin with decoding on a long one."""
    whole, lines = _stream(harness.proof()), harness.proof(rounds=scale.of(LONG, least=4))
    middle, long = _stream(harness.proof(rounds=scale.of(ROUNDS, least=4))), _stream(lines)
    drawn(by_plugin, whole)  # imports and compiles
    naive, plugin = drawn(naively, whole), drawn(by_plugin, whole)
    # A scan of all these events takes the collector 80 ms, in whichever side it happens to start.
    gc.collect()
    gc.freeze()
    sides: dict[str, Callable[[], float]] = {
        "naive": lambda: drawn(naively, middle).cpu_s,
        "plugin": lambda: drawn(by_plugin, middle).cpu_s,
        "naive whole": lambda: drawn(naively, whole).cpu_s,
        "plugin whole": lambda: drawn(by_plugin, whole).cpu_s,
        "long": lambda: drawn(by_plugin, long).cpu_s,
        "bare": lambda: harness.cpu_s(lambda: decoded(lines)),
        "live": lambda: live_us([envelope.event for envelope in long[1:-1]], LIVE_S * min(1.0, scale.size)),
    }
    found = harness.alternate(sides, scale.rounds)
    gain, short = (harness.ratio(found[f"naive{form}"], found[f"plugin{form}"]) for form in ("", " whole"))
    share = harness.ratio(found["long"], found["bare"])
    event, live = harness.middle(found["long"], 1e6 / len(long)), harness.middle(found["live"])
    way, count = "a call of Rerun's SDK for each event", f"281 layers, {len(middle):,} events"
    return [
        Result("rerun to file, gain", gain.value, "x", gain.noise, way, 30.0, "higher", count),
        Result("rerun to file, a long proof", share.value, "x", share.noise, "msgspec decoding the same lines", 5.2),
        Result("rerun to file, per event of a long proof", event.value, "us", event.noise, goal=12.0),
        Result("rerun, live, per event on its thread", live.value, "us", live.noise, note="3,000 events a second"),
        Result("rerun, a short proof with activations, gain", short.value, "x", short.noise, way, better="higher"),
        Result("rerun, entities, gain", naive.entities / plugin.entities, "x", against=way, better="higher"),
        Result(
            "rerun, bytes of the file, gain", naive.file_bytes / plugin.file_bytes, "x", against=way, better="higher"
        ),
    ]


def _stream(lines: Sequence[bytes]) -> list[Envelope]:
    decode = LineDecoder(Catalog()).decode
    return envelopes(decode(line) for line in lines)


if __name__ == "__main__":
    harness.main(measure)
