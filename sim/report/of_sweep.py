"""The report of the folder of a sweep."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.metrics import half_width_95
from sim.one_run import words
from sim.over_seeds import is_number
from sim.report import figures
from sim.report.about import ending
from sim.report.comparison import comparison
from sim.report.page import Block, Page, Plot, Section, Words
from sim.report.sweep_figures import by_key, heat_maps
from sim.report.verdict import compared, doubt
from sim.scenario.file import load_scenario
from sim.sweep.table import OF_SAMPLE, SHOWN, Swept, is_grid, read_sweep, swept_keys
from sim.tables import with_interval

FloatArray = npt.NDArray[np.float64]


def page_of_sweep(folder: Path) -> Page:
    """Raises UserError for a folder that is not of a sweep."""
    frame, about = read_sweep(folder)
    scenario = load_scenario(folder / "scenario.yaml", checks_points=False)
    keys = swept_keys(frame)
    num_points = len(frame[["system", *keys]].drop_duplicates())
    return Page(
        title=f"{scenario.name}: sweep over {', '.join(map(words, keys)) or 'seeds'}",
        about=f"{scenario.model} on {scenario.hardware}, {num_points} points, "
        f"{frame['seed'].nunique()} seeds, kvsim {about['versions']['kvsim']}",
        verdict=[*_extremes(frame), *compared(frame, ", in the mean of all points"), *doubt(frame)],
        sections=[
            Section("Figures", list(_plots(frame, scenario.sweep))),
            Section("Comparison", [comparison(frame), Words(about["notes"])]),
            *ending(folder, scenario, about, f"sweep {about['options']}"),
        ],
    )


def _plots(frame: pd.DataFrame, swept: Swept) -> Iterator[Block]:
    keys = swept_keys(frame)
    numbers = [key for key in keys if is_number(frame[key])]
    if len(keys) == 1 and numbers:
        yield Plot("throughput", figures.throughput(frame, keys[0]))
        lines = "p50 solid, p90 dashed, p99 dotted; means over the seeds with 95 % intervals."
        yield Plot("latency", figures.latency(frame, keys[0]), lines)
        return
    if len(keys) == 2:
        for metric, title in SHOWN.items():
            if frame[metric].notna().any():
                about = f"{title.capitalize()}: means over the seeds."
                yield Plot(f"map-{metric}", heat_maps(frame, metric, swept), about)
    means = "means over all other keys, with 95 % intervals over the seeds"
    for number, key in enumerate(keys):
        about = f"Over {words(key)}: {means if is_grid(frame) else OF_SAMPLE}."
        yield Plot(f"key-{number}", by_key(frame, key, swept), about)


def _extremes(frame: pd.DataFrame) -> Iterator[str]:
    """Where most comes out, and where the first tokens come earliest."""
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
    point = ", ".join(f"{words(key)} {value}" for key, value in others)
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
