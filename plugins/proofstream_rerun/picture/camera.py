"""A camera that has everything in view, from a given direction and no farther away than need be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Point = tuple[float, float, float]

FIELD_OF_VIEW = math.radians(55)
"""The viewer's, from the top to the bottom of a view."""
ASPECT = 1.5
"""Width over height of a view that the camera is placed for. One that is wider shows more at the sides."""
MARGIN = 0.93
"""The share of a view that is filled, along the side that is filled most."""


@dataclass(frozen=True, slots=True)
class Camera:
    """From where to where one looks; up is +Y."""

    position: Point
    target: Point

    @property
    def distance(self) -> float:
        """From the position to the target."""
        return math.dist(self.position, self.target)


def framing(points: Sequence[Point], *, slope: float, aspect: float = ASPECT, margin: float = MARGIN) -> Camera:
    """The camera that looks along -Z, and down by `slope` radians, at points that it has all in view and in the middle.

    With q a point's place across the view and f its place along it, seen from a target at distance d, the point is in
    view if abs(q - s) <= (d + f) t, where t is the tangent of half the angle of view and s shifts the target. For two
    points there is such an s if d >= (q1 - q2) / 2t - (f1 + f2) / 2, so the least d is half the sum of the largest
    q/t - f and the largest -q/t - f. The points must not all lie in one line of sight.
    """
    forward = np.array([0.0, -math.sin(slope), -math.cos(slope)])
    right = np.array([1.0, 0.0, 0.0])
    up = np.array([0.0, math.cos(slope), -math.sin(slope)])
    places = np.asarray(points, np.float64)
    middle = places.mean(axis=0)
    along = (places - middle) @ forward
    high = math.tan(FIELD_OF_VIEW / 2) * margin
    across = [
        ((places - middle) @ axis / tangent, axis, tangent) for axis, tangent in ((right, high * aspect), (up, high))
    ]
    distance = max(((q - along).max() + (-q - along).max()) / 2 for q, _, _ in across)
    shifts = [axis * tangent * ((q - along).max() + (q + along).min()) / 2 for q, axis, tangent in across]
    target = middle + shifts[0] + shifts[1]
    position = target - forward * distance
    return Camera(_point(position), _point(target))


def _point(place: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Point:
    x, y, z = (float(value) for value in place)
    return x, y, z
