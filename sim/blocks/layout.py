"""A picture of a pool: title, blocks, what they mean, who runs and who waits."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sim.blocks.cells import cell_marks, grid_for, grid_marks
from sim.blocks.frame import Cell, Frame
from sim.blocks.image import text_width
from sim.blocks.looks import (
    FAINT,
    INK,
    LINE,
    PAPER,
    colour_of,
    examples,
    mixed,
    text_on,
    what_words,
    when_words,
)
from sim.blocks.marks import Box, Mark, Picture, Words

_LEFT = 64
_MARGIN = 32
_LEAST_WIDTH = 760
_ENTRY_HEIGHT = 32
_CHIPS_LEFT = _LEFT + 104.0
_CHIP_HEIGHT = 22
_CHIP_GAP = 5
_LINE_HEIGHT = _CHIP_HEIGHT + 6
_MOST_LINES = {"running": 3, "waiting": 2}
_ROOM_FOR_MORE = 110  # "and 1,000 more"


class Heading(NamedTuple):
    """What a picture is of. why: what is special about the moment, if anything."""

    title: str
    why: str
    block_size: int


def draw(frame: Frame, heading: Heading, frames: Sequence[Frame]) -> Picture:
    """A picture of a frame. frames: those that it shall look alike with, itself among them."""
    what = what_words(frame, heading.block_size)
    top = 74 + 18 * len(what)
    grid = grid_for(len(frame.cells), _LEFT, top)
    width = max(_LEAST_WIDTH, _LEFT + grid.width + _MARGIN)
    marks: list[Mark] = [
        Words(_LEFT, 30, heading.title, 18, INK, is_bold=True),
        Words(_LEFT, 56, when_words(frame, heading.why), 13, INK),
        *(Words(_LEFT, 76 + 18 * i, line, 12, FAINT) for i, line in enumerate(what)),
        *grid_marks(frame, grid),
    ]
    y = top + grid.height + 24
    entries = list(examples(frames))
    num_columns = 2 if width > 900 else 1
    num_rows = -(-len(entries) // num_columns)
    for number, (cell, words, name) in enumerate(entries):
        column, row = divmod(number, num_rows)
        x = _LEFT + column * (width - _LEFT - _MARGIN) / num_columns
        text = f"{words}: {_amount(frame, name)}"
        marks += _entry(cell, text, x, y + row * _ENTRY_HEIGHT)
    y += num_rows * _ENTRY_HEIGHT + 14
    for field in ("running", "waiting"):
        marks += _queue(field, getattr(frame, field), y, width)
        most = max(len(_lines(getattr(f, field), field, width)) for f in frames)
        y += most * _LINE_HEIGHT + 8
    return Picture(width, y + 8, PAPER, marks)


def _amount(frame: Frame, name: str) -> str:
    if name == "shared":
        return f"{frame.num_shared:,} block" + "s" * (frame.num_shared != 1)
    count: int = getattr(frame.usage, name)
    return f"{count:,} slot{'s' * (count != 1)}, {100 * count / sum(frame.usage):.0f} %"


def _entry(cell: Cell, text: str, x: float, y: float) -> Iterator[Mark]:
    yield from cell_marks(cell, x, y, 28)
    yield Words(x + 38, y + 13, text, 13, INK)


def _queue(what: str, names: Sequence[str], y: float, width: float) -> Iterator[Mark]:
    """A chip for each sequence, as far as they go."""
    yield Words(_LEFT, y + _CHIP_HEIGHT / 2, f"{len(names):,} {what}", 13, INK, is_bold=True)
    num_left = len(names)
    x = _CHIPS_LEFT
    for line in _lines(names, what, width):
        x = _CHIPS_LEFT
        for name in line:
            yield from _chip(name, x, y, is_running=what == "running")
            x += _chip_width(name) + _CHIP_GAP
        num_left -= len(line)
        y += _LINE_HEIGHT
    if num_left:
        more = f"and {num_left:,} more"
        yield Words(x + 4, y - _LINE_HEIGHT + _CHIP_HEIGHT / 2, more, 12, FAINT)


def _lines(names: Sequence[str], what: str, width: float) -> list[list[str]]:
    """Names by lines, at least one, as many as there is room for."""
    lines: list[list[str]] = [[]]
    x, room = _CHIPS_LEFT, width - _MARGIN - _ROOM_FOR_MORE
    for name in names:
        if x + _chip_width(name) > room:
            if len(lines) == _MOST_LINES[what]:
                break
            lines.append([])
            x = _CHIPS_LEFT
        lines[-1].append(name)
        x += _chip_width(name) + _CHIP_GAP
    return lines


def _chip_width(name: str) -> float:
    return text_width(name, 12) + 14


def _chip(name: str, x: float, y: float, *, is_running: bool) -> Iterator[Mark]:
    colour = colour_of((name,))
    fill = colour if is_running else mixed(colour, PAPER, 0.85)
    width = _chip_width(name)
    yield Box(x, y, width, _CHIP_HEIGHT, fill=fill, stroke=None if is_running else LINE)
    yield Words(x + width / 2, y + _CHIP_HEIGHT / 2, name, 12, text_on(fill), "middle")
