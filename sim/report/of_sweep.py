"""The report of the folder of a sweep."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from sim.metrics import half_width_95
from sim.one_run import words
from sim.report import figures
from sim.report.about import ending
from sim.report.comparison import comparison
from sim.report.page import Block, Page, Plot, Section, Words
from sim.report.sweep_figures import by_key, heat_maps
from sim.report.verdict import compared
from sim.scenario.file import load_scenario
from sim.sweep.table import SHOWN, read_sweep, swept_keys
from sim.tables import with_interval

_EQUAL = 0.01


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
        verdict=[*_extremes(frame), *compared(frame)],
        sections=[
            Section("Figures", list(_plots(frame))),
            Section("Comparison", [comparison(frame), Words(about["notes"])]),
            *ending(folder, scenario, about, f"sweep {about['options']}"),
        ],
    )


def _plots(frame: pd.DataFrame) -> Iterator[Block]:
    keys = swept_keys(frame)
    numbers = [key for key in keys if pd.api.types.is_numeric_dtype(frame[key])]
    if len(keys) == 1 and numbers:
        yield Plot("throughput", figures.throughput(frame, keys[0]))
        lines = "p50 solid, p90 dashed, p99 dotted; means over the seeds with 95 % intervals."
        yield Plot("latency", figures.latency(frame, keys[0]), lines)
        return
    if len(keys) == 2:
        for metric, title in SHOWN.items():
            if frame[metric].notna().any():
                about = f"{title.capitalize()}: means over the seeds."
                yield Plot(f"map-{metric}", heat_maps(frame, metric), about)
    for number, key in enumerate(keys):
        about = f"Over {words(key)}: means over all other keys, with 95 % intervals over the seeds."
        yield Plot(f"key-{number}", by_key(frame, key), about)


def _extremes(frame: pd.DataFrame) -> Iterator[str]:
    """Where most comes out, and where the first tokens come earliest."""
    where, value = _best(frame, "output_tokens_per_s", is_least=False)
    yield f"Most output tokens: {value} a second, by {where}."
    if frame["ttft_p99_s"].notna().any():
        where, value = _best(frame, "ttft_p99_s", is_least=True, scale=1000)
        yield f"Earliest first tokens: p99 {value} ms, by {where}."


def _best(frame: pd.DataFrame, metric: str, *, is_least: bool, scale: float = 1) -> tuple[str, str]:
    """Which system and point, and how many are as good; and the mean there with its interval."""
    keys = ["system", *swept_keys(frame)]
    means = frame.groupby(keys, sort=False, dropna=False)[metric].mean()
    best, place = (means.min(), means.idxmin()) if is_least else (means.max(), means.idxmax())
    labels = dict(zip(keys, place if isinstance(place, tuple) else (place,), strict=True))
    rows = frame[(frame[keys] == pd.Series(labels)).all(axis=1)]
    values = scale * rows[metric].dropna().to_numpy(float)
    system, *others = labels.items()
    point = ", ".join(f"{words(key)} {value}" for key, value in others)
    where = f"{system[1]} at {point}" if others else str(system[1])
    if num_equal := int((abs(means / best - 1) < _EQUAL).sum()) - 1:
        where += f" (and {num_equal} more within {_EQUAL:.0%})"
    return where, with_interval(float(values.mean()), half_width_95(values))
