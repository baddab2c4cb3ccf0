"""What is drawn at one moment, as plain values: the vocabulary between the scene and Rerun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Colors: TypeAlias = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Boxes:
    """Solid boxes: centres and half sizes of shape [n, 3], and n colours."""

    centers: Floats
    half_sizes: Floats
    colors: Colors

    def first(self, count: int) -> Boxes:
        """The first so many of them."""
        return Boxes(self.centers[:count], self.half_sizes[:count], self.colors[:count])


@dataclass(frozen=True, slots=True)
class BoxGroup:
    """Boxes in several parts, which are put together when they are written."""

    parts: tuple[Boxes, ...]


@dataclass(frozen=True, slots=True)
class Points:
    """Points with labels: positions of shape [n, 3], n colours and, where there are any, n labels."""

    positions: Floats
    colors: Colors
    labels: Sequence[str] = ()

    @classmethod
    def one(cls, place: tuple[float, float, float], color: int, label: str) -> Points:
        """A single one."""
        return cls(np.array([place], np.float32), np.array([color], np.uint32), (label,))


@dataclass(frozen=True, slots=True)
class Strips:
    """Lines through the points of each strip, which has the shape [k, 3]."""

    strips: Sequence[Floats]
    colors: Colors


@dataclass(frozen=True, slots=True)
class Graph:
    """A directed graph with nodes at given places: positions of shape [n, 2], edges as pairs of node ids."""

    ids: Sequence[str]
    positions: Floats
    labels: Sequence[str]
    colors: Colors
    edges: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Numbers:
    """One number for each line of a plot; NaN where there is none."""

    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class State:
    """What a lane shows from now on; None for nothing."""

    state: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log, and Rerun's word for its level."""

    text: str
    level: str


@dataclass(frozen=True, slots=True)
class Document:
    """A text in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """A tensor with names for its dimensions."""

    values: Floats
    dimensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BarRow:
    """A bar for each value, at the places of `abscissa`."""

    values: npt.NDArray[np.float64]
    abscissa: npt.NDArray[np.int64]
    color: int


@dataclass(frozen=True, slots=True)
class Round:
    """One sumcheck round: which, what was claimed, and its polynomial's coefficients, the constant first, if given."""

    layer: int
    round: int
    total: int
    claim: float
    coefficients: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Cleared:
    """Nothing from now on."""


Mark: TypeAlias = (
    Boxes | BoxGroup | Points | Strips | Graph | Numbers | State | Line | Document | Sheet | BarRow | Round | Cleared
)


@dataclass(frozen=True, slots=True)
class Look:
    """How an entity looks at any time.

    What all entities of one view have in common, as the colours of lanes, is the view's and stands in the blueprint.

    Attributes:
        kind: `lines`, `steps` and `points` for numbers, `trail` and `cursor` in space, or `plain`.
        names: Of the lines of a plot.
        colors: One for each name.
    """

    kind: str = "plain"
    names: Sequence[str] = field(default=())
    colors: Sequence[int] = field(default=())


PLAIN = Look()
