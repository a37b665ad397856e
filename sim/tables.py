"""The tables a run prints: the summary, reduced to what one looks at first."""

import math
from collections.abc import Callable

import pandas as pd
from rich.table import Table

from sim.metrics import half_width_95
from sim.one_run import words


def milliseconds(seconds: float) -> str:
    """With three digits, or whole."""
    return three_digits(seconds * 1000)


def three_digits(value: float) -> str:
    """Of a value, or all of them before the point."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f}"


def number(value: float) -> str:
    """With three digits, or whole."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


Columns = dict[str, tuple[str, Callable[[float], str]]]  # metric -> (heading, format)

_COLUMNS: Columns = {
    "output_tokens_per_s": ("output\ntokens/s", number),
    "ttft_p50_s": ("TTFT\np50 ms", milliseconds),
    "ttft_p99_s": ("TTFT\np99 ms", milliseconds),
    "tpot_p50_s": ("TPOT\np50 ms", milliseconds),
    "block_utilisation": ("blocks\nheld %", _percent),
    "live_share": ("live\n%", _percent),
    "preemptions": ("pre-\nempted", number),
    "prefix_hit_share": ("prefix\nhits %", _percent),
}
_SLO = ("SLO\nmet %", _percent)
_OF_CLASSES: Columns = {
    "requests": ("\nrequests", number),
    "ttft_p50_s": _COLUMNS["ttft_p50_s"],
    "ttft_p99_s": _COLUMNS["ttft_p99_s"],
    "tpot_p50_s": _COLUMNS["tpot_p50_s"],
    "tpot_p99_s": ("TPOT\np99 ms", milliseconds),
}
_OF_REPLICAS: Columns = {
    "requests": ("\nrequests", number),
    **{name: column for name, column in _COLUMNS.items() if name != "live_share"},
}
_MOST_REPLICAS = 8  # with a row each
_WITH_INTERVAL = "output_tokens_per_s"


def summary_tables(summary: pd.DataFrame, label_keys: list[str]) -> list[Table]:
    """Means over the seeds: a table of the systems or, with a sweep, one for each system.

    Refused requests get a column where there are any: without them in view, a system that serves
    only the easy ones looks best.
    """
    columns = dict(_COLUMNS)
    if summary["refused"].any():
        columns["refused"] = ("re-\nfused", number)
    if "slo_share" in summary:
        columns["slo_share"] = _SLO
    if not label_keys:
        table = _table(["system"], columns)
        for system, rows in summary.groupby("system", sort=False):
            table.add_row(str(system), *_cells(rows, columns))
        return [table]
    tables = []
    for system, of_system in summary.groupby("system", sort=False):
        table = _table([*map(words, label_keys)], columns)
        table.title = str(system)
        for labels, rows in of_system.groupby(label_keys, sort=False, dropna=False):
            table.add_row(*map(_label, labels), *_cells(rows, columns))
        tables.append(table)
    return tables


def class_table(classes: pd.DataFrame) -> Table:
    """Means over the seeds, of each class under each system; for a run without a sweep."""
    columns = {**_OF_CLASSES, **({"slo_share": _SLO} if "slo_share" in classes else {})}
    table = _table(["system", "class"], columns)
    for (system, name), rows in classes.groupby(["system", "class"], sort=False):
        table.add_row(str(system), str(name), *_cells(rows, columns))
    return table


def replica_table(replicas: pd.DataFrame) -> Table:
    """Means over the seeds, of each replica under each system; for a run without a sweep.

    Of many replicas, the least, the mean and the most of what they have.
    """
    table = _table(["system", "replica"], _OF_REPLICAS)
    for system, of_system in replicas.groupby("system", sort=False):
        if of_system["replica"].nunique() > _MOST_REPLICAS:
            means = of_system.groupby("replica")[list(_OF_REPLICAS)].mean()
            for name in ("min", "mean", "max"):
                folded = means.agg([name])
                table.add_row(str(system), name, *_cells(folded, _OF_REPLICAS))
            continue
        for number, rows in of_system.groupby("replica"):
            table.add_row(str(system), str(number), *_cells(rows, _OF_REPLICAS))
    return table


def _label(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(label_headings: list[str], columns: Columns) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left", title_style="bold"
    )
    for heading in label_headings:
        table.add_column("\n" + heading, justify="right", min_width=11)
    for metric, (heading, _) in columns.items():
        table.add_column(heading, justify="right", min_width=11 if metric == _WITH_INTERVAL else 6)
    return table


def _cells(rows: pd.DataFrame, columns: Columns) -> list[str]:
    cells = []
    for metric, (_, form) in columns.items():
        values = rows[metric].dropna()
        if not len(values):
            cells.append("-")
        elif metric == _WITH_INTERVAL:
            cells.append(with_interval(float(values.mean()), half_width_95(values.to_numpy())))
        else:
            cells.append(form(values.mean()))
    return cells


def rounded_up(half_width: float, cell: str) -> str:
    """The half-width of an interval with the decimals of the cell, never less than it is."""
    decimals = len(cell.partition(".")[2])
    return f"{math.ceil(half_width * 10**decimals) / 10**decimals:.{decimals}f}"


def seconds_in_words(seconds: float) -> str:
    """With three digits, in seconds or milliseconds."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{milliseconds(seconds)} ms"


def with_interval(mean: float, half_width: float | None) -> str:
    """A mean, and how far the truth may be from it with the same decimals."""
    if not half_width:
        return number(mean)
    cell = f"{mean:#.3g}".rstrip(".") if abs(mean) < 100 else f"{mean:.0f}"
    return f"{cell} ± {rounded_up(half_width, cell)}"
