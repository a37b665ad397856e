"""What is printed: whole on any terminal, however narrow; as wide as it is where nobody looks."""

import textwrap
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

_NO_TERMINAL = 10_000  # letters of a line
_LEAST = 40  # where a terminal is narrower, it breaks the lines itself
_PROSE = 20  # letters that prose needs


def print_prose(text: str, file: TextIO | None = None) -> None:
    """Print sentences: a line each, on a terminal as many as they need, broken between words.

    Those that go on are further in than the first. file: standard output if None.
    """
    console = Console(file=file)
    width = max(console.width, _LEAST) if console.is_terminal else _NO_TERMINAL
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapper = textwrap.TextWrapper(
            width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        print(wrapper.fill(line), file=file)


def print_table(table: Table, *, num_names: int = 1) -> None:
    """Print a table and an empty line.

    num_names: columns at its left that say what a row is. On a terminal that is too narrow the
    others come in blocks below one another, each with these before it. A column with a `ratio` is
    prose, whose lines are broken instead.
    """
    console = Console(markup=False, highlight=False)
    console.width = max(console.width, _LEAST) if console.is_terminal else _NO_TERMINAL
    for part in _parts(table, num_names, console.width):
        part.expand = False
        console.print(part)
    console.print()


def _parts(table: Table, num_names: int, width: int) -> Iterator[Table]:
    _, right, _, left = table.padding
    widths = [_width(column) + right + left for column in table.columns]
    if sum(widths) - right <= width:
        yield _with(table, table.columns)
        return
    if any(column.ratio for column in table.columns):
        firm = sum(w for w, c in zip(widths, table.columns, strict=True) if not c.ratio)
        yield _with(table, table.columns, may_break=firm + _PROSE > width)
        return
    names = _folded(table.columns[:num_names], widths, width * 3 // 5)
    left_over = width - sum(min(w, c.max_width or w) for w, c in zip(widths, names, strict=False))
    for place, group in enumerate(_groups(widths[num_names:], left_over + right)):
        others = [table.columns[num_names + number] for number in group]
        yield _with(table, [*names, *others], is_first=place == 0, may_break=True)


def _width(column: Column) -> int:
    """Letters of its widest line."""
    lines = [line for cell in (column.header, *column.cells) for line in str(cell).splitlines()]
    return max(column.min_width or 0, *map(cell_len, lines), 0)


def _folded(names: list[Column], widths: list[int], most: int) -> list[Column]:
    """Columns that together take at most so many letters; the widest may break its lines."""
    rest = sum(widths[: len(names)]) - most
    if rest <= 0:
        return names
    widest = max(range(len(names)), key=lambda place: widths[place])
    narrow = replace(names[widest], max_width=max(widths[widest] - rest, 8), no_wrap=False)
    return [narrow if place == widest else column for place, column in enumerate(names)]


def _groups(widths: list[int], width: int) -> Iterator[list[int]]:
    """Numbers of columns that fit side by side; one that fits nowhere is alone."""
    group: list[int] = []
    for place, of_column in enumerate(widths):
        if group and sum(widths[number] for number in group) + of_column > width:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _with(
    table: Table, columns: list[Column], *, is_first: bool = True, may_break: bool = False
) -> Table:
    """The same rows with these columns; the title is said once. may_break: lines of any column."""
    part = copy(table)
    part.columns = [
        replace(column, _index=place, overflow="fold", no_wrap=column.no_wrap and not may_break)
        for place, column in enumerate(columns)
    ]
    part.title = table.title if is_first else None
    return part
