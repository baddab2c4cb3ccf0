"""The live view: a few lines about the running proofs, as tall as a moment ago and never taller than the terminal."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from proofstream import Interval, LayerStart, Proof, safe_text
from proofstream_console import words
from proofstream_console.formats import (
    CHECK,
    CROSS,
    DOT,
    LINE,
    WAIT,
    count,
    counted,
    duration,
    fine_percent,
    index,
    kind_style,
    percent,
    shapes,
)
from proofstream_console.proof_summary import LayerSummary, ProofSummary
from proofstream_console.run_summary import RunSummary
from proofstream_console.state_summary import StateCircuitSummary

_MAX_BODY = 20
_QUIET_AFTER_S = 2.0
_STUCK_AFTER_S = 10.0
_STUCK_FACTOR = 3
"""A prover is silent inside a layer. Silence of this many times the longest layer may mean that it is stuck."""
_BAR_FROM_WIDTH = 44
_BAR_MAX = 60
_TIME_WIDTH = 14


class LiveView:
    """Draws the summary.

    Args:
        summary: The run so far.
        max_layers: Lines for active layers, of all proofs together.
        max_proofs: Proofs shown at once.
    """

    def __init__(self, summary: RunSummary, *, max_layers: int, max_proofs: int) -> None:
        self._summary = summary
        self._max_layers = max_layers
        self._max_proofs = max_proofs
        self._body_height = 0

    def lines(self, *, width: int, height: int) -> list[Text]:
        """Return the view for a terminal of that size: at most `height - 1` lines, none wider than the terminal."""
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
        proofs = self._summary.open_proofs
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
        summary = self._summary
        what = f"{WAIT} waiting for {'the next' if summary.totals.proofs else 'a'} proof"
        sources = ", ".join(safe_text(session.source, 60) for session in list(summary.sessions.values())[:3])
        line = Text(what, style="cyan")
        return _append_if_fits(line, Text(f"  {sources}", style="dim"), width) if sources else line

    def _proof(self, proof: ProofSummary, width: int, layer_room: int) -> list[Text]:
        interval = proof.proof
        assert interval is not None
        elapsed = Text(duration(self._summary.elapsed_ns(interval)), style="cyan")
        lines = [_both_sides(self._title(proof, width), elapsed, width), _progress(proof, width)]
        active = interval.active_layers
        if not active:
            return [*lines, *self._between(interval, width)]
        # The longest-running layers first: those are the ones to watch.
        active.sort(key=lambda layer: layer.start_unix_nano)
        shown = active if len(active) <= layer_room else active[: max(1, layer_room - 1)]
        lines += [self._layer(layer, width) for layer in shown]
        if hidden := len(active) - len(shown):
            lines.append(Text(f"  + {counted(hidden, 'more layer')}", style="dim"))
        return [*lines, *self._silence(proof.session_id)]

    def _silence(self, session_id: str) -> list[Text]:
        """Return a line if, inside a layer, there was silence for longer than layers take."""
        quiet_s = self._summary.quiet_s(session_id)
        longest_ns = self._summary.slowest[0].duration_ns if self._summary.slowest else 0
        if quiet_s < _STUCK_AFTER_S or quiet_s * 1e9 < _STUCK_FACTOR * longest_ns:
            return []
        said = f"  nothing heard for {duration(quiet_s * 1e9)}"
        compared = f"; the longest layer so far took {duration(longest_ns)}" if longest_ns else ""
        return [Text(said + compared, style="yellow")]

    def _title(self, proof: ProofSummary, width: int) -> Text:
        number = f"{proof.number + 1}  " if self._summary.totals.proofs > 1 else ""
        title = Text(number + words.full_title(proof), style="bold")
        session = self._summary.sessions.get(proof.session_id)
        if session is None:
            return title
        source = Text(f"   {safe_text(session.source, 60)}", style="not bold dim")
        return _append_if_fits(title, source, width - _TIME_WIDTH)

    def _layer(self, layer: Interval, width: int) -> Text:
        # In a replay an open layer has no time until its end is read.
        elapsed_ns = self._summary.elapsed_ns(layer) if layer.duration_ns is None else layer.duration_ns
        took = Text(duration(elapsed_ns) if elapsed_ns or not layer.is_open else "", style="cyan")
        if not layer.is_open:
            took = Text(f"{CHECK} ", style="green").append_text(took)
        room = width - cell_len(took.plain) - 2
        line = _layer_name(layer.key or 0, layer.layer_kind)
        for detail in _details(layer):
            line = _append_if_fits(line, Text(f"  {detail}", style="dim"), room)
        return _both_sides(line, took, width)

    def _between(self, proof: Proof, width: int) -> list[Text]:
        """Return the lines while no layer is open: the last layer, and how long the silence has lasted."""
        lines = [self._layer(proof.last_layer, width)] if proof.last_layer is not None else []
        quiet_s = self._summary.quiet_s(proof.session_id)
        if quiet_s >= _QUIET_AFTER_S or not lines:
            heard = "nothing heard of its layers yet" if not lines else f"nothing heard for {duration(quiet_s * 1e9)}"
            lines.append(Text(f"  {heard}", style="dim"))
        return lines

    # The footer: counts, devices, trouble

    def _footer(self, width: int, room: int) -> list[Text]:
        lines = [self._counts(), *self._kinds()] if self._summary.totals.proofs or self._summary.totals.lost else []
        lines += [Text(words.plugin_trouble(health), style="red") for health in self._summary.troubled_plugins]
        lines += [Text(line, style="dim") for line in words.device_lines(self._summary.devices)]
        lines += [_state(circuit, width) for circuit in self._summary.states.circuits[:1]]
        if len(lines) > room:
            more = len(lines) - room + 1
            lines = (
                [*lines[: room - 1], Text(f"+ {counted(more, 'more line')}", style="dim")] if room > 1 else lines[:1]
            )
        return lines

    def _counts(self) -> Text:
        summary = self._summary
        line = Text(counted(summary.rounds, "round"))
        lost = summary.totals.lost
        line.append(f" {DOT} ", "dim")
        line.append(f"{count(lost)} lost" if lost else "nothing lost", "bold red" if lost else "dim")
        if summary.totals.complete or summary.totals.aborted:
            line.append(f" {DOT} ", "dim").append(_proof_counts(summary))
        slowest = summary.slowest
        if slowest:
            line.append(f" {DOT} ", "dim").append(_slowest(slowest[0]), "dim")
        return line

    def _kinds(self) -> list[Text]:
        """Return one line about where the time went so far, the kinds that took the most first."""
        tallies = sorted(self._summary.by_kind.items(), key=lambda item: -item[1].total_ns)
        whole = sum(tally.total_ns for _, tally in tallies)
        if not whole:
            return []
        parts = [
            Text(kind, kind_style(kind)).append(f" {fine_percent(tally.total_ns / whole)}", "dim")
            for kind, tally in tallies
        ]
        return [Text("   ").join(parts)]


def _state(circuit: StateCircuitSummary, width: int) -> Text:
    """Return one line about a state circuit's programs. Parts that do not fit are left out, from the end."""
    line = Text(f"state ({safe_text(circuit.convention, 20)}, derived)", style="dim")
    for part in words.state_now(circuit):
        line = _append_if_fits(line, Text(f" {DOT} {part}"), width)
    return line


def _proof_counts(summary: RunSummary) -> str:
    totals = summary.totals
    if not totals.complete:
        return f"{CROSS} {counted(totals.aborted, 'proof')} aborted"
    said = f"{CHECK} {counted(totals.complete, 'proof')} complete"
    return f"{said}, {count(totals.aborted)} aborted" if totals.aborted else said


def _slowest(layer: LayerSummary) -> str:
    return f"slowest layer {index(layer.index)} {layer.kind} {duration(layer.duration_ns)}"


def _layer_name(key: int, kind: str) -> Text:
    return Text("  layer ", style="").append(f"{index(key):>4}  ").append(f"{kind:<10}", kind_style(kind))


def _details(layer: Interval) -> list[str]:
    event = layer.start_event
    details: list[str] = []
    if isinstance(event, LayerStart):
        details.append(shapes(event.input_shape, event.output_shape))
        details += [f"GPU {index(event.gpu_device)}"] if event.gpu_device is not None else []
    return [*details, counted(layer.rounds, "round")] if layer.rounds else details


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
    """Return one line with a text at each side. The left one is cut to fit."""
    room = width - cell_len(right.plain) - 2
    left.truncate(max(1, room), overflow="ellipsis")
    gap = max(1, width - cell_len(left.plain) - cell_len(right.plain))
    # A bounded gap: on a very wide terminal the eye would lose the line.
    return left.append(" " * min(gap, max(1, 100 - cell_len(left.plain) - cell_len(right.plain)))).append_text(right)
