"""The live view: a few lines about the running proofs, as tall as a moment ago and never taller than the terminal."""

from __future__ import annotations

from rich.text import Text

from proofstream import safe_text
from proofstream_console import words
from proofstream_console.formats import (
    CHECK,
    CROSS,
    DOT,
    WAIT,
    count,
    counted,
    fine_percent,
    index,
    kind_style,
)
from proofstream_console.proof_summary import LayerSummary
from proofstream_console.proof_view import ProofView, append_if_fits
from proofstream_console.run_summary import RunSummary
from proofstream_console.state_summary import StateCircuitSummary

_MAX_BODY = 20
_MIN_PROOF_HEIGHT = 3


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
        proofs, outside = self._summary.open_proofs, self._summary.outside_phases()
        if not proofs and not outside:
            return [self._idle(width)]
        most = max(1, min(self._max_proofs, room // _MIN_PROOF_HEIGHT))
        shown, after = proofs[:most], outside[: max(0, most - len(proofs))]
        hidden = len(proofs) + len(outside) - len(shown) - len(after)
        drawn = len(shown) + len(after)
        part_room = max(1, min(self._max_layers, room - 2 * drawn - (hidden > 0)) // drawn)
        view = ProofView(self._summary, width=width, room=part_room)
        blocks = [view.proof(proof) for proof in shown] + [view.outside(*group) for group in after]
        lines = [line for block in blocks for line in block[: self._height_of(len(block), room, drawn)]]
        if hidden:
            lines = [*lines[: room - 1], Text(f"+ {counted(hidden, 'more proof')}", style="dim")]
        return lines[:room]

    @staticmethod
    def _height_of(wanted: int, room: int, blocks: int) -> int:
        """Return the lines for a block: what it wants if it is alone, else at most its share of the room."""
        return wanted if blocks == 1 else min(wanted, max(_MIN_PROOF_HEIGHT, room // blocks))

    def _idle(self, width: int) -> Text:
        summary = self._summary
        what = f"{WAIT} waiting for {'the next' if summary.totals.proofs else 'a'} proof"
        sources = ", ".join(safe_text(session.source, 60) for session in list(summary.sessions.values())[:3])
        line = Text(what, style="cyan")
        return append_if_fits(line, Text(f"  {sources}", style="dim"), width) if sources else line

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
        """Return one line about the time in layers so far, the kinds that took the most first."""
        tallies = sorted(self._summary.by_kind.items(), key=lambda item: -item[1].total_ns)
        whole = sum(tally.total_ns for _, tally in tallies)
        if not whole:
            return []
        parts = [
            Text(kind, kind_style(kind)).append(f" {fine_percent(tally.total_ns / whole)}", "dim")
            for kind, tally in tallies
        ]
        return [Text("time in layers: ", style="dim").append_text(Text("   ").join(parts))]


def _state(circuit: StateCircuitSummary, width: int) -> Text:
    """Return one line about a state circuit's programs. Parts that do not fit are left out, from the end."""
    line = Text(f"state ({safe_text(circuit.convention, 20)}, derived)", style="dim")
    for part in words.state_now(circuit):
        line = append_if_fits(line, Text(f" {DOT} {part}"), width)
    return line


def _proof_counts(summary: RunSummary) -> str:
    totals = summary.totals
    if not totals.complete:
        return f"{CROSS} {counted(totals.aborted, 'proof')} aborted"
    said = f"{CHECK} {counted(totals.complete, 'proof')} complete"
    return f"{said}, {count(totals.aborted)} aborted" if totals.aborted else said


def _slowest(layer: LayerSummary) -> str:
    return f"slowest layer {index(layer.index)} {layer.kind} {words.short_time(layer.took)}"
