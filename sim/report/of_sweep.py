"""The report of the folder of a sweep."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from sim.one_run import words
from sim.over_seeds import is_number
from sim.report import figures
from sim.report.about import ending
from sim.report.comparison import comparison
from sim.report.extremes import extremes
from sim.report.page import Block, Page, Plot, Section, Words
from sim.report.sweep_figures import heat_maps, over_each
from sim.report.verdict import compared, doubt
from sim.scenario.file import load_scenario
from sim.sweep.table import SHOWN, Swept, read_sweep, swept_keys


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
        verdict=[*extremes(frame), *compared(frame, ", in the mean of all points"), *doubt(frame)],
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
    yield from over_each(frame, keys, swept)
