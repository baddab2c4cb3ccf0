"""Places a camera so that everything is in view: from a given direction, and as near as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Point = tuple[float, float, float]

FIELD_OF_VIEW = math.radians(55)
"""The vertical angle of view of Rerun's viewer, in radians."""
ASPECT = 1.5
"""Width over height of the view that the camera is placed for. A wider view shows more at the sides."""
MARGIN = 0.93
"""The share of the view that the points fill, along the tighter of its two directions."""


@dataclass(frozen=True, slots=True)
class Camera:
    """The position and target of a camera, in scene units; up is +Y."""

    position: Point
    target: Point

    @property
    def distance(self) -> float:
        """The distance from the position to the target."""
        return math.dist(self.position, self.target)


def framing(points: Sequence[Point], *, slope: float, aspect: float = ASPECT, margin: float = MARGIN) -> Camera:
    """Return the nearest camera that looks along -Z and down by `slope` radians, and has all points in view, centred.

    Let q be a point's coordinate across the view and f its coordinate along the line of sight, both relative to the
    target at distance d. The point is in view if abs(q - s) <= (d + f) t, where t is the tangent of half the angle of
    view and s shifts the target. An s that suits two points exists if d >= (q1 - q2) / 2t - (f1 + f2) / 2. So the
    least d is half the sum of the largest q/t - f and the largest -q/t - f. The points must not all lie on one line of
    sight.
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
