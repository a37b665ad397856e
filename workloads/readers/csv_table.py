"""Columns of integers from a CSV file with a header, or one error for all that is wrong in it."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workloads.checks import problem
from workloads.errors import WorkloadError
from workloads.files import bad_file
from workloads.source import Source
from workloads.workload import Int64Column


@dataclass(frozen=True)
class Column:
    """How a cell is read: `parse` gives None for one that is not as `expected`."""

    parse: Callable[[str], int | None]
    expected: str


@dataclass(frozen=True, eq=False)
class CsvTable:
    """Values by column name, and the line of the file each row began at (the header's is 1)."""

    values: dict[str, Int64Column]
    lines: list[int]


def read_csv_table(
    source: Source, columns: Mapping[str, Column], optional: Mapping[str, Column] | None = None
) -> CsvTable:
    """Read these columns, in whatever order they stand; others and blank lines are passed over.

    optional: columns that are read where there are any.

    Raises WorkloadError for a file that lacks a column (the columns seen are
    listed) or has no rows, and for cells that do not parse: file, line, column, value, expected,
    for the first ten of them.
    """
    records = _records(source)
    header_line, header = next(records, (1, []))
    found = {name: column for name, column in (optional or {}).items() if name in header}
    columns = {**columns, **found}
    if any(header.count(name) != 1 for name in columns):
        expected = f"{', '.join(columns)}, each once"
        raise bad_file(source.name, [problem(f"line {header_line}, columns", header, expected)])

    values: dict[str, list[int]] = {name: [] for name in columns}
    lines: list[int] = []
    problems: list[str] = []
    places = [(name, column, header.index(name)) for name, column in columns.items()]
    for line, cells in records:
        if len(cells) != len(header):
            problems.append(f"line {line}: got {len(cells)} fields, expected {len(header)}")
            continue
        lines.append(line)
        for name, column, place in places:
            value = column.parse(cells[place])
            if value is None:
                where = f"line {line}, column {name}"
                problems.append(problem(where, cells[place], column.expected))
            else:
                values[name].append(value)
    if not (lines or problems):
        problems.append("no rows, expected some after the header")
    if problems:
        raise bad_file(source.name, problems)
    return CsvTable({name: np.array(v, dtype=np.int64) for name, v in values.items()}, lines)


def _records(source: Source) -> Iterator[tuple[int, list[str]]]:
    """The line each record begins at, and its cells; blank lines are left out."""
    reader = csv.reader(io.StringIO(source.text, newline=""), strict=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise WorkloadError(f"{source.name}: line {line}: not CSV: {error}") from error
