"""The lines of one open proof in the live view: its title, its layers, its stage, and what runs in it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from proofstream import Interval, LayerStart, Phase, Proof, Stage, safe_text
from proofstream_console import words
from proofstream_console.durations import Took, took
from proofstream_console.formats import CHECK, LINE, counted, index, kind_style, percent, shapes
from proofstream_console.phase_summary import path_of, running_parts
from proofstream_console.proof_summary import ProofSummary
from proofstream_console.run_summary import RunSummary
from proofstream_console.strip_view import draw_strip

_BAR_FROM_WIDTH = 44
_BAR_MAX = 60
_REACH, _FAR_REACH = 100, 160
"""Columns that a line takes: on a very wide terminal the eye would lose it."""

_TIME_WIDTH = 14
_MAX_INDENT = 8


class ProofView:
    """Draws proofs and what runs after them.

    Args:
        summary: The run so far.
        width: Of the terminal.
        room: Lines for the active layers of a proof, and as many for what else runs in it.
        strip_rows: Lines for the strip of its layers.
        is_spacious: Whether there is room to spare: lines reach farther, and the strip stays when all layers have
            ended.
        is_alone: Whether no other proof is drawn, so that there is room to say how the strip is to be read.
    """

    def __init__(
        self,
        summary: RunSummary,
        *,
        width: int,
        room: int,
        strip_rows: int = 0,
        is_spacious: bool = False,
        is_alone: bool = False,
    ) -> None:
        self._summary = summary
        self._width = width
        self._room = room
        self._strip_rows = strip_rows
        self._is_spacious = is_spacious
        self._is_alone = is_alone
        self._reach = reach_of(width, is_spacious=is_spacious)

    def proof(self, proof: ProofSummary) -> list[Text]:
        """Return the lines of an open proof."""
        interval = proof.proof
        assert interval is not None
        lines = [self._sides(self._title(proof), self._time(self._summary.elapsed(interval)))]
        match interval.stage:
            case "before_layers":
                lines += [self._progress(proof), self._stage_now(interval)]
            case "after_layers":
                strip = self._strip(proof, interval) if self._is_spacious else []
                lines += [self._layers_over(proof, interval), *strip, self._stage_now(interval)]
            case _:
                lines += [self._progress(proof), *self._strip(proof, interval), *self._layers(interval)]
        parts = running_parts(interval)
        lines += self._parts(parts)
        if not parts and not interval.active_layers:
            lines += self._nothing_heard(proof, interval)
        return [*lines, *self._silence(proof)]

    def outside(self, proof: ProofSummary | None, phases: Sequence[Phase]) -> list[Text]:
        """Return the lines of phases that run while their proof, if they have one, has ended."""
        if proof is None:
            return [Text("outside of proofs", style="bold"), *self._parts(phases)]
        number = f"{proof.number + 1}  " if self._summary.totals.proofs > 1 else ""
        title = Text(f"{CHECK} ", style="green").append(number + words.full_title(proof), "bold")
        return [title.append(f": {words.outcome(proof)}; still running:"), *self._parts(phases)]

    def _title(self, proof: ProofSummary) -> Text:
        number = f"{proof.number + 1}  " if self._summary.totals.proofs > 1 else ""
        title = Text(number + words.full_title(proof), style="bold")
        session = self._summary.sessions.get(proof.session_id)
        if session is None:
            return title
        source = Text(f"   {safe_text(session.source, 60)}", style="not bold dim")
        return append_if_fits(title, source, self._width - _TIME_WIDTH)

    # Stages

    def _layers_over(self, proof: ProofSummary, interval: Proof) -> Text:
        """Return the line for layers that have all ended. It has no bar, because the proof goes on."""
        layers = next((stage for stage in interval.stages if stage.name == "layers"), None)
        time = Text(f"{CHECK} ", style="green").append_text(self._time(_took_of(layers)))
        return self._sides(Text(f"  {words.layers_ratio(proof)}"), time)

    def _stage_now(self, interval: Proof) -> Text:
        """Return the line for a stage before or after the layers, and how long the proof has been in it."""
        stage = interval.stages[-1]
        since = self._summary.since(interval.session_id, stage.start_unix_nano)
        source = self._summary.elapsed(interval).source
        name = words.STAGES.get(stage.name, stage.name)
        return self._sides(Text(f"  {name}"), self._time(Took(since, source)))

    def _strip(self, proof: ProofSummary, interval: Proof) -> list[Text]:
        if not self._strip_rows:
            return []
        width = max(1, min(_FAR_REACH, self._width) - 4)
        strip = proof.strip.folded(
            room=width * self._strip_rows, announced=proof.num_layers or 0, active=interval.active_layers
        )
        lines = draw_strip(strip, width=width)
        if lines and self._is_spacious and self._is_alone:
            lines.append(Text(f"  {words.strip_scale(strip.per_cell, strip.longest_ns)}", style="dim"))
        return lines

    def _layers(self, interval: Proof) -> list[Text]:
        active = interval.active_layers
        if not active:
            return [self._layer(interval.last_layer)] if interval.last_layer is not None else []
        # The longest-running layers first: those are the ones to watch.
        active.sort(key=lambda layer: layer.start_unix_nano)
        shown = active if len(active) <= self._room else active[: max(1, self._room - 1)]
        lines = [self._layer(layer) for layer in shown]
        if hidden := len(active) - len(shown):
            lines.append(Text(f"  + {counted(hidden, 'more layer')}", style="dim"))
        return lines

    def _layer(self, layer: Interval) -> Text:
        if layer.is_open:
            elapsed = self._summary.elapsed(layer)
            # In a replay an open layer has no time until its end is read.
            time = self._time(elapsed) if elapsed.ns else Text("")
        else:
            time = Text(f"{CHECK} ", style="green").append_text(self._time(took(layer)))
        room = self._width - cell_len(time.plain) - 2
        line = _layer_name(layer.key or 0, layer.layer_kind)
        for detail in _details(layer):
            line = append_if_fits(line, Text(f"  {detail}", style="dim"), room)
        return self._sides(line, time)

    # What else runs, and silence

    def _parts(self, parts: Sequence[Interval]) -> list[Text]:
        """Return a line for each part that runs, indented by how many are around it."""
        # Of many, those that began last say most about what the proof does now.
        shown = list(parts if len(parts) <= self._room else parts[len(parts) - max(1, self._room - 1) :])
        hidden = len(parts) - len(shown)
        more = [Text(f"    + {counted(hidden, 'more phase')}", style="dim")] if hidden else []
        return more + [self._part(part) for part in shown]

    def _part(self, part: Interval) -> Text:
        indent = "  " * min(_MAX_INDENT, 1 + len(path_of(part)))
        return self._sides(Text(indent + words.part_name(part)), self._time(self._summary.elapsed(part)))

    def _nothing_heard(self, proof: ProofSummary, interval: Proof) -> list[Text]:
        said = words.nothing_heard(proof, interval.stage, self._summary.silent_ns(proof))
        return [Text(f"    {said}", style="dim")] if said else []

    def _silence(self, proof: ProofSummary) -> list[Text]:
        unusual = self._summary.unusual_silence(proof)
        return [] if unusual is None else [Text(f"  {words.unusual_silence(unusual)}", style="yellow")]

    # Parts of lines

    def _sides(self, left: Text, right: Text) -> Text:
        return both_sides(left, right, self._width, self._reach)

    def _progress(self, proof: ProofSummary) -> Text:
        """Return the line with the bar, which counts layers and says so."""
        share = proof.progress
        if share is None:
            return Text(f"  {words.layers_done(proof)} done", style="dim")
        said = f"{percent(share):>5}  {words.layers_ratio(proof)}"
        if self._width < _BAR_FROM_WIDTH:
            return Text(f"  {said.strip()}")
        # In a spacious view it ends where the times of the other lines do.
        size = self._reach - len(said) - 3 if self._is_spacious else min(_BAR_MAX, self._width - len(said) - 4)
        filled = int(size * share)
        bar = Text("  ").append(LINE * filled, "green").append(LINE * (size - filled), "bright_black")
        return bar.append(f" {said}")

    def _time(self, time: Took | None) -> Text:
        return Text("" if time is None or time.source == "unknown" else words.short_time(time), style="cyan")


def _took_of(stage: Stage | None) -> Took | None:
    return None if stage is None or stage.duration_ns is None else took(stage)


def _layer_name(key: int, kind: str) -> Text:
    return Text("  layer ", style="").append(f"{index(key):>4}  ").append(f"{kind:<10}", kind_style(kind))


def _details(layer: Interval) -> list[str]:
    event = layer.start_event
    details: list[str] = []
    if isinstance(event, LayerStart):
        details.append(shapes(event.input_shape, event.output_shape))
        details += [f"GPU {index(event.gpu_device)}"] if event.gpu_device is not None else []
    return [*details, counted(layer.rounds, "round")] if layer.rounds else details


def append_if_fits(line: Text, more: Text, width: int) -> Text:
    """Return a line with more at its end, or as it was if there is no room."""
    return line.append_text(more) if cell_len(line.plain) + cell_len(more.plain) <= width else line


def reach_of(width: int, *, is_spacious: bool) -> int:
    """Return how many columns a line takes from one side to the other."""
    return min(width, _FAR_REACH if is_spacious else _REACH)


def both_sides(left: Text, right: Text, width: int, reach: int) -> Text:
    """Return one line with a text at each side, not farther apart than it reaches. The left one is cut to fit."""
    room = width - cell_len(right.plain) - 2
    left.truncate(max(1, room), overflow="ellipsis")
    gap = max(1, width - cell_len(left.plain) - cell_len(right.plain))
    # A bounded gap: on a very wide terminal the eye would lose the line.
    most = max(1, reach - cell_len(left.plain) - cell_len(right.plain))
    return left.append(" " * min(gap, most)).append_text(right)
