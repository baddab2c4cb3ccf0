"""The drawing of state programs: the bytes that one run of each writes, and those that its runs have written so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proofstream import StateBytesMoved, StateProgramCost, safe_text
from proofstream_rerun.picture import palette, texts
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.marks import PLAIN, BarRow, Document, Look, Numbers

MAX_PROGRAMS = 32
"""The most programs that are shown."""

_MAX_GROUPS = 16
_KEPT = 512
"""How many values of one plot are kept for the snapshot."""


@dataclass(slots=True)
class _Program:
    """The known figures of one program under one convention."""

    circuit: str
    convention: str
    program: str
    op: str = ""
    bytes_per_run: int | None = None
    groups: tuple[tuple[str, int, int], ...] = ()
    runs: int = 0
    sequences: int = 0
    moved: int = 0
    place: int = field(default=0)


class StateCostDrawing:
    """Draws the state programs of one recording."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._programs: dict[tuple[str, str, str], _Program] = {}
        self._is_stale = False
        self.undrawn: int = 0

    def set_program_cost(self, event: StateProgramCost) -> None:
        """Set the bytes that one run of a program writes."""
        program = self._program(event.circuit, event.convention, event.program)
        if program is not None:
            program.op = event.op[: texts.MAX_TEXT]
            program.bytes_per_run = event.bytes
            program.groups = tuple(
                (group.group[: texts.MAX_TEXT], group.states, group.bytes) for group in event.states[:_MAX_GROUPS]
            )
            self._is_stale = True

    def add_bytes_moved(self, event: StateBytesMoved) -> None:
        """Add the bytes that runs of a program wrote."""
        program = self._program(event.circuit, event.convention, event.program)
        if program is None:
            return
        program.runs += event.runs
        program.sequences += event.sequences
        program.moved += event.bytes
        self._is_stale = True
        color = palette.SERIES_COLORS[program.place % len(palette.SERIES_COLORS)]
        look = Look("steps", (f"{safe_text(program.program, 60)}, bytes so far (derived)",), (color,))
        path = f"state/moved/{_word(program.program)}_{program.place}"
        self._canvas.add_row(path, Numbers((float(program.moved),)), look, keep=_KEPT)

    def catch_up(self) -> None:
        """Redraw the table and the bars if a program changed."""
        if not self._is_stale:
            return
        self._is_stale = False
        programs = list(self._programs.values())
        self._canvas.add_row("state/programs", Document(_document(programs)), PLAIN)
        values = np.array([float(program.bytes_per_run or 0) for program in programs], np.float64)
        bars = BarRow(values, np.arange(len(values)), palette.SERIES_COLORS[0])
        self._canvas.add_row("state/bytes", bars, PLAIN)

    def _program(self, circuit: str, convention: str, name: str) -> _Program | None:
        key = (circuit[: texts.MAX_TEXT], convention[: texts.MAX_TEXT], name[: texts.MAX_TEXT])
        found = self._programs.get(key)
        if found is None:
            if len(self._programs) >= MAX_PROGRAMS:
                self.undrawn += 1
                return None
            found = self._programs[key] = _Program(*key, place=len(self._programs))
        return found


def _word(name: str) -> str:
    """Return a name as a part of an entity's path: 40 ASCII letters, digits and underscores at most."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name[:40]) or "program"


def _document(programs: list[_Program]) -> str:
    rows = [
        (
            str(program.place),
            texts.in_markdown(program.program, 60),
            texts.in_markdown(program.op, 20),
            "?" if program.bytes_per_run is None else f"{program.bytes_per_run:,}",
            f"{program.runs:,}",
            f"{program.sequences:,}",
            f"{program.moved:,}",
            texts.in_markdown(f"{program.circuit}, {program.convention}", 80),
        )
        for program in programs
    ]
    head = ("bar", "program", "op", "bytes per sequence", "runs", "sequences", "bytes so far", "circuit, convention")
    parts = ["**State programs.** All bytes are derived from the states' declarations.", "", texts.table(head, rows)]
    for program in programs:
        if program.groups:
            groups = ((texts.in_markdown(name, 60), f"{count:,}", f"{size:,}") for name, count, size in program.groups)
            parts += ["", f"**{texts.in_markdown(program.program, 60)}**", ""]
            parts.append(texts.table(("group", "states", "bytes"), groups))
    return "\n".join(parts)
