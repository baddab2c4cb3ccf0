"""Reconstructs times for a file of bare lines from the durations that the producer reported.

Bare lines carry no time. The only durations in such a file are the `duration_ms` of end events, and the only known
moment is the file's modification time. So the events are placed one after the other, each as long as it reports, and
shifted so that the latest one falls on the modification time. The same file always gives the same times.

Two passes are needed: where the first event lies is known only after all durations were added up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from proofstream.errors import WireError
from proofstream.events import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    LayerEnd,
    LayerStart,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream.sources.lines import LineSplitter, NumberedLine
from proofstream.sources.stored import CutShort
from proofstream.timeline import LONGEST_BELIEVABLE_MS
from proofstream.wire import Decoded, LineDecoder

_NS_PER_MS = 1_000_000
_ID_HEX_DIGITS = 32
# Lines of these kinds never advance the time. They are most of a stream, so the first pass skips decoding them.
_TIMELESS = (b'{"SumcheckRound":', b'{"LayerActivation":', b'{"GpuStatus":')


class Layout:
    """Places the events of one file on a time axis in nanoseconds that begins at 0.

    Times come from a cursor. An end event moves it to the latest end so far, so intervals that overlap keep their
    starts and their own lengths, and the next event follows the last of them to end.
    """

    def __init__(self) -> None:
        self._cursor = 0
        # Start times of open intervals by job and key. A stack, since a weight may be opened again too early.
        self._begun: dict[str | None, dict[Hashable, list[int]]] = {}

    @property
    def total_ns(self) -> int:
        """The latest time so far, in nanoseconds."""
        return self._cursor

    def place(self, decoded: Decoded) -> int:
        """Place the next event. Returns its time in nanoseconds from the beginning."""
        rule = self._RULES.get(type(decoded.event))
        return self._cursor if rule is None else rule(self, decoded.job_id, decoded.event)

    def _forget(self, job: str | None, event: ProofEvent) -> int:
        del event
        # Layers whose end never came must not lend their start to the layers of the next proof.
        self._begun.pop(job, None)
        return self._cursor

    def _layer_start(self, job: str | None, event: ProofEvent) -> int:
        # Replaces an earlier start: a layer index is open only once, and some layers never report their end.
        self._begun.setdefault(job, {})[_key(event)] = [self._cursor]
        return self._cursor

    def _start(self, job: str | None, event: ProofEvent) -> int:
        self._begun.setdefault(job, {}).setdefault(_key(event), []).append(self._cursor)
        return self._cursor

    def _inside(self, job: str | None, event: ProofEvent) -> int:
        # Producers emit rounds in a burst after the layer's work, so all of them get the start of the layer.
        starts = self._begun.get(job, {}).get(_key(event))
        return starts[-1] if starts else self._cursor

    def _end(self, job: str | None, event: ProofEvent) -> int:
        begun = self._begun.get(job, {})
        starts = begun.get(_key(event))
        start = starts.pop() if starts else self._cursor
        if not starts:
            begun.pop(_key(event), None)
        end = start + _believed_ns(event)
        self._cursor = max(self._cursor, end)
        return end

    _RULES: ClassVar[dict[type[ProofEvent], Callable[[Layout, str | None, ProofEvent], int]]] = {
        ProofStart: _forget,
        ProofComplete: _forget,
        LayerStart: _layer_start,
        SumcheckRound: _inside,
        LayerEnd: _end,
        WeightOpeningStart: _start,
        WeightOpeningEnd: _end,
        AggregatedBindingStart: _start,
        AggregatedBindingEnd: _end,
        StarkProofStart: _start,
        StarkProofEnd: _end,
    }


def _key(event: ProofEvent) -> Hashable:
    match event:
        case LayerStart(layer_idx=index) | LayerEnd(layer_idx=index) | SumcheckRound(layer_idx=index):
            return "layer", index
        case WeightOpeningStart(weight_node_id=node) | WeightOpeningEnd(weight_node_id=node):
            return "weight", node
        case AggregatedBindingStart() | AggregatedBindingEnd():
            return "binding"
        case _:
            return "stark"


def _believed_ns(event: ProofEvent) -> int:
    assert isinstance(event, LayerEnd | WeightOpeningEnd | AggregatedBindingEnd | StarkProofEnd)
    return event.duration_ms * _NS_PER_MS if event.duration_ms <= LONGEST_BELIEVABLE_MS else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """The result of the first pass over a file.

    Attributes:
        session_id: Id of the session of the bare lines. Depends only on the content and the modification time.
        begins_unix_nano: Time of the first bare line. It puts the latest one at `ends_unix_nano`.
        ends_unix_nano: The file's modification time, in nanoseconds since the epoch.
    """

    session_id: str
    begins_unix_nano: int
    ends_unix_nano: int


def scan(
    content: Iterable[bytes],
    decoder: LineDecoder,
    *,
    max_line_bytes: int,
    mtime_ns: int,
    last_line: bool = True,
    stopped: Callable[[], bool] = lambda: False,
) -> Scan | None:
    """Read a file's content once, to add up how long its events took.

    Args:
        content: All bytes of the file, decompressed.
        decoder: Decodes one line.
        max_line_bytes: The longest line that is read.
        mtime_ns: When the file was last written, in nanoseconds since the epoch.
        last_line: Count a last line without a newline. Set to False if the rest of that line may still be written.
        stopped: Called between blocks. Returns True to give up.

    Returns:
        The result. None if the first readable line has its own time, in which case the rest is not read, or if stopped.
    """
    first_pass = _FirstPass(decoder, max_line_bytes)
    try:
        for block in content:
            first_pass.add_block(block)
            if first_pass.has_times or stopped():
                return None
    except CutShort:
        pass  # the second pass reports it
    if last_line:
        first_pass.finish()
    if first_pass.has_times:
        return None
    ends = max(0, mtime_ns)
    # The modification time is part of the id: another run of the prover may write the same bytes.
    identity = b"%b %d" % (first_pass.digest.digest(), ends)
    return Scan(
        session_id=hashlib.sha256(identity).hexdigest()[:_ID_HEX_DIGITS],
        begins_unix_nano=ends - first_pass.layout.total_ns,
        ends_unix_nano=ends,
    )


class _FirstPass:
    def __init__(self, decoder: LineDecoder, max_line_bytes: int) -> None:
        self.digest = hashlib.sha256()
        self.layout = Layout()
        self.has_times = False
        self._decoder = decoder
        self._splitter = LineSplitter(max_line_bytes)
        self._decided = False

    def add_block(self, block: bytes) -> None:
        self.digest.update(block)
        for line in self._splitter.split_bytes(block):
            self._add_line(line)
            if self.has_times:
                return

    def finish(self) -> None:
        last = self._splitter.finish()
        if last is not None:
            self._add_line(last)

    def _add_line(self, line: NumberedLine) -> None:
        if line.too_long or (self._decided and line.text.startswith(_TIMELESS)):
            return
        try:
            decoded = self._decoder.decode(line.text)
        except WireError:
            return
        has_time = decoded.time_unix_nano is not None
        if not self._decided:
            self._decided = True
            self.has_times = has_time
        if not has_time:
            self.layout.place(decoded)


class Reconstruction:
    """Times the bare lines of a scanned file, in the second pass."""

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._layout = Layout()

    def time_of(self, decoded: Decoded) -> int:
        """Return the time of the next bare line, in nanoseconds since the epoch."""
        time = self._found.begins_unix_nano + self._layout.place(decoded)
        # Long durations may reach back before the epoch. If the file changed meanwhile, times may pass its end.
        return max(0, min(time, self._found.ends_unix_nano))

    def timed(self, decoded: Decoded) -> Decoded:
        """Return the event with a reconstructed time, or unchanged if it has its own."""
        if decoded.time_unix_nano is not None:
            return decoded
        return decoded.at(self.time_of(decoded))
