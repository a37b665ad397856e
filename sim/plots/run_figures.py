"""The figures of a run by name, and which of them are drawn unasked."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from sim.one_run import OneRun, last_point
from sim.plots.attribution import attribution
from sim.plots.lines import latency, latency_distribution, throughput
from sim.plots.memory import kv_memory, kv_shares
from sim.plots.prefix_cache import has_looked, prefix_cache
from sim.plots.queues import queues
from sim.plots.style import save


class Shown(NamedTuple):
    """What figures of a run are drawn from.

    summary: all its rows. key: of what was swept, if that is one number. runs: of each system at
    one point of the sweep, each serving somebody. at_point: the rows of all seeds there.
    """

    summary: pd.DataFrame
    key: str | None
    runs: list[OneRun]
    at_point: pd.DataFrame


class RunFigure(NamedTuple):
    """shows: in a few words. needs: what a run must have for it; None where every run has it.

    is_unasked: whether a run leaves it by itself.
    """

    shows: str
    draw: Callable[[Shown], Figure | None]
    needs: str | None = None
    is_unasked: bool = True


def _over_key(draw: Callable[[pd.DataFrame, str], Figure]) -> Callable[[Shown], Figure | None]:
    return lambda shown: draw(shown.summary, shown.key) if shown.key else None


_A_NUMBER = "a sweep of one key, over numbers"

FIGURES = {
    "throughput": RunFigure(
        "output tokens per second against what was swept", _over_key(throughput), _A_NUMBER
    ),
    "latency": RunFigure(
        "p50 and p99 of TTFT and TPOT against what was swept", _over_key(latency), _A_NUMBER
    ),
    "latency_distribution": RunFigure(
        "TTFT and end-to-end latency over the requests",
        lambda shown: latency_distribution(shown.runs),
    ),
    "kv_memory": RunFigure(
        "what the slots of the pool are for, over time", lambda shown: kv_memory(shown.runs)
    ),
    "kv_shares": RunFigure(
        "the same, as means over time", lambda shown: kv_shares(shown.at_point, shown.runs[0])
    ),
    "queues": RunFigure(
        "sequences that run and that wait, over time",
        lambda shown: queues(shown.runs),
        is_unasked=False,
    ),
    "prefix_cache": RunFigure(
        "what the prefix cache found of prompts, and why not more",
        lambda shown: prefix_cache(shown.runs) if any(map(has_looked, shown.runs)) else None,
        "engine.enable_prefix_caching",
        is_unasked=False,
    ),
    "attribution": RunFigure(
        "what TTFT is made of, of all and of the slow requests",
        lambda shown: attribution(shown.runs),
    ),
}


def shown_of(summary: pd.DataFrame, runs: list[OneRun], at: dict[str, str] | None = None) -> Shown:
    """The last point at which anybody is served, of those with these values of swept keys.

    summary: has a row for each run, in the same order. In one of them a request is served.
    """
    wanted = (at or {}).items()
    last = last_point(run for run in runs if run.labels.items() >= wanted)
    served = [place for place, run in enumerate(runs) if run.is_served]
    at_point = [place for place in served if runs[place].labels == last[0].labels]
    return Shown(summary, _swept_number(summary, runs), last, summary.iloc[at_point])


def draw_figures(folder: Path, summary: pd.DataFrame, runs: list[OneRun]) -> None:
    """PNG files for a run: against what was swept if that is one number, and of its last point.

    See `shown_of`.
    """
    shown = shown_of(summary, runs)
    for name, figure in FIGURES.items():
        drawn = figure.draw(shown) if figure.is_unasked else None
        if drawn:
            save(drawn, folder / f"{name}.png")


def _swept_number(summary: pd.DataFrame, runs: list[OneRun]) -> str | None:
    """The swept key, when there is only one and its values are numbers."""
    keys = list(runs[0].labels)
    if len(keys) != 1 or pd.api.types.is_bool_dtype(summary[keys[0]]):
        return None
    return keys[0] if pd.api.types.is_numeric_dtype(summary[keys[0]]) else None
