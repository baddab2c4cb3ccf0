"""The live view: a few lines about what goes on, as tall as a moment ago and never taller than the terminal."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from proofstream import Interval, LayerKind, LayerStart, Proof
from proofstream_console import words
from proofstream_console.formats import (
    ARROW,
    CHECK,
    CROSS,
    DOT,
    LINE,
    WAIT,
    count,
    counted,
    duration,
    fine_percent,
    percent,
    safe_text,
    shape,
)
from proofstream_console.proof_summary import LayerSummary, ProofSummary
from proofstream_console.run_summary import RunSummary
from proofstream_console.state_summary import StateCircuitSummary

_MAX_BODY = 20
_QUIET_AFTER_S = 2.0
_STUCK_AFTER_S = 10.0
_STUCK_FACTOR = 3
"""A layer says nothing while it is worked on; silence of so many times the longest layer may mean more."""
_BAR_FROM_WIDTH = 44
_BAR_MAX = 60
_TIME_WIDTH = 14


class LiveView:
    """Draws the model.

    Args:
        model: What is known.
        max_layers: Lines for active layers, of all proofs together.
        max_proofs: Proofs that are shown at once.
    """

    def __init__(self, model: RunSummary, *, max_layers: int, max_proofs: int) -> None:
        self._model = model
        self._max_layers = max_layers
        self._max_proofs = max_proofs
        self._body_height = 0

    def lines(self, *, width: int, height: int) -> list[Text]:
        """The view for a terminal of that size: at most `height - 1` lines, none wider than the terminal."""
        footer = self._footer(width, max(1, (height - 1) // 3))
        room = max(1, min(_MAX_BODY, height - 1 - len(footer)))
        body = self._body(width, room)
        self._body_height = min(room, max(self._body_height, len(body)))
        body += [Text("")] * (self._body_height - len(body))
        lines = [*body, *footer][: max(1, height - 1)]
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="ellipsis")
        return lines

    # The body: the open proofs and their layers

    def _body(self, width: int, room: int) -> list[Text]:
        proofs = self._model.open_proofs
        if not proofs:
            return [self._idle(width)]
        shown = proofs[: max(1, min(self._max_proofs, room // 3))]
        hidden = len(proofs) - len(shown)
        layer_room = max(1, min(self._max_layers, room - 2 * len(shown) - (hidden > 0)) // len(shown))
        lines: list[Text] = []
        for proof in shown:
            lines += self._proof(proof, width, layer_room)
        if hidden:
            lines.append(Text(f"+ {counted(hidden, 'more proof')}", style="dim"))
        return lines[:room]

    def _idle(self, width: int) -> Text:
        model = self._model
        what = f"{WAIT} waiting for {'the next' if model.totals.proofs else 'a'} proof"
        sources = ", ".join(safe_text(session.source, 60) for session in list(model.sessions.values())[:3])
        line = Text(what, style="cyan")
        return _append_if_fits(line, Text(f"  {sources}", style="dim"), width) if sources else line

    def _proof(self, proof: ProofSummary, width: int, layer_room: int) -> list[Text]:
        interval = proof.proof
        assert interval is not None
        elapsed = Text(duration(self._model.elapsed_ns(interval)), style="cyan")
        lines = [_both_sides(self._title(proof, width), elapsed, width), _progress(proof, width)]
        active = interval.active_layers
        if not active:
            return [*lines, *self._between(interval, width)]
        # The longest are the ones to look at.
        active.sort(key=lambda layer: layer.start_unix_nano)
        shown = active if len(active) <= layer_room else active[: max(1, layer_room - 1)]
        lines += [self._layer(layer, width) for layer in shown]
        if hidden := len(active) - len(shown):
            lines.append(Text(f"  + {counted(hidden, 'more layer')}", style="dim"))
        return [*lines, *self._silence(proof.session_id)]

    def _silence(self, session_id: str) -> list[Text]:
        """Within a layer: that nothing was heard for longer than layers take."""
        quiet_s = self._model.quiet_s(session_id)
        longest_s = self._model.slowest[0].duration_ns / 1e9 if self._model.slowest else 0.0
        if quiet_s < max(_STUCK_AFTER_S, _STUCK_FACTOR * longest_s):
            return []
        said = f"  nothing heard for {duration(quiet_s * 1e9)}"
        compared = f"; the longest layer so far took {duration(longest_s * 1e9)}" if longest_s else ""
        return [Text(said + compared, style="yellow")]

    def _title(self, proof: ProofSummary, width: int) -> Text:
        number = f"{proof.number + 1}  " if self._model.totals.proofs > 1 else ""
        title = Text(number + words.full_title(proof), style="bold")
        session = self._model.sessions.get(proof.session_id)
        if session is None:
            return title
        source = Text(f"   {safe_text(session.source, 60)}", style="not bold dim")
        return _append_if_fits(title, source, width - _TIME_WIDTH)

    def _layer(self, layer: Interval, width: int) -> Text:
        # In a replay the time of an open layer stands still at its start until its end is read.
        elapsed_ns = self._model.elapsed_ns(layer) if layer.duration_ns is None else layer.duration_ns
        took = Text(duration(elapsed_ns) if elapsed_ns or not layer.is_open else "", style="cyan")
        if not layer.is_open:
            took = Text(f"{CHECK} ", style="green").append_text(took)
        room = width - cell_len(took.plain) - 2
        line = layer_name(layer.key or 0, layer.layer_kind)
        for detail in _details(layer):
            line = _append_if_fits(line, Text(f"  {detail}", style="dim"), room)
        return _both_sides(line, took, width)

    def _between(self, proof: Proof, width: int) -> list[Text]:
        """While no layer is open: the last one, and for how long there was silence."""
        lines = [self._layer(proof.last_layer, width)] if proof.last_layer is not None else []
        quiet_s = self._model.quiet_s(proof.session_id)
        if quiet_s >= _QUIET_AFTER_S or not lines:
            heard = "nothing heard of its layers yet" if not lines else f"nothing heard for {duration(quiet_s * 1e9)}"
            lines.append(Text(f"  {heard}", style="dim"))
        return lines

    # The footer: counts, devices, trouble

    def _footer(self, width: int, room: int) -> list[Text]:
        lines = [self._counts(), *self._kinds()] if self._model.totals.proofs or self._model.lost else []
        lines += [Text(words.plugin_trouble(health), style="red") for health in self._model.troubled_plugins]
        lines += [Text(line, style="dim") for line in words.device_lines(self._model.devices)]
        lines += [_state(circuit, width) for circuit in self._model.states.circuits[:1]]
        if len(lines) > room:
            more = len(lines) - room + 1
            lines = (
                [*lines[: room - 1], Text(f"+ {counted(more, 'more line')}", style="dim")] if room > 1 else lines[:1]
            )
        return lines

    def _counts(self) -> Text:
        model = self._model
        line = Text(counted(model.rounds, "round"))
        lost = model.lost
        line.append(f" {DOT} ", "dim")
        line.append(f"{count(lost)} lost" if lost else "nothing lost", "bold red" if lost else "dim")
        if model.totals.complete or model.totals.aborted:
            line.append(f" {DOT} ", "dim").append(_proof_counts(model))
        slowest = model.slowest
        if slowest:
            line.append(f" {DOT} ", "dim").append(_slowest(slowest[0]), "dim")
        return line

    def _kinds(self) -> list[Text]:
        """Where the time went so far: one line, the kinds that took most of it first."""
        tallies = sorted(self._model.by_kind.items(), key=lambda item: -item[1].total_ns)
        whole = sum(tally.total_ns for _, tally in tallies)
        if not whole:
            return []
        parts = [
            Text(kind, kind_style(kind)).append(f" {fine_percent(tally.total_ns / whole)}", "dim")
            for kind, tally in tallies
        ]
        return [Text("   ").join(parts)]


def _state(circuit: StateCircuitSummary, width: int) -> Text:
    """What a state circuit's programs cost and have moved; what does not fit is left out from the end."""
    line = Text(f"state ({safe_text(circuit.convention, 20)}, derived)", style="dim")
    for part in words.state_now(circuit):
        line = _append_if_fits(line, Text(f" {DOT} {part}"), width)
    return line


def _proof_counts(model: RunSummary) -> str:
    totals = model.totals
    if not totals.complete:
        return f"{CROSS} {counted(totals.aborted, 'proof')} aborted"
    said = f"{CHECK} {counted(totals.complete, 'proof')} complete"
    return f"{said}, {count(totals.aborted)} aborted" if totals.aborted else said


def _slowest(layer: LayerSummary) -> str:
    return f"slowest layer {layer.index} {layer.kind} {duration(layer.duration_ns)}"


def kind_style(kind: str) -> str:
    """The style of a layer kind."""
    red, green, blue = LayerKind(kind).color_rgb
    return f"rgb({red},{green},{blue})"


def layer_name(index: int, kind: str) -> Text:
    """A layer's index and kind, aligned."""
    return Text("  layer ", style="").append(f"{index:>4}  ").append(f"{kind:<10}", kind_style(kind))


def _details(layer: Interval) -> list[str]:
    event = layer.opened.event if layer.opened is not None else None
    details: list[str] = []
    if isinstance(event, LayerStart):
        details.append(shapes(event.input_shape, event.output_shape))
        details += [f"GPU {event.gpu_device}"] if event.gpu_device is not None else []
    return [*details, counted(layer.rounds, "round")] if layer.rounds else details


def shapes(input_shape: tuple[int, int], output_shape: tuple[int, int]) -> str:
    """A layer's shapes."""
    return f"{shape(input_shape)} {ARROW} {shape(output_shape)}"


def _progress(proof: ProofSummary, width: int) -> Text:
    share = proof.progress
    done = words.layers_done(proof)
    if share is None:
        return Text(f"  {done} done", style="dim")
    said = f"{percent(share):>5}  {done}"
    size = min(_BAR_MAX, width - len(said) - 4)
    if width < _BAR_FROM_WIDTH:
        return Text(f"  {said.strip()}")
    filled = int(size * share)
    bar = Text("  ").append(LINE * filled, "green").append(LINE * (size - filled), "bright_black")
    return bar.append(f" {said}")


def _append_if_fits(line: Text, more: Text, width: int) -> Text:
    return line.append_text(more) if cell_len(line.plain) + cell_len(more.plain) <= width else line


def _both_sides(left: Text, right: Text, width: int) -> Text:
    """One line with a text at its left and one at its right; the left one gives way."""
    room = width - cell_len(right.plain) - 2
    left.truncate(max(1, room), overflow="ellipsis")
    gap = max(1, width - cell_len(left.plain) - cell_len(right.plain))
    # On a very wide terminal the eye would not find the way across.
    return left.append(" " * min(gap, max(1, 100 - cell_len(left.plain) - cell_len(right.plain)))).append_text(right)
