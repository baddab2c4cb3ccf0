"""Times for a file of bare lines, which have none: laid out from the durations that the producer reported.

The only measured time in such a file is the `duration_ms` of what ended, and the only moment known is when the file
was last written. So the events are laid out one after the other, as long as they say they took, and moved so that the
latest of them falls on the file's modification time. The same file gives the same times.
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
from proofstream.sources.compression import CutShort
from proofstream.sources.lines import LineSplitter, NumberedLine
from proofstream.timeline import LONGEST_BELIEVABLE_MS
from proofstream.wire import Decoded, LineDecoder

_NS_PER_MS = 1_000_000
_ID_HEX_DIGITS = 32
# Lines that begin so take no time, whatever else they say; together they are nearly all of a stream.
_TIMELESS = (b'{"SumcheckRound":', b'{"LayerActivation":', b'{"GpuStatus":')


class Layout:
    """Places the events of one file on a line of time that begins at 0, in nanoseconds."""

    def __init__(self) -> None:
        self._cursor = 0
        self._begun: dict[str | None, dict[Hashable, list[int]]] = {}

    @property
    def total_ns(self) -> int:
        """The latest time so far."""
        return self._cursor

    def place(self, decoded: Decoded) -> int:
        """The time of the next event, in nanoseconds from the beginning."""
        rule = self._RULES.get(type(decoded.event))
        return self._cursor if rule is None else rule(self, decoded.job_id, decoded.event)

    def _forget(self, job: str | None, event: ProofEvent) -> int:
        del event
        self._begun.pop(job, None)
        return self._cursor

    def _layer_start(self, job: str | None, event: ProofEvent) -> int:
        self._begun.setdefault(job, {})[_key(event)] = [self._cursor]
        return self._cursor

    def _start(self, job: str | None, event: ProofEvent) -> int:
        self._begun.setdefault(job, {}).setdefault(_key(event), []).append(self._cursor)
        return self._cursor

    def _inside(self, job: str | None, event: ProofEvent) -> int:
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
    """What the first pass over a file found.

    Attributes:
        session_id: Of the session that the bare lines make up: the same for the same content and modification time.
        begins_unix_nano: When the first bare line happened, so that the latest one falls on `ends_unix_nano`.
        ends_unix_nano: The file's modification time.
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
    """Read a file's content once, to know how long its events took.

    Args:
        content: All of its bytes, decompressed.
        decoder: Reads one line.
        max_line_bytes: The longest line that is read.
        mtime_ns: When the file was last written, in nanoseconds since the epoch.
        last_line: Whether a last line without an ending counts; more of it may come otherwise.
        stopped: Asked now and then whether to give up; what is found is then of no use.

    Returns:
        What was found, or None if the first line that can be read has a time of its own. The rest is then not read.
    """
    first_pass = _FirstPass(decoder, max_line_bytes)
    try:
        for block in content:
            first_pass.feed(block)
            if first_pass.has_times or stopped():
                return None
    except CutShort:
        pass
    if last_line:
        first_pass.finish()
    if first_pass.has_times:
        return None
    ends = max(0, mtime_ns)
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

    def feed(self, block: bytes) -> None:
        self.digest.update(block)
        for line in self._splitter.split_bytes(block):
            self._take(line)
            if self.has_times:
                return

    def finish(self) -> None:
        last = self._splitter.finish()
        if last is not None:
            self._take(last)

    def _take(self, line: NumberedLine) -> None:
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
    """Gives the bare lines of a scanned file their times, in the second pass."""

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._layout = Layout()

    def time_of(self, decoded: Decoded) -> int:
        """The time of the next bare line."""
        time = self._found.begins_unix_nano + self._layout.place(decoded)
        # Nothing happened before the epoch, and nothing after the file was last written.
        return max(0, min(time, self._found.ends_unix_nano))

    def timed(self, decoded: Decoded) -> Decoded:
        """The event with its time; one that has a time of its own keeps it."""
        if decoded.time_unix_nano is not None:
            return decoded
        return decoded.at(self.time_of(decoded))
