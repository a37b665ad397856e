"""The cells of a pool on a grid."""

from collections.abc import Iterator
from typing import NamedTuple

from sim.blocks.frame import Cell, Frame
from sim.blocks.image import text_width
from sim.blocks.looks import (
    FAINT,
    GREY,
    INK,
    LINE,
    LOOKS,
    PAPER,
    colour_of,
    label_of,
    mixed,
    text_on,
)
from sim.blocks.marks import Box, Mark, Words

_GRID_WIDTH = 896
_LARGEST = 64
_SMALLEST_WITH_TEXT = 22


class Grid(NamedTuple):
    """Where cells are: row by row, in squares of so many pixels."""

    left: float
    top: float
    num_columns: int
    pitch: float
    num_cells: int

    @property
    def width(self) -> float:
        """Of all columns."""
        return self.num_columns * self.pitch

    @property
    def height(self) -> float:
        """Of all rows."""
        return -(-self.num_cells // self.num_columns) * self.pitch

    def place(self, number: int) -> tuple[float, float]:
        """Left and top of a cell."""
        row, column = divmod(number, self.num_columns)
        return self.left + column * self.pitch, self.top + row * self.pitch


def grid_for(num_cells: int, left: float, top: float) -> Grid:
    """Columns that are a power of two, so that every row begins with a round number."""
    num_columns = 8
    while num_columns * num_columns < num_cells:
        num_columns *= 2
    num_columns = min(num_columns, num_cells)
    pitch = min(_LARGEST, _GRID_WIDTH // max(num_columns, 8))
    return Grid(left, top, num_columns, pitch, num_cells)


def cell_marks(cell: Cell, x: float, y: float, pitch: float) -> Iterator[Mark]:
    """A cell: filled from the left as far as its slots are, and by whom."""
    gap = 2 if pitch >= 20 else 1
    side = pitch - gap
    colour = colour_of(cell.holders)
    filled = round(side * cell.num_live / cell.num_slots, 2)
    yield from _rest(cell, x + filled, y, side - filled, side)
    if filled:
        yield Box(x, y, filled, side, fill=colour)
    yield from _label(cell, x, y, side, colour)


def _rest(cell: Cell, x: float, y: float, width: float, height: float) -> Iterator[Mark]:
    """The part that holds no tokens."""
    if width <= 0:
        return
    look = LOOKS[cell.rest]
    colour = colour_of(cell.holders) if look.is_own and cell.holders else GREY
    if cell.rest == "free":
        yield Box(x, y, width, height, fill=PAPER, stroke=LINE)
        return
    ink = mixed(colour, INK, 0.1) if look.is_own else GREY
    yield Box(x, y, width, height, mixed(colour, PAPER, 0.75), hatch=look.hatch, hatch_ink=ink)


def _label(cell: Cell, x: float, y: float, side: float, colour: str) -> Iterator[Mark]:
    """Left out where there is no room for it."""
    label = label_of(cell)
    size = round(min(15.0, max(9.0, side * 0.4)))
    if not label or side < _SMALLEST_WITH_TEXT or cell.rest == "unusable":
        return
    if text_width(label, size) + 2 > side:
        return
    is_full = cell.num_live == cell.num_slots
    ink, halo = (text_on(colour), None) if is_full else (INK, mixed(colour, PAPER, 0.75))
    yield Words(x + side / 2, y + side / 2, label, size, ink, "middle", halo=halo)


def grid_marks(frame: Frame, grid: Grid) -> Iterator[Mark]:
    """All cells of a frame, and beside each row the number of its first block."""
    for number, cell in enumerate(frame.cells):
        yield from cell_marks(cell, *grid.place(number), grid.pitch)
    rows_apart = 1 if grid.pitch >= 16 else 4
    for first in range(0, grid.num_cells, grid.num_columns * rows_apart):
        _, y = grid.place(first)
        block = f"{first * frame.per_cell:,}"
        yield Words(grid.left - 8, y + grid.pitch / 2 - 1, block, 11, FAINT, "end")
