"""The table that compares systems, with intervals."""

from typing import NamedTuple

import pandas as pd

from sim.metrics import half_width_95
from sim.one_run import words
from sim.report.page import Cell, Table
from sim.tables import with_interval


class Column(NamedTuple):
    """heading: with the unit. scale: what a value of the summary is multiplied by for it."""

    heading: str
    scale: float = 1


COLUMNS = {
    "output_tokens_per_s": Column("output\ntokens/s"),
    "ttft_mean_s": Column("TTFT\nmean ms", 1000),
    "ttft_p50_s": Column("TTFT\np50 ms", 1000),
    "ttft_p99_s": Column("TTFT\np99 ms", 1000),
    "tpot_p50_s": Column("TPOT\np50 ms", 1000),
    "tpot_p99_s": Column("TPOT\np99 ms", 1000),
    "e2e_p99_s": Column("E2E\np99 s"),
    "slo_share": Column("SLO\nmet %", 100),
    "block_utilisation": Column("blocks\nheld %", 100),
    "live_share": Column("live\n%", 100),
    "prefix_hit_share": Column("prefix\nhits %", 100),
    "preemptions": Column("pre-\nempted"),
    "refused": Column("refused"),
}
_ONLY_IF_ANY = ("prefix_hit_share", "preemptions", "refused")


def comparison(summary: pd.DataFrame, within: tuple[str, ...] = ()) -> Table:
    """A row for each system and point: means over the seeds, ± the 95 % interval.

    within: columns that tell rows of one run apart, such as `class`.
    """
    keys = [*summary.columns[1 : summary.columns.get_loc("seed")], *within]
    shown = {
        metric: column
        for metric, column in COLUMNS.items()
        if metric in summary and (metric not in _ONLY_IF_ANY or summary[metric].any())
    }
    headings = ["system", *map(words, keys), *(column.heading for column in shown.values())]
    rows = []
    for labels, group in summary.groupby(["system", *keys], sort=False, dropna=False):
        names = [_label(label) for label in labels]
        rows.append([*names, *(_cell(group[m], column.scale) for m, column in shown.items())])
    return Table(headings, rows)


def _label(label: object) -> Cell:
    if isinstance(label, int | float):
        return Cell(f"{label:g}", float(label))
    return Cell(str(label))


def _cell(values: pd.Series, scale: float) -> Cell:
    known = values.dropna().to_numpy(float) * scale
    if not len(known):
        return Cell("-", -1.0)
    mean = float(known.mean())
    return Cell(with_interval(mean, half_width_95(known)), mean)
