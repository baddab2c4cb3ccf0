"""Marks: what one entity shows at one moment, as plain values. They are the vocabulary between the scene and Rerun.

A sumcheck round is its own mark: there are so many of them that converting each would cost too much.
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
ORIGIN: Place = (0.0, 0.0, 0.0)
Colors: TypeAlias = npt.NDArray[np.uint32]


class Boxes(msgspec.Struct, frozen=True, gc=False):
    """Solid boxes: centres and half sizes of shape [n, 3], and n colours."""

    centers: Floats
    half_sizes: Floats
    colors: Colors

    def first(self, count: int) -> Boxes:
        """Return the first `count` boxes."""
        return Boxes(self.centers[:count], self.half_sizes[:count], self.colors[:count])


Placed: TypeAlias = tuple[Place, Boxes]
"""Boxes about the origin, and the place to move them to."""


class BoxGroup(msgspec.Struct, frozen=True, gc=False):
    """Boxes in several parts, which are merged only when they are written.

    Attributes:
        stock: Parts that several rows share. The list may grow, but its items never change.
        count: How many parts of the stock belong to this row, from the first one on.
        more: Parts of this row alone.
        boxes: How many boxes all parts of this row have.
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
    """One number for each line of a plot; NaN for a line without a value."""

    values: Sequence[float]


class StateChange(msgspec.Struct, frozen=True, gc=False):
    """The state that an entity is in from now on; None ends the state before."""

    state: str | None


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """A line of a text log, and Rerun's word for its level."""

    text: str
    level: str


class Document(msgspec.Struct, frozen=True, gc=False):
    """A document in Markdown."""

    text: str


class Sheet(msgspec.Struct, frozen=True, gc=False):
    """A tensor with names for its dimensions, and the range of values that the colours stand for.

    NaN means that there is no value. The viewer gives it the colour of the lowest end of the range.
    """

    values: Floats
    dimensions: tuple[str, ...]
    value_range: tuple[float, float]


class BarRow(msgspec.Struct, frozen=True, gc=False):
    """A bar for each value, at the positions in `abscissa`."""

    values: npt.NDArray[np.float64]
    abscissa: npt.NDArray[np.int64]
    color: int


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """Clears the entity from now on."""


Static: TypeAlias = Boxes | Labels | Strips | Nodes | Edges
"""Marks that may be static."""

Mark: TypeAlias = (
    Static | BoxGroup | Points | Numbers | StateChange | LogEntry | Document | Sheet | BarRow | SumcheckRound | Cleared
)
"""All kinds of marks."""


class Look(msgspec.Struct, frozen=True, gc=False):
    """The appearance of an entity, which does not change in time.

    The blueprint sets what all entities of a view have in common, such as the colours of states.

    Attributes:
        kind: `lines`, `steps` or `points` for numbers, `trail` or `cursor` in space, else `plain`.
        names: Names of the lines of a plot.
        colors: One colour for each name.
    """

    kind: str = "plain"
    names: tuple[str, ...] = ()
    colors: tuple[int, ...] = ()


PLAIN = Look()

PropertyValue: TypeAlias = str | int | float | bool
"""A fact about a whole recording."""
