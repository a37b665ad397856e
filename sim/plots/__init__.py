"""The figures of a run. They read the summary and the records and compute no metric."""

from pathlib import Path

import pandas as pd

from sim.experiment import Result
from sim.plots.attribution import attribution
from sim.plots.lines import latency, latency_distribution, throughput
from sim.plots.memory import kv_memory, kv_shares
from sim.plots.style import save


def draw_figures(folder: Path, summary: pd.DataFrame, results: list[Result]) -> None:
    """PNG files for a run: against what was swept if that is one number, and of its last point.

    summary: has a row for each result, in the same order. In at least one of them a request is
        served; a run that serves none is in no figure of what happened over time.
    """
    key = _swept_number(summary, results)
    if key:
        save(throughput(summary, key), folder / "throughput.png")
        save(latency(summary, key), folder / "latency.png")
    served = [place for place in range(len(results)) if summary["finished"].iloc[place]]
    last = _last_point([results[place] for place in served])
    if not key:
        save(latency_distribution(last), folder / "latency.png")
    save(kv_memory(last), folder / "kv_memory.png")
    save(attribution(last), folder / "attribution.png")
    at_last = [place for place in served if results[place].job.labels == last[0].job.labels]
    save(kv_shares(summary.iloc[at_last], last[0]), folder / "kv_shares.png")


def _swept_number(summary: pd.DataFrame, results: list[Result]) -> str | None:
    """The swept key, when there is only one and its values are numbers."""
    keys = list(results[0].job.labels)
    if len(keys) != 1 or pd.api.types.is_bool_dtype(summary[keys[0]]):
        return None
    return keys[0] if pd.api.types.is_numeric_dtype(summary[keys[0]]) else None


def _last_point(results: list[Result]) -> list[Result]:
    """The first run of each system at the last point of the sweep that is among these."""
    last = results[-1].job
    first = next(r.job for r in results if r.job.labels == last.labels)
    return [
        result
        for result in results
        if result.job.labels == last.labels and result.job.scenario.seed == first.scenario.seed
    ]
