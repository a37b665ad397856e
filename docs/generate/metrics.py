"""docs/reference/metrics.md, from `sim.definitions`."""

from docs.generate.markdown import MADE, code, table
from sim.definitions import SWEEP_TABLES, TABLES, Column

_INTRO = """\
# Columns of the tables

A run leaves a folder with these tables. *a*, *s*, *f* and *l* are the stamps of a request, and
[how the numbers are defined](../metrics.md) says what else several definitions have in common.
Times are in seconds or whole nanoseconds (`ns`), shares from 0 to 1. A cell is empty where nothing
could be measured. The last table is that of a sweep's folder.
"""
_ALL = {**TABLES, **SWEEP_TABLES}


def metrics_page() -> str:
    """A section for each table."""
    sections = [_section(name) for name in _ALL]
    return MADE.format(source="sim/definitions/") + "\n".join([_INTRO, *sections])


def _section(name: str) -> str:
    """What is not defined in the tables before it, and what is, by name."""
    row, columns = _ALL[name]
    before = {other: _ALL[other].columns for other in _before(name)}
    new = [column for column in columns if not any(column in known for known in before.values())]
    whole = [other for other, known in before.items() if set(known) <= set(columns)]
    told = {*new, *(column for other in whole for column in before[other])}
    shared = [f"all of {code(other)}" for other in whole]
    shared += [_names([column]) for column in columns if column not in told]
    text = f"## `{name}`\n\nA row is {row}.\n"
    if shared:
        text += f"\nAs in the tables above: {', '.join(shared)}.\n"
    if new:
        text += "\n" + table(["column", "unit", "meaning"], [_row(column) for column in new])
    return text


def _before(name: str) -> list[str]:
    names = list(_ALL)
    return names[: names.index(name)]


def _row(column: Column) -> tuple[str, str, str]:
    return code(*column.names), column.unit, column.meaning


def _names(columns: list[Column]) -> str:
    return code(*(name for column in columns for name in column.names))
