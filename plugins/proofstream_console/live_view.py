"""The live view: the running proofs and, where there is room, their layers, the time by kind and the slowest layers."""

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
    duration,
    fine_percent,
    index,
    kind_style,
)
from proofstream_console.pace import Throttle
from proofstream_console.panels import draw_panels
from proofstream_console.proof_summary import LayerSummary
from proofstream_console.proof_view import ProofView, append_if_fits, both_sides, reach_of
from proofstream_console.run_summary import RunSummary
from proofstream_console.session_summary import SessionSummary
from proofstream_console.state_summary import StateCircuitSummary

_MIN_PROOF_HEIGHT = 3
_PROOF_WITH_STRIP = 5
"""Lines of one proof of several that is drawn with its strip."""

_STRIP_FROM_LINES = 16
"""A terminal of so many has room for a strip of layers."""

_LINES_PER_STRIP_ROW = 14
_STRIP_ROWS = 2
"""More would cost more time than they tell."""

_LINES_PER_PANEL = 12
"""A terminal has a row of panels for so many lines, beyond the first ones."""

_PANELS_EVERY_S = 0.5
"""The fewest seconds between two drawings of the panels: figures that change faster cannot be read."""

_SPACIOUS_FROM_LINES = 30
"""A terminal of so many has empty lines between the parts of the view."""


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
        self._reach = 0
        self._panels_drawn: tuple[tuple[int, int, int], list[Text]] = ((0, 0, 0), [])
        self._draw_panels = Throttle(_PANELS_EVERY_S, start=float("-inf"))

    def lines(self, *, width: int, height: int) -> list[Text]:
        """Return the view for a terminal of that size: at most two thirds of its lines, none wider than it is."""
        most = max(1, height - max(2, height // 3))
        self._reach = reach_of(width, is_spacious=height >= _SPACIOUS_FROM_LINES)
        room = most - len(self._footer(width, most // 3, brief=False))
        body = self._body(width, max(1, room), height)
        self._body_height = min(max(1, room), max(self._body_height, len(body)))
        body += [Text("")] * (self._body_height - len(body))
        space = [Text("")] if height >= _SPACIOUS_FROM_LINES else []
        panels = self._panels(width, room - self._body_height - 2 * len(space), height // _LINES_PER_PANEL - 1)
        footer = self._footer(width, most // 3, brief=bool(panels))
        lines = [*body, *(space if panels or footer else []), *panels, *(space if panels else []), *footer][:most]
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="ellipsis")
        return lines

    def _panels(self, width: int, room: int, rows: int) -> list[Text]:
        if not self._summary.by_kind:
            return []
        place = (width, room, max(0, rows))
        drawn_for, panels = self._panels_drawn
        if drawn_for != place or self._draw_panels.is_due(self._summary.running_s):
            panels = draw_panels(self._summary, width=width, room=room, rows=max(0, rows))
            self._panels_drawn = (place, panels)
        return list(panels)

    # The body: the open proofs and their layers, and the sessions that wait for one

    def _body(self, width: int, room: int, height: int) -> list[Text]:
        proofs, outside = self._summary.open_proofs, self._summary.outside_phases()
        if not proofs and not outside:
            return self._idle(width, room)
        most = max(1, min(self._max_proofs, room // _MIN_PROOF_HEIGHT))
        shown, after = proofs[:most], outside[: max(0, most - len(proofs))]
        hidden = len(proofs) + len(outside) - len(shown) - len(after)
        drawn = len(shown) + len(after)
        part_room = max(1, min(self._max_layers, room - 2 * drawn - (hidden > 0)) // drawn)
        strip_rows = min(_STRIP_ROWS, height // _LINES_PER_STRIP_ROW // drawn) if height >= _STRIP_FROM_LINES else 0
        if not strip_rows and height >= _STRIP_FROM_LINES and room // drawn >= _PROOF_WITH_STRIP:
            strip_rows = 1
        view = ProofView(
            self._summary,
            width=width,
            room=part_room,
            strip_rows=strip_rows,
            is_spacious=height >= _SPACIOUS_FROM_LINES,
            is_alone=drawn == 1,
        )
        blocks = [view.proof(proof) for proof in shown] + [view.outside(*group) for group in after]
        lines = [line for block in blocks for line in block[: self._height_of(len(block), room, drawn)]]
        if hidden:
            lines = [*lines[: room - 1], Text(f"+ {counted(hidden, 'more proof')}", style="dim")]
        heard = [session for session in self._summary.waiting if session.events]
        return [*lines, *(self._waiting(session, width)[0] for session in heard)][:room]

    @staticmethod
    def _height_of(wanted: int, room: int, blocks: int) -> int:
        """Return the lines for a block: what it wants if it is alone, else at most its share of the room."""
        return wanted if blocks == 1 else min(wanted, max(_MIN_PROOF_HEIGHT, room // blocks))

    def _idle(self, width: int, room: int) -> list[Text]:
        """Return the lines for sessions that wait for a proof, those that are heard first."""
        waiting = sorted(self._summary.waiting, key=lambda session: not session.events)
        if not waiting:
            return [self._nobody(width)]
        blocks = [self._waiting(session, width) for session in waiting[: self._max_proofs]]
        lines = [line for block in blocks for line in block]
        hidden = len(waiting) - len(blocks)
        if len(lines) > room:
            lines = [block[0] for block in blocks]
            hidden += max(0, len(lines) - max(1, room - 1))
        more = [Text(f"+ {counted(hidden, 'more session')} waiting", style="dim")] if hidden else []
        return [*lines[: max(1, room - len(more))], *more][:room]

    def _nobody(self, width: int) -> Text:
        """Return the line for no session at all. A prover may have connected: it would have sent nothing so far."""
        if self._summary.was_opened:
            return Text(f"{WAIT} waiting for the next proof", style="cyan")
        waited_ns = round(self._summary.running_s * 1e9)
        line = Text(f"{WAIT} waiting for a first event", style="cyan")
        return both_sides(line, Text(duration(waited_ns), style="cyan"), width, self._reach) if waited_ns else line

    def _waiting(self, session: SessionSummary, width: int) -> list[Text]:
        waited_ns = self._summary.waited_ns(session)
        # What is read from a file lies there already.
        what = words.waiting_for(session) if self._summary.is_live else "reading"
        title = Text(f"{WAIT} {what}", style="cyan")
        line = append_if_fits(title, Text(f"  {safe_text(session.source, 60)}", style="not bold dim"), width - 14)
        heard = words.heard_waiting(session)
        below = [Text(f"    {heard}", style="dim")] if heard else []
        return [
            both_sides(line, Text(duration(waited_ns), style="cyan"), width, self._reach) if waited_ns else line,
            *below,
        ]

    # The footer: counts, devices, trouble

    def _footer(self, width: int, room: int, *, brief: bool) -> list[Text]:
        """Return the lines at the end, without what the panels show if it is to be `brief`."""
        room = max(1, room)
        begun = self._summary.totals.proofs or self._summary.totals.lost
        lines = [self._counts(width, brief=brief), *([] if brief else self._kinds())] if begun else []
        lines += [Text(words.plugin_trouble(health), style="red") for health in self._summary.troubled_plugins]
        lines += [Text(line, style="dim") for line in words.device_lines(self._summary.devices)]
        lines += [_state(circuit, width) for circuit in self._summary.states.circuits[:1]]
        if len(lines) > room:
            more = len(lines) - room + 1
            lines = (
                [*lines[: room - 1], Text(f"+ {counted(more, 'more line')}", style="dim")] if room > 1 else lines[:1]
            )
        return lines

    def _counts(self, width: int, *, brief: bool) -> Text:
        summary = self._summary
        line = Text(counted(summary.rounds, "round"))
        totals = summary.totals
        lost = totals.lost
        line.append(f" {DOT} ", "dim")
        line.append(f"{count(lost)} lost" if lost else "nothing lost", "bold red" if lost else "dim")
        if totals.complete or totals.aborted:
            line.append(f" {DOT} ", "dim").append(_proof_counts(summary))
        if summary.slowest and not brief:
            line = append_if_fits(line, _slowest(summary.slowest[0], many=totals.proofs > 1), width)
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


def _slowest(layer: LayerSummary, *, many: bool) -> Text:
    of_proof = f" of proof {words.layer_proof(layer)}" if many else ""
    said = f"slowest layer {index(layer.index)} {layer.kind}{of_proof} {words.short_time(layer.took)}"
    return Text(f" {DOT} {said}", style="dim")
