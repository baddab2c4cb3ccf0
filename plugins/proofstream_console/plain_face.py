"""Plain lines, for logs and pipes: a proof's start, its progress now and then, warnings, and its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from proofstream import Interval, Phase, safe_text
from proofstream_console import words
from proofstream_console.news import (
    LogLine,
    News,
    PluginTrouble,
    ProofEnded,
    ProofOpened,
    ProofsAtOnce,
    ProofSilent,
    Reporter,
    SessionHeard,
)
from proofstream_console.pace import Bucket
from proofstream_console.phase_summary import path_of, running_parts
from proofstream_console.proof_summary import ProofSummary
from proofstream_console.run_summary import RunSummary
from proofstream_console.session_summary import SessionSummary

_STEP = 0.1
_STEPS_PER_S = 1.0
_LONGEST_PAUSE_S = 3600.0
_MAX_MENTIONED = 8
"""Open proofs whose progress is reported: the first ones; and as many groups of phases outside of open proofs."""


_Key: TypeAlias = int | tuple[str, int]
"""A proof's number; or the session of a group of phases, with what is around the group."""


class _Mark(NamedTuple):
    """How far a proof has come: its layers, its stage, and the outermost of what runs in it besides layers."""

    layers: float = 0.0
    stage: str | None = None
    part: int | None = None
    part_done: float = 0.0

    def is_a_step_from(self, before: _Mark) -> bool:
        if (self.stage, self.part) != (before.stage, before.part):
            return True
        return self.layers - before.layers >= _STEP or self.part_done - before.part_done >= _STEP


@dataclass(slots=True)
class _Wait:
    """When a session that waits is mentioned again, after how long a pause, and its events at the last mention."""

    due: float
    pause_s: float
    events: int


class PlainFace:
    """Writes a line for each piece of news.

    Args:
        summary: The run so far.
        reporter: The news.
        write: Writes a text.
        progress_s: Seconds until an open proof is mentioned again.
    """

    def __init__(
        self, summary: RunSummary, reporter: Reporter, write: Callable[[str], object], *, progress_s: float
    ) -> None:
        self._summary = summary
        self._reporter = reporter
        self._write = write
        self._progress_s = progress_s
        self._mentioned: dict[_Key, tuple[float, _Mark]] = {}
        self._waiting: dict[str, _Wait] = {}
        self._steps = Bucket(per_s=_STEPS_PER_S, burst=1)

    def show_news(self, now: float) -> None:
        """Write the news at the time `now`, in seconds."""
        self._write_lines(self._news(now, last=False) + self._progress(now) + self._still_waiting(now))

    def finish(self, now: float) -> None:
        """Write the rest of the news."""
        self._write_lines(self._news(now, last=True))

    def _write_lines(self, lines: list[str]) -> None:
        if lines:
            self._write("".join(f"{safe_text(line, words.MAX_LINE)}\n" for line in lines))

    def _news(self, now: float, *, last: bool) -> list[str]:
        lines = [_line(news) for news in self._reporter.take_shown(now)]
        if hidden := self._reporter.take_hidden(now, at_once=last):
            lines.append(words.hidden_lines(hidden))
        return lines

    def _progress(self, now: float) -> list[str]:
        summary = self._summary
        proofs = summary.open_proofs[:_MAX_MENTIONED]
        outside = summary.outside_phases()[:_MAX_MENTIONED]
        marks: dict[_Key, _Mark] = {proof.number: _mark_of(proof) for proof in proofs}
        keys = [_key_of(phases) for _, phases in outside]
        marks |= {key: _part_mark(phases) for key, (_, phases) in zip(keys, outside, strict=True)}
        self._mentioned = {key: self._mentioned.get(key, (now, _Mark(stage=mark.stage))) for key, mark in marks.items()}
        lines = [
            words.proof_progress(proof, summary.elapsed, summary.silent_ns(proof))
            for proof in proofs
            if self._is_due(proof.number, marks[proof.number], now)
        ]
        return lines + [
            words.outside_phases(proof, phases, summary.elapsed)
            for key, (proof, phases) in zip(keys, outside, strict=True)
            if self._is_due(key, marks[key], now)
        ]

    def _still_waiting(self, now: float) -> list[str]:
        """Return a line for each session that waits for a proof, each time after twice as long."""
        waiting = [each for each in self._summary.waiting if each.events and not each.is_in_process][:_MAX_MENTIONED]
        self._waiting = {
            each.session_id: self._waiting.get(each.session_id)
            or _Wait(now + self._progress_s, self._progress_s, each.events)
            for each in waiting
        }
        return [
            words.still_waiting(session, self._summary.waited_ns(session))
            for session in waiting
            if self._is_wait_due(session, now)
        ]

    def _is_wait_due(self, session: SessionSummary, now: float) -> bool:
        wait = self._waiting[session.session_id]
        # One that is idle between two proofs is not worth a line. Before the first one, all would look dead.
        if now < wait.due or (session.proofs and session.events == wait.events):
            return False
        wait.pause_s = min(2 * wait.pause_s, max(_LONGEST_PAUSE_S, self._progress_s))
        wait.due, wait.events = now + wait.pause_s, session.events
        return True

    def _is_due(self, key: _Key, mark: _Mark, now: float) -> bool:
        """Return whether a proof's last mention is long ago, or the proof has come a step further since."""
        mentioned_at, before = self._mentioned[key]
        is_step = mark.is_a_step_from(before) and now - mentioned_at >= 1 / _STEPS_PER_S and self._steps.lets_pass(now)
        if not is_step and now - mentioned_at < self._progress_s:
            return False
        self._mentioned[key] = (now, mark)
        return True


def _mark_of(proof: ProofSummary) -> _Mark:
    interval = proof.proof
    if interval is None:
        return _Mark()
    part = _part_mark(running_parts(interval))
    return part._replace(layers=proof.progress or 0.0, stage=interval.stage)


def _part_mark(parts: Sequence[Interval]) -> _Mark:
    if not parts:
        return _Mark()
    outermost = path_of(parts[-1])[0]
    done = (outermost.done or 0) / outermost.total if isinstance(outermost, Phase) and outermost.total else 0.0
    return _Mark(part=outermost.ordinal, part_done=done)


def _key_of(phases: Sequence[Phase]) -> _Key:
    """Return what tells one group of phases from another while it runs."""
    return phases[0].session_id, phases[0].ordinal if phases[0].proof is None else phases[0].proof.ordinal


def _line(news: News) -> str:
    match news:
        case SessionHeard(session=session):
            return words.session_heard(session)
        case ProofOpened(proof=proof):
            return words.proof_opened(proof)
        case ProofEnded(proof=proof):
            return words.proof_ended(proof)
        case LogLine(level=level, message=message):
            return f"{level.value.lower()}: {safe_text(message, words.MAX_MESSAGE)}"
        case PluginTrouble(health=health):
            return words.plugin_trouble(health)
        case ProofSilent(proof=proof):
            return f"warn: {words.proof_name(proof)} {words.unusual_silence(news)}"
        case ProofsAtOnce(source=source):
            return f"warn: {words.proofs_at_once(source)}"
