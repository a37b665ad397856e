"""What each column of the tables of a run means: the one place that says it.

docs/reference/metrics.md is made of it (`make docs`), and a test holds it against what runs write.
"""

from typing import NamedTuple

from sim.definitions.column import Column
from sim.definitions.records import GAPS, REQUESTS, STEPS
from sim.definitions.summary import CLASSES, REPLICAS, SUMMARY, SWEEP

__all__ = ["SWEEP_TABLES", "TABLES", "Column", "Table"]


class Table(NamedTuple):
    """A table of a run, by what one of its rows is of."""

    row: str
    columns: tuple[Column, ...]


TABLES = {
    "summary.csv": Table("a system, a point of the sweep and a seed", SUMMARY),
    "requests.csv": Table("a request", REQUESTS),
    "steps.csv": Table("a step, or a spell without any", STEPS),
    "gaps.csv": Table("a replica and a bucket of gaps between tokens", GAPS),
    "replicas.csv": Table("a replica, where there are several", REPLICAS),
    "classes.csv": Table("a class of requests, where there are any", CLASSES),
}
SWEEP_TABLES = {
    "table.csv": Table("a system, a point of the sweep and a seed, of `kvsim sweep`", SWEEP),
}
