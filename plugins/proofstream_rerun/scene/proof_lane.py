"""The state timeline of the proof: the stage that it is in, and its outcome."""

from __future__ import annotations

from proofstream import Proof
from proofstream_rerun.picture.canvas import Canvas, Moment
from proofstream_rerun.picture.marks import PLAIN, StateChange
from proofstream_rerun.picture.palette import ABORTED_WORD, COMPLETE_UNTIMED_WORD, COMPLETE_WORD, RUNNING_WORD

PATH = "lanes/1_proof"
_KEPT_STATES = 8


class ProofLane:
    """Draws it for one recording.

    Args:
        canvas: Where to draw.
    """

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._shown: str | None = None
        self._layer_ended: Moment | None = None

    def begin_proof(self, proof: Proof) -> None:
        """Show the stage that the proof begins in."""
        self._show(proof.stage or RUNNING_WORD)

    def start_layer(self) -> None:
        """Show that the proof is among its layers."""
        self._show("layers")

    def end_layer(self, proof: Proof, *, is_last: bool) -> None:
        """Note that a layer ended. Whether it was the last one is known only if their number was announced."""
        self._layer_ended = self._canvas.now
        if is_last:
            self._show(proof.stage or RUNNING_WORD)

    def end_proof(self, proof: Proof) -> None:
        """Show the outcome."""
        if proof.stage == "after_layers" and self._layer_ended is not None:
            self._show("after_layers", self._layer_ended)
        self._show(_outcome(proof))
        self._add(self._canvas.beyond())

    def _show(self, state: str, moment: Moment | None = None) -> None:
        if state != self._shown:
            self._shown = state
            self._add(moment)

    def _add(self, moment: Moment | None) -> None:
        self._canvas.add_row(PATH, StateChange(self._shown), PLAIN, keep=_KEPT_STATES, moment=moment)


def _outcome(proof: Proof) -> str:
    if proof.aborted_reason is not None:
        return ABORTED_WORD
    return COMPLETE_WORD if proof.duration_source != "unknown" else COMPLETE_UNTIMED_WORD
