"""What the columns of summary.csv mean, in a line of plain text each."""

from collections.abc import Iterator
from typing import NamedTuple

from sim.definitions.column import KEYS, Column
from sim.definitions.summary import SUMMARY

_PARTS = {"mean": "mean: ", "p50": "median: ", "p90": "percentile 90: ", "p99": "percentile 99: "}


class Metric(NamedTuple):
    """unit: of its values; empty for a count."""

    unit: str
    meaning: str


def _metrics() -> Iterator[tuple[str, Metric]]:
    for column in SUMMARY[len(KEYS) :]:
        for name in column.names:
            prefix = _PARTS[name.split("_")[-2]] if _is_time(column) else ""
            yield name, Metric(column.unit, prefix + _first_sentence(column))


def _is_time(column: Column) -> bool:
    return column.names[0].endswith("_mean_s") and len(column.names) > 1


def _first_sentence(column: Column) -> str:
    return column.meaning.partition(". ")[0].replace("`", "")


METRICS: dict[str, Metric] = dict(_metrics())
TIMES = {  # by the first word of their columns
    column.names[0].partition("_")[0]: _first_sentence(column)
    for column in SUMMARY
    if _is_time(column)
}
