"""What is drawn at one moment, as plain values: the vocabulary between the scene and Rerun.

A sumcheck round is drawn as the event that it is: there are so many of them that a copy would cost too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from proofstream import SumcheckRound

Floats: TypeAlias = npt.NDArray[np.float32]
Place: TypeAlias = tuple[float, float, float]
Colors: TypeAlias = npt.NDArray[np.uint32]


class Boxes(msgspec.Struct, frozen=True, gc=False):
    """Solid boxes: centres and half sizes of shape [n, 3], and n colours."""

    centers: Floats
    half_sizes: Floats
    colors: Colors

    def first(self, count: int) -> Boxes:
        """The first so many of them."""
        return Boxes(self.centers[:count], self.half_sizes[:count], self.colors[:count])


Placed: TypeAlias = tuple[Place, Boxes]
"""Boxes that are to stand about a place; their own centres are about the origin."""


class BoxGroup(msgspec.Struct, frozen=True, gc=False):
    """Boxes in several parts, which are put together when they are written.

    Attributes:
        stock: Parts that rows have in common. The list may grow; what is in it stays.
        count: How many of those, from the first one on.
        more: Parts that only this row has.
        boxes: How many boxes that makes.
    """

    stock: list[Placed]
    count: int
    more: Sequence[Placed]
    boxes: int


class Labels(msgspec.Struct, frozen=True, gc=False):
    """Texts in space: positions of shape [n, 3], n colours and n texts."""

    positions: Floats
    colors: Colors
    labels: Sequence[str]


class Points(msgspec.Struct, frozen=True, gc=False):
    """A few points of one colour, each with a label."""

    positions: Sequence[Place]
    labels: Sequence[str]
    color: int


class Strips(msgspec.Struct, frozen=True, gc=False):
    """Lines through the points of each strip, which has the shape [k, 3]."""

    strips: Sequence[Floats]
    colors: Colors


class Edges(msgspec.Struct, frozen=True, gc=False):
    """The directed edges of a graph, as pairs of node ids."""

    pairs: Sequence[tuple[str, str]]


class Nodes(msgspec.Struct, frozen=True, gc=False):
    """The nodes of a graph at given places: positions of shape [n, 2]."""

    ids: Sequence[str]
    positions: Floats
    labels: Sequence[str]
    colors: Colors


class Numbers(msgspec.Struct, frozen=True, gc=False):
    """One number for each line of a plot; NaN where there is none."""

    values: Sequence[float]


class StateChange(msgspec.Struct, frozen=True, gc=False):
    """What a lane shows from now on; None for nothing."""

    state: str | None


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """A line of a log, and Rerun's word for its level."""

    text: str
    level: str


class Document(msgspec.Struct, frozen=True, gc=False):
    """A text in Markdown."""

    text: str


class Sheet(msgspec.Struct, frozen=True, gc=False):
    """A tensor with names for its dimensions."""

    values: Floats
    dimensions: tuple[str, ...]


class BarRow(msgspec.Struct, frozen=True, gc=False):
    """A bar for each value, at the places of `abscissa`, or at 0, 1, 2 and so on if there are none."""

    values: npt.NDArray[np.float64]
    abscissa: npt.NDArray[np.int64] | None
    color: int


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """Nothing from now on."""


Static: TypeAlias = Boxes | Labels | Strips | Nodes | Edges
"""What may hold at any time."""

Mark: TypeAlias = (
    Static | BoxGroup | Points | Numbers | StateChange | LogEntry | Document | Sheet | BarRow | SumcheckRound | Cleared
)
"""What may be drawn."""


class Look(msgspec.Struct, frozen=True, gc=False):
    """How an entity looks at any time.

    What all entities of one view have in common, as the colours of lanes, is the view's and stands in the blueprint.

    Attributes:
        kind: `lines`, `steps` and `points` for numbers, `trail` and `cursor` in space, or `plain`.
        names: Of the lines of a plot.
        colors: One for each name.
    """

    kind: str = "plain"
    names: tuple[str, ...] = ()
    colors: tuple[int, ...] = ()


PLAIN = Look()

PropertyValue: TypeAlias = str | int | float | bool
"""A fact about a whole recording."""
