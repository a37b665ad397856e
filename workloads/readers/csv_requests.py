"""Requests of CSV files in which a row says when one comes, and how long it and its output are."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from workloads.checks import COUNT_EXPECTED, listed
from workloads.files import bad_file, parse_count
from workloads.readers.csv_table import Column, CsvTable, read_csv_table
from workloads.readers.times import (
    DATE_EXPECTED,
    SECONDS_EXPECTED,
    date_ns,
    seconds_ns,
    zone_of,
)
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

_COUNT = Column(parse_count, COUNT_EXPECTED)
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
    table = read_csv_table(source, {**times, names.prompt: _COUNT, names.output: _COUNT})
    return _requests_of(table, names, format=format, notes=notes)


def read_dated_requests(source: Source, names: Names, *, format: str) -> Trace:
    """The same with times that are dates, `2023-11-16 18:15:46.68`, with a zone or without.

    Times of several zones are the instants they say; a note counts the rows of each zone.

    Raises WorkloadError as `read_requests` does, and where some times have a zone and some none.
    """
    assert names.arrival
    zones: list[str] = []  # of each row

    def time_ns(text: str) -> int | None:
        zones.append(zone_of(text))
        return date_ns(text)

    times = {names.arrival: Column(time_ns, DATE_EXPECTED)}
    table = read_csv_table(source, {**times, names.prompt: _COUNT, names.output: _COUNT})
    notes = _zone_notes(source, names.arrival, zones, table.lines)
    return _requests_of(table, names, format=format, notes=notes)


def _zone_notes(
    source: Source, column: str, zones: Sequence[str], lines: Sequence[int]
) -> tuple[str, ...]:
    counts = Counter(zones)
    if len(counts) < 2:
        return ()
    if "" in counts:
        without = lines[zones.index("")]
        with_one = lines[next(row for row, zone in enumerate(zones) if zone)]
        raise bad_file(
            source.name,
            [
                f"column {column}: got a time with a zone at line {with_one} and one without at "
                f"line {without}, expected one in all rows or in none"
            ],
        )
    rows = listed(f"{number} in {zone}" for zone, number in sorted(counts.items()))
    return (f"times of {len(counts)} zones, each taken as the instant it is: {rows}",)


def _requests_of(table: CsvTable, names: Names, *, format: str, notes: tuple[str, ...]) -> Trace:
    """The same of a table that was read."""
    rows = Rows(
        time_ns=table.values[names.arrival] if names.arrival else None,
        prompt_tokens=table.values[names.prompt],
        output_tokens=table.values[names.output],
        lines=table.lines,
    )
    return trace_from_rows(rows, format=format, notes=notes)
