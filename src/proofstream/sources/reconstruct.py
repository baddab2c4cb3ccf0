"""Reconstructs times for a file of bare lines from the durations that the producer reported.

Bare lines carry no time. The only durations in such a file are those of end events, and the only known
moment is the file's modification time. So the events are placed one after the other, each as long as it reports, and
shifted so that the latest one falls on the modification time. A proof may report more than its parts do, since much of
its work has no events: it ends then as long after its start as it reports. The same file always gives the same times.

Two passes are needed: where the first event lies is known only after all durations were added up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from proofstream.errors import WireError
from proofstream.events import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    LayerEnd,
    LayerStart,
    PhaseEnd,
    PhaseStart,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream.sources.lines import LineResult, LineSplitter, NumberedLine
from proofstream.sources.stored import CutShort
from proofstream.timeline import LONGEST_BELIEVABLE_MS
from proofstream.wire import Decoded, LineDecoder

NS_PER_MS = 1_000_000
# Proofs of one job whose layers have all ended, beside the latest one.
_MAX_SET_ASIDE = 8
# Jobs with something open. Beyond that, the one that was named first is forgotten.
_MAX_JOBS = 4096
_ID_HEX_DIGITS = 32
# Lines of these kinds never advance the time. They are most of a stream, so the first pass skips decoding them.
_TIMELESS = (b'{"SumcheckRound":', b'{"LayerActivation":', b'{"GpuStatus":', b'{"PhaseProgress":')


_Begun: TypeAlias = tuple[int, int]
"""When an interval began, and how many events were placed before."""


@dataclass(slots=True)
class _OpenProof:
    begun: _Begun
    num_layers: int
    layers_ended: int = 0

    @property
    def walk_is_over(self) -> bool:
        return 0 < self.num_layers <= self.layers_ended


@dataclass(slots=True)
class _Job:
    """What is open in one job: the starts of intervals by key, each a stack, and proofs, the latest one last."""

    begun: dict[Hashable, list[_Begun]] = field(default_factory=dict[Hashable, list[_Begun]])
    proofs: list[_OpenProof] = field(default_factory=list[_OpenProof])


class Layout:
    """Places the events of one file on a time axis in nanoseconds that begins at 0.

    Times come from a cursor. An end event moves it to the latest end so far, so intervals that overlap keep their
    starts and their own lengths, and the next event follows the last of them to end. An end comes at least 1 ns after
    its start.

    Args:
        lone_ends: Whether an end whose start is not known takes its duration, too.

    Attributes:
        began: If the event that was placed last ended an interval: how many were placed before the one that began it.
    """

    def __init__(self, *, lone_ends: bool = True) -> None:
        self.began: int | None = None
        self._lone_ends = lone_ends
        self._cursor = 0
        self._placed = 0
        self._jobs: dict[str | None, _Job] = {}

    @property
    def total_ns(self) -> int:
        """The latest time so far, in nanoseconds."""
        return self._cursor

    def place(self, decoded: Decoded) -> int:
        """Place the next event. Returns its time in nanoseconds from the beginning."""
        self.began = None
        rule = self._RULES.get(type(decoded.event))
        time = self._cursor if rule is None else rule(self, self._job(decoded), decoded.event)
        self._placed += 1
        return time

    def place_all(self, lines: Iterable[Decoded]) -> list[int]:
        """Place events in order, as `place` does, and return their times."""
        times: list[int] = []
        time = 0
        layer_idx: int | None = None  # of the round before, if it was one
        job_id: str | None = None
        for line in lines:
            event = line.event
            if type(event) is not SumcheckRound:
                layer_idx = None
                time = self.place(line)
            elif event.layer_idx == layer_idx and line.job_id == job_id:
                self._placed += 1  # rounds of one layer that follow one another have one time
            else:
                layer_idx, job_id = event.layer_idx, line.job_id
                time = self.place(line)
            times.append(time)
        return times

    def _now(self) -> _Begun:
        return self._cursor, self._placed

    def _job(self, decoded: Decoded) -> _Job:
        job = self._jobs.get(decoded.job_id)
        if job is None:
            job = _Job()
            # The first pass does not see all rounds, so they must not decide which job is forgotten.
            if not isinstance(decoded.event, SumcheckRound):
                if len(self._jobs) >= _MAX_JOBS:
                    del self._jobs[next(iter(self._jobs))]
                self._jobs[decoded.job_id] = job
        return job

    def _proof_start(self, job: _Job, event: ProofEvent) -> int:
        assert isinstance(event, ProofStart)
        # Layers whose end never came must not lend their start to the layers of the next proof.
        job.begun.clear()
        # A stream without job ids may begin the next proof while an earlier one commits to its weights.
        set_aside = [proof for proof in job.proofs if proof.walk_is_over][-_MAX_SET_ASIDE:]
        job.proofs = [*set_aside, _OpenProof(self._now(), event.num_layers)]
        return self._cursor

    def _proof_complete(self, job: _Job, event: ProofEvent) -> int:
        assert isinstance(event, ProofComplete)
        fitting = [proof for proof in job.proofs if proof.layers_ended == event.num_layer_proofs]
        over = [proof for proof in fitting if proof.walk_is_over]
        for proof in (over or fitting or job.proofs)[-1:]:
            begun, self.began = proof.begun
            self._cursor = max(self._cursor, begun + max(1, believed_ns(event)))
            self._end_proof(job, proof)
        return self._cursor

    def _proof_aborted(self, job: _Job, event: ProofEvent) -> int:
        del event
        for proof in job.proofs[-1:]:
            self._end_proof(job, proof)
        return self._cursor

    def _end_proof(self, job: _Job, ended: _OpenProof) -> None:
        if ended is job.proofs[-1]:
            job.begun.clear()
        job.proofs = [proof for proof in job.proofs if proof is not ended]

    def _layer_start(self, job: _Job, event: ProofEvent) -> int:
        # Replaces an earlier start: a layer index is open only once, and some layers never report their end.
        job.begun[interval_key(event)] = [self._now()]
        return self._cursor

    def _start(self, job: _Job, event: ProofEvent) -> int:
        job.begun.setdefault(interval_key(event), []).append(self._now())
        return self._cursor

    def _inside(self, job: _Job, event: ProofEvent) -> int:
        # Producers emit rounds in a burst after the layer's work, so all of them get the start of the layer.
        starts = job.begun.get(interval_key(event))
        return starts[-1][0] if starts else self._cursor

    def _layer_end(self, job: _Job, event: ProofEvent) -> int:
        for proof in job.proofs[-1:]:
            proof.layers_ended += 1
        return self._end(job, event)

    def _end(self, job: _Job, event: ProofEvent) -> int:
        key = interval_key(event)
        starts = job.begun.get(key)
        if starts is None:
            end = self._cursor + (believed_ns(event) if self._lone_ends else 0)
        else:
            start, self.began = starts.pop()
            end = start + max(1, believed_ns(event))
            if isinstance(event, PhaseEnd) and event.duration_ns is None:
                end = max(end, self._cursor)  # as long as what it held
            if not starts:
                del job.begun[key]
        self._cursor = max(self._cursor, end)
        return end

    _RULES: ClassVar[dict[type[ProofEvent], Callable[[Layout, _Job, ProofEvent], int]]] = {
        ProofStart: _proof_start,
        ProofComplete: _proof_complete,
        ProofAborted: _proof_aborted,
        LayerStart: _layer_start,
        SumcheckRound: _inside,
        LayerEnd: _layer_end,
        WeightOpeningStart: _start,
        WeightOpeningEnd: _end,
        AggregatedBindingStart: _start,
        AggregatedBindingEnd: _end,
        StarkProofStart: _start,
        StarkProofEnd: _end,
        PhaseStart: _start,
        PhaseEnd: _end,
    }


def _layer(event: Any) -> Hashable:
    return "layer", event.layer_idx


def _weight(event: Any) -> Hashable:
    return "weight", event.weight_node_id


def _phase(event: Any) -> Hashable:
    return "phase", event.name if event.phase is None else event.phase


def _binding(_event: Any) -> Hashable:
    return "binding"


def _stark(_event: Any) -> Hashable:
    return "stark"


_KEYS: dict[type[ProofEvent], Callable[[Any], Hashable]] = {
    LayerStart: _layer,
    SumcheckRound: _layer,
    LayerEnd: _layer,
    WeightOpeningStart: _weight,
    WeightOpeningEnd: _weight,
    PhaseStart: _phase,
    PhaseEnd: _phase,
    AggregatedBindingStart: _binding,
    AggregatedBindingEnd: _binding,
}


def interval_key(event: ProofEvent) -> Hashable:
    """Return which interval of its job an event begins or ends, or lies in, if it is not a proof."""
    return _KEYS.get(type(event), _stark)(event)


def believed_ns(event: ProofEvent) -> int:
    """Return the duration that an end event reports, in nanoseconds; 0, the placeholder, if it cannot be true."""
    duration_ms: int | None = getattr(event, "duration_ms", None)
    if duration_ms is not None:
        return duration_ms * NS_PER_MS if duration_ms <= LONGEST_BELIEVABLE_MS else 0
    assert isinstance(event, PhaseEnd)
    duration_ns = event.duration_ns or 0
    return duration_ns if duration_ns <= LONGEST_BELIEVABLE_MS * NS_PER_MS else 0


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
        head, lines, tail = self._splitter.split_plain(block)
        for line in self._splitter.split_bytes(head) if head else ():
            self._add_line(line)
            if self.has_times:
                return
        self._add_plain(lines)
        if tail:
            self._splitter.split_bytes(tail)  # completes no line

    def finish(self) -> None:
        last = self._splitter.finish()
        if last is not None:
            self._add_line(last)

    def _add_plain(self, lines: list[bytes]) -> None:
        """Add plain lines, those that advance the time at once."""
        begin = 0
        while not self._decided and begin < len(lines):
            self._add_line(NumberedLine(0, lines[begin]))
            begin += 1
        if self.has_times:
            return
        timed = [line for line in lines[begin:] if not line.startswith(_TIMELESS)]
        for line, decoded in zip(timed, self._decoder.decode_plain(timed), strict=True):
            if decoded is None:
                self._add_line(NumberedLine(0, line))
            elif decoded.time_unix_nano is None:
                self.layout.place(decoded)

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

    def times_of(self, items: Sequence[LineResult]) -> list[int | None]:
        """Return the times of the next lines, in nanoseconds since the epoch: their own, or that of a bare line.

        None for a line that was refused.
        """
        bare = [item for item in items if isinstance(item, Decoded) and item.time_unix_nano is None]
        begins, ends = self._found.begins_unix_nano, self._found.ends_unix_nano
        # Long durations may reach back before the epoch. If the file changed meanwhile, times may pass its end.
        times = [begins + time for time in self._layout.place_all(bare)]
        if times and (min(times) < 0 or max(times) > ends):
            times = [max(0, min(time, ends)) for time in times]
        if len(bare) == len(items):
            return [*times]
        placed = iter(times)
        own = [own_time(item) for item in items]
        return [
            next(placed) if time is None and isinstance(item, Decoded) else time
            for item, time in zip(items, own, strict=True)
        ]


def own_time(item: LineResult) -> int | None:
    """Return the time that a line itself says, in nanoseconds since the epoch; None if it says none or was refused."""
    return item.time_unix_nano if isinstance(item, Decoded) else None
