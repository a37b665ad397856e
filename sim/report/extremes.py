"""Where, of all points of a sweep, most comes out, and where first tokens come earliest."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.metrics import half_width_95
from sim.one_run import words
from sim.scenario.value_text import value_text
from sim.sweep.table import swept_keys
from sim.tables import with_interval

FloatArray = npt.NDArray[np.float64]


def extremes(frame: pd.DataFrame) -> Iterator[str]:
    """In a sentence each. frame: a row for each run, as tables of runs and sweeps have them."""
    yield f"Most output tokens: {_best(frame, 'output_tokens_per_s', '{} a second')}"
    if frame["ttft_p99_s"].notna().any():
        yield f"Earliest first tokens: {_best(frame, 'ttft_p99_s', 'p99 {} ms')}"


def _best(frame: pd.DataFrame, metric: str, unit: str) -> str:
    """The mean with its interval, which system and point, and which others may be as good.

    unit: `{}` is where the number goes.
    """
    keys = ["system", *swept_keys(frame)]
    of_points = frame.pivot_table(metric, "seed", keys, sort=False, observed=True)
    means = of_points.mean()
    place = means.idxmax() if metric.endswith("_per_s") else means.idxmin()
    values = of_points[place].dropna().to_numpy(float)
    scale = 1 if metric.endswith("_per_s") else 1000
    width = half_width_95(values)
    number = with_interval(scale * float(values.mean()), None if width is None else scale * width)
    labels = place if isinstance(place, tuple) else (place,)
    system, *others = zip(keys, labels, strict=True)
    point = ", ".join(f"{words(key)} {value_text(value)}" for key, value in others)
    where = f"{system[1]} at {point}" if others else str(system[1])
    return f"{unit.format(number)}, by {where}{_equals(of_points, place)}."


def _equals(of_points: pd.DataFrame, place: Any) -> str:
    """Points that the runs do not tell from it under the same seeds: columns, a row for a seed."""
    if len(of_points) < 2:
        return ""
    apart = of_points.drop(columns=[place]).sub(of_points[place], axis=0)
    is_equal = [_is_zero(apart[column].dropna().to_numpy(float)) for column in apart]
    if not any(is_equal):
        return ", and the runs tell it from all others"
    return f"; of {len(is_equal)} others the runs do not tell it from {sum(is_equal)}"


def _is_zero(differences: FloatArray) -> bool:
    """Whether their mean may be 0, by its 95 % interval."""
    width = half_width_95(differences)
    return width is None or bool(abs(differences.mean()) <= width)
