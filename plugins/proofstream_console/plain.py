"""Plain lines, for logs and pipes: a proof's start, its progress now and then, warnings, and its end."""

from __future__ import annotations

from proofstream import LogLevel
from proofstream_console import words
from proofstream_console.model import Model, ProofSummary
from proofstream_console.news import LogLine, News, PluginTrouble, ProofEnded, ProofOpened
from proofstream_console.pace import Bucket
from proofstream_console.text import count, safe_text

_STEP = 0.1
_MIN_GAP_S = 1.0
_MAX_MENTIONED = 8
"""Open proofs whose progress is told; of more, the first ones are."""


class PlainLines:
    """Says what is new since it was last asked.

    Args:
        model: What is known.
        progress_s: Seconds after which a proof that goes on is mentioned again.
        bucket: Bounds the lines per second.
    """

    def __init__(self, model: Model, *, progress_s: float, bucket: Bucket) -> None:
        self._model = model
        self._progress_s = progress_s
        self._bucket = bucket
        self._told: dict[int, tuple[float, float]] = {}

    def lines(self, now: float, news: list[News]) -> list[str]:
        """The lines to write at the time `now`, in seconds."""
        written: list[str] = []
        for item in news:
            line = _line(item)
            if isinstance(item, ProofOpened):
                self._told[item.proof.number] = (now, 0.0)
            elif isinstance(item, ProofEnded):
                self._told.pop(item.proof.number, None)
            if line is not None and self._bucket.take(now):
                written.append(line)
        written += self._progress(now)
        if self._bucket.has_room(now) and (missed := self._bucket.take_refused()):
            written.append(f"({count(missed)} more lines not shown)")
        return written

    def _progress(self, now: float) -> list[str]:
        open_proofs = self._model.open_proofs
        self._told = {p.number: self._told.get(p.number, (now, 0.0)) for p in open_proofs}
        return [
            words.proof_progress(proof, self._model.elapsed_ns(proof.proof), proof.proof.active_layers)
            for proof in open_proofs[:_MAX_MENTIONED]
            if proof.proof is not None and self._is_due(proof, now)
        ]

    def _is_due(self, proof: ProofSummary, now: float) -> bool:
        told_at, told_progress = self._told[proof.number]
        progress = proof.progress or 0.0
        steps = progress - told_progress >= _STEP and now - told_at >= _MIN_GAP_S
        if not (steps or now - told_at >= self._progress_s):
            return False
        self._told[proof.number] = (now, progress)
        return True


def _line(news: News) -> str | None:
    match news:
        case ProofOpened(proof=proof):
            return words.proof_opened(proof)
        case ProofEnded(proof=proof):
            return words.proof_ended(proof)
        case LogLine(level=LogLevel.Warn | LogLevel.Error as level, message=message):
            return f"{level.value.lower()}: {safe_text(message, words.MAX_MESSAGE)}"
        case LogLine():
            return None
        case PluginTrouble(health=health):
            return words.plugin_trouble(health)
