"""The figures of a run by name, and which of them are drawn unasked."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from sim.one_run import OneRun
from sim.plots.attribution import attribution
from sim.plots.lines import latency, latency_distribution, throughput
from sim.plots.memory import kv_memory, kv_shares
from sim.plots.prefix_cache import prefix_cache
from sim.plots.queues import queues
from sim.plots.style import save
from sim.prefix_shares import has_looked
from sim.shown import Shown, shown_of


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


def draw_figures(folder: Path, summary: pd.DataFrame, runs: list[OneRun]) -> None:
    """PNG files for a run: against what was swept if that is one number, and of its last point.

    See `shown_of`.
    """
    shown = shown_of(summary, runs)
    for name, figure in FIGURES.items():
        drawn = figure.draw(shown) if figure.is_unasked else None
        if drawn:
            save(drawn, folder / f"{name}.png")
