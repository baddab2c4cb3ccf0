"""The state timelines of phases: one for each depth, with the phases of that depth that are running."""

from __future__ import annotations

from proofstream import Phase, safe_text
from proofstream_rerun.picture import texts
from proofstream_rerun.picture.canvas import Canvas, Moment
from proofstream_rerun.picture.marks import PLAIN, StateChange

MAX_DEPTH = 8
"""The most state timelines, one below the other. Phases deeper inside others are only counted as undrawn."""
MAX_NAMED = 3
"""The most phases that a state names; further ones are counted in it."""

_KEPT_STATES = 512
_LONGEST_NAME = 60


class PhaseLanes:
    """Draws them for one recording.

    A phase is drawn when it ends, or at the next write if it is still open: until then it may turn out to be one of the
    thousands that are so short that they are only summed up.

    Args:
        canvas: Where to draw.

    Attributes:
        undrawn: How many phases were too deep inside others.
    """

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._fresh: dict[int, dict[Phase, Moment]] = {}
        self._running: dict[int, dict[Phase, None]] = {}
        self.undrawn: int = 0

    def open_phase(self, phase: Phase) -> None:
        """Note the start of a phase."""
        if phase.depth < MAX_DEPTH:
            self._fresh.setdefault(phase.depth, {})[phase] = self._canvas.now
        else:
            self.undrawn += 1

    def close_phase(self, phase: Phase) -> None:
        """Draw the end of a phase, and its start if that was put off."""
        fresh = self._fresh.get(phase.depth, {})
        if phase.is_summed and phase in fresh:
            del fresh[phase]
            return
        self._draw_fresh(phase.depth)
        running = self._running.get(phase.depth, {})
        if phase in running:
            del running[phase]
            self._draw(phase.depth, self._canvas.now)
        if phase.aborted_reason is not None:
            self._canvas.add_log_line("logs/phases", texts.phase_ended(phase), "ERROR")
        elif not phase.is_summed:
            self._canvas.add_log_line("logs/phases", texts.phase_ended(phase), "INFO")

    def catch_up(self) -> None:
        """Draw the starts that were put off, of phases that are still open."""
        for depth in self._fresh:
            self._draw_fresh(depth)

    def _draw_fresh(self, depth: int) -> None:
        fresh = self._fresh.get(depth, {})
        for phase, moment in fresh.items():
            self._running.setdefault(depth, {})[phase] = None
            self._draw(depth, moment)
        fresh.clear()

    def _draw(self, depth: int, moment: Moment) -> None:
        running = self._running[depth]
        names = [safe_text(phase.name, _LONGEST_NAME) for phase in list(running)[:MAX_NAMED]]
        if len(running) > MAX_NAMED:
            names.append(f"{len(running) - MAX_NAMED} more")
        state = StateChange(", ".join(names) or None)
        self._canvas.add_row(f"lanes/2_phases/depth_{depth}", state, PLAIN, keep=_KEPT_STATES, moment=moment)
