"""docs/reference/metrics.md, from `sim.definitions`."""

from docs.generate.markdown import MADE, code, table
from sim.definitions import TABLES, Column

_INTRO = """\
# Columns of the tables

A run leaves a folder with these tables. *a*, *s*, *f* and *l* are the stamps of a request, and
[how the numbers are defined](../metrics.md) says what else several definitions have in common.
Times are in seconds or whole nanoseconds (`ns`), shares from 0 to 1. A cell is empty where nothing
could be measured.
"""


def metrics_page() -> str:
    """A section for each table."""
    sections = [_section(name) for name in TABLES]
    return MADE.format(source="sim/definitions/") + "\n".join([_INTRO, *sections])


def _section(name: str) -> str:
    row, columns = TABLES[name]
    known = {column for other in _before(name) for column in TABLES[other].columns}
    new = [column for column in columns if column not in known]
    text = f"## `{name}`\n\nA row is {row}.\n\n"
    if len(new) < len(columns) and known:
        shared = [column for column in columns if column in known]
        text += f"As in the tables above: {_names(shared)}.\n\n"
    return text + table(["column", "unit", "meaning"], [_row(column) for column in new])


def _before(name: str) -> list[str]:
    names = list(TABLES)
    return names[: names.index(name)]


def _row(column: Column) -> tuple[str, str, str]:
    return code(*column.names), column.unit, column.meaning


def _names(columns: list[Column]) -> str:
    return code(*(name for column in columns for name in column.names))
