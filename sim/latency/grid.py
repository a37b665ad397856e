"""Tables of measurements over a grid, interpolated."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim.errors import UserError
from sim.latency.model import Float64Array

_NUM_TAIL = 8  # points that say how a line goes on beyond its end


class Grid:
    """Values over the grid of some axes, linear in each axis between its points and beyond them.

    Beyond the last point of an axis they never fall: more work does not take less time.

    axes: rising positions, at least two on each. values: of shape (len of each axis).
    """

    def __init__(self, axes: Sequence[Float64Array], values: Float64Array) -> None:
        self.axes = list(axes)
        self.values = values
        self._points = [axis.tolist() for axis in axes]

    @classmethod
    def from_rows(cls, positions: Sequence[Float64Array], values: Float64Array) -> "Grid":
        """A grid from rows in any order: positions of each on every axis, and its value.

        Points of the grid that no row has are interpolated along the first axis, of those from the
        last back, on which others are measured on both sides. What is left takes the value of the
        first that was measured after it, or goes on, never falling, from the last two before it.
        """
        axes = [np.unique(column) for column in positions]
        table = np.full([len(axis) for axis in axes], np.nan)
        places = [
            np.searchsorted(axis, column) for axis, column in zip(axes, positions, strict=True)
        ]
        table[tuple(places)] = values
        for is_outside_too in (False, True):
            for axis in reversed(range(len(axes))):
                table = np.apply_along_axis(_filled, axis, table, axes[axis], is_outside_too)
        return cls(axes, table)

    def at(self, *position: float) -> float:
        """The value at a position."""
        corners, weights = [], []
        for points, x in zip(self._points, position, strict=True):
            left = _place(points, x)
            corners.append(slice(left, left + 2))
            weights.append((x - points[left]) / (points[left + 1] - points[left]))
        cube = self.values[tuple(corners)]
        for weight in weights:
            rise = cube[1] - cube[0]
            cube = cube[0] + weight * rise if weight <= 1 else cube[1] + (weight - 1) * _up(rise)
        return float(cube)


def _up(rise: Float64Array) -> Float64Array:
    """Nothing in place of a fall."""
    return np.maximum(rise, 0.0)


def _place(points: list[float], x: float) -> int:
    """Index of the last point but one, at most, that x is not below."""
    place = int(np.searchsorted(points, x, side="right")) - 1
    return min(max(place, 0), len(points) - 2)


def _filled(values: Float64Array, axis: Float64Array, is_outside_too: bool) -> Float64Array:
    """A line of a table with its missing values interpolated; those at its ends only if so told."""
    known = np.flatnonzero(~np.isnan(values))
    if len(known) in (0, len(values)):
        return values
    first, last = known[0], known[-1]
    filled: Float64Array = np.interp(axis, axis[known], values[known])
    if not is_outside_too:
        filled[:first] = filled[last + 1 :] = np.nan
    elif len(known) > 1:
        rise = (values[last] - values[known[-2]]) / (axis[last] - axis[known[-2]])
        filled[last + 1 :] += _up(rise) * (axis[last + 1 :] - axis[last])
    return filled


def check_axes(grid: Grid, path: Path, columns: Sequence[str]) -> None:
    """Raise UserError where a table says nothing of how times change along one of its axes."""
    for axis, column in zip(grid.axes, columns, strict=True):
        if len(axis) == 1:
            raise UserError(
                f"{path}, column {column!r}: {axis[0]:g} in all rows, expected several values"
            )


class Line:
    """Points joined by straight lines; before the first as there, beyond the last as its end goes.

    The end goes through its last points by least squares, since a single step of a staircase says
    nothing of how the stairs go on.
    """

    def __init__(self, positions: Float64Array, values: Float64Array) -> None:
        self._positions, self._values = positions, values
        tail = slice(-_NUM_TAIL, None)
        self._slope, self._base = 0.0, float(values[-1])
        if len(positions) > 1:
            slope, base = np.polyfit(positions[tail], values[tail], 1)
            self._slope, self._base = float(slope), float(base)

    def at(self, position: float) -> float:
        """The value at a position."""
        last = self._positions[-1]
        if position <= last:
            return float(np.interp(position, self._positions, self._values))
        return float(self._values[-1] + self._slope * (position - last))
