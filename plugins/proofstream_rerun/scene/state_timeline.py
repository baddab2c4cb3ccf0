"""The state timelines of layers: one for each layer, or for each group of neighbours if there are many layers."""

from __future__ import annotations

from proofstream import LayerKind
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.marks import PLAIN, Cleared, StateChange
from proofstream_rerun.picture.palette import LayerState
from proofstream_rerun.scene.layer_groups import LayerGroups

_PROVING, _PROVED, _ABORTED = LayerState.PROVING, LayerState.PROVED, LayerState.ABORTED
_PARTLY_DONE = LayerState.PARTLY_DONE

KEPT_STATES = 64
"""How many states of one entity are kept for the snapshot."""


class StateTimeline:
    """Draws the state timelines of layers.

    Args:
        canvas: Where to draw.
        groups: Which layers share a state timeline.
    """

    def __init__(self, canvas: Canvas, groups: LayerGroups) -> None:
        self._canvas = canvas
        self._groups = groups
        self._counts: dict[int, list[int]] = {}
        self._shown: dict[int, LayerState] = {}
        self._paths: dict[int, str] = {}
        self._pausing: dict[int, None] = {}

    def change_state(self, index: int, kind: LayerKind, before: LayerState, now: LayerState) -> None:
        """Move a layer from one state to another, and show its group's state."""
        group = index // self._groups.size
        counts = self._counts.get(group)
        if counts is None:
            counts = self._counts[group] = [0] * len(LayerState)
            self._paths[group] = self._path(group, kind)
        counts[before] -= 1
        counts[now] += 1
        state = self._state_of(group, counts)
        if state is _PARTLY_DONE:
            # Usually the next layer of the group begins at once, so show a pause only if it lasts until the next write.
            self._pausing[group] = None
        else:
            self._show(group, state)

    def catch_up(self) -> None:
        """Show the groups that have paused since the last write."""
        for group in self._pausing:
            self._show(group, self._state_of(group, self._counts[group]))
        self._pausing.clear()

    def erase(self) -> None:
        """Clear all state timelines, because another layout gives them other paths."""
        for path in self._paths.values():
            if path in self._canvas.tracks:
                self._canvas.add_row(path, Cleared(), PLAIN)

    def _show(self, group: int, state: LayerState) -> None:
        if state is not self._shown.get(group):
            self._shown[group] = state
            self._canvas.add_row(self._paths[group], StateChange(state.word), PLAIN, keep=KEPT_STATES)

    def _path(self, group: int, kind: LayerKind) -> str:
        path = f"lanes/5_layers/{self._groups.name(group)}"
        return path if self._groups.size > 1 or kind is LayerKind.Unknown else f"{path}_{kind.value}"

    def _state_of(self, group: int, counts: list[int]) -> LayerState:
        if counts[_ABORTED]:
            return _ABORTED
        if counts[_PROVING]:
            return _PROVING
        layers = self._groups.count(group)
        if counts[_PROVED] == layers:
            return _PROVED
        done = counts[_PROVED:_ABORTED]  # the states from PROVED to END_NOT_SEEN, in the order of the enum
        if sum(done) < layers:
            return _PARTLY_DONE
        return LayerState(_PROVED + done.index(layers)) if layers in done else LayerState.DONE
