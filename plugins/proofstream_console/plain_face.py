"""Plain lines, for logs and pipes: a proof's start, its progress now and then, warnings, and its end."""

from __future__ import annotations

from collections.abc import Callable

from proofstream import safe_text
from proofstream_console import words
from proofstream_console.news import LogLine, News, PluginTrouble, ProofEnded, ProofOpened, Reporter
from proofstream_console.proof_summary import ProofSummary
from proofstream_console.run_summary import RunSummary

_STEP = 0.1
_MIN_GAP_S = 1.0
_MAX_MENTIONED = 8
"""Open proofs whose progress is reported: the first ones."""


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
        self._mentioned: dict[int, tuple[float, float]] = {}

    def show_news(self, now: float) -> None:
        """Write the news at the time `now`, in seconds."""
        self._write_lines(self._news(now, last=False) + self._progress(now))

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
        proofs = self._summary.open_proofs[:_MAX_MENTIONED]
        self._mentioned = {proof.number: self._mentioned.get(proof.number, (now, 0.0)) for proof in proofs}
        return [
            words.proof_progress(proof, self._summary.elapsed_ns(proof.proof), proof.proof.active_layers)
            for proof in proofs
            if proof.proof is not None and self._is_due(proof, now)
        ]

    def _is_due(self, proof: ProofSummary, now: float) -> bool:
        """Return whether a proof's last mention is long ago, or the proof has come a step further since."""
        mentioned_at, mentioned_progress = self._mentioned[proof.number]
        progress = proof.progress or 0.0
        a_step = progress - mentioned_progress >= _STEP and now - mentioned_at >= _MIN_GAP_S
        if not a_step and now - mentioned_at < self._progress_s:
            return False
        self._mentioned[proof.number] = (now, progress)
        return True


def _line(news: News) -> str:
    match news:
        case ProofOpened(proof=proof):
            return words.proof_opened(proof)
        case ProofEnded(proof=proof):
            return words.proof_ended(proof)
        case LogLine(level=level, message=message):
            return f"{level.value.lower()}: {safe_text(message, words.MAX_MESSAGE)}"
        case PluginTrouble(health=health):
            return words.plugin_trouble(health)
