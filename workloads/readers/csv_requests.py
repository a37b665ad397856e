"""Requests of CSV files in which a row says when one comes, and how long it and its output are."""

from typing import NamedTuple

from workloads.checks import COUNT_EXPECTED
from workloads.files import parse_count
from workloads.readers.csv_table import Column, CsvTable, read_csv_table
from workloads.readers.times import SECONDS_EXPECTED, seconds_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

COUNT = Column(parse_count, COUNT_EXPECTED)
SECONDS = Column(seconds_ns, SECONDS_EXPECTED)


class Names(NamedTuple):
    """The columns of a file. arrival: None where there are no times."""

    arrival: str | None
    prompt: str
    output: str


def read_requests(
    source: Source,
    names: Names,
    *,
    format: str,
    notes: tuple[str, ...] = (),
) -> Trace:
    """Read these columns; others are passed over. Times are in seconds.

    Token counts are plain positive integers (`500.0` is 500), also of the output, since every
    request that a simulation serves produces a token. Rows out of time order are sorted and noted
    (see `trace_from_rows`).

    Raises WorkloadError as `read_csv_table` does, all bad rows (ten at most) in one message.
    """
    times = {names.arrival: SECONDS} if names.arrival else {}
    table = read_csv_table(source, {**times, names.prompt: COUNT, names.output: COUNT})
    return requests_of(table, names, format=format, notes=notes)


def requests_of(table: CsvTable, names: Names, *, format: str, notes: tuple[str, ...]) -> Trace:
    """The same of a table that was read."""
    rows = Rows(
        time_ns=table.values[names.arrival] if names.arrival else None,
        prompt_tokens=table.values[names.prompt],
        output_tokens=table.values[names.output],
        lines=table.lines,
    )
    return trace_from_rows(rows, format=format, notes=notes)
