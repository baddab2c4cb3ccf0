"""The camera has every point in view, from as near as possible."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proofstream_rerun.picture.camera import ASPECT, FIELD_OF_VIEW, MARGIN, Camera, framing

SLOPE = math.radians(40)
Point = tuple[float, float, float]


def corners(corner: Point, sides: Point) -> list[Point]:
    """Return the corners of a box."""
    (x, y, z), (width, height, depth) = corner, sides
    return [(x + width * i, y + height * j, z + depth * k) for i, j, k in itertools.product((0, 1), repeat=3)]


BOXES = st.builds(corners, st.tuples(*[st.floats(-500, 500)] * 3), st.tuples(*[st.floats(1, 500)] * 3))


def seen(camera: Camera, points: list[Point]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Project points into the view: across and up, from -1 to 1 at its borders."""
    position, target = np.array(camera.position), np.array(camera.target)
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, (0.0, 1.0, 0.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    relative = np.array(points) - position
    depth = relative @ forward
    assert (depth > 0).all()
    high = depth * math.tan(FIELD_OF_VIEW / 2)
    return np.stack([relative @ right / (high * ASPECT), relative @ up / high], axis=1)


@given(points=BOXES)
def test_everything_is_in_view_and_one_side_is_filled(points: list[Point]) -> None:
    places = seen(framing(points, slope=SLOPE), points)

    assert np.abs(places).max() <= MARGIN + 1e-6
    assert max(np.ptp(places[:, axis]) for axis in (0, 1)) >= 2 * MARGIN - 1e-6


@given(points=BOXES)
def test_it_looks_down_by_the_slope_and_never_sideways(points: list[Point]) -> None:
    camera = framing(points, slope=SLOPE)
    x, y, z = np.array(camera.target) - np.array(camera.position)

    assert abs(x) < 1e-6 * math.hypot(y, z)
    assert math.isclose(math.atan2(-y, -z), SLOPE, rel_tol=1e-9)
