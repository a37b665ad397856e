"""The pool in a terminal: two characters a block."""

from itertools import groupby

from rich.style import Style
from rich.text import Text

from sim.blocks.frame import Cell, Frame
from sim.blocks.looks import PAPER, colour_of, label_of, mixed, text_on

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LEVELS = "▁▂▃▄▅▆▇█"
_SIGNS = {"cached": "░░", "free": "··", "unusable": "##"}
_RESERVED = {"reserved": "/", "over_reserved": "x"}
_WORDS = {"reserved": "reserved", "over_reserved": "reserved for nothing", "cached": "cached",
          "unusable": "unusable", "free": "free"}  # fmt: skip
_CELL_WIDTH = 3  # with the gap


def terminal_text(frame: Frame, width: int, most_lines: int) -> Text:
    """A frame in lines of at most so many characters, with a legend below.

    most_lines: where there are more, rows without anything in them are put together.
    """
    legend = _legend(frame, width)
    most_rows = most_lines - len(legend) - 1
    num_columns = 8
    while num_columns < 32 and 6 + 2 * num_columns * _CELL_WIDTH <= width:
        num_columns *= 2
    firsts = range(0, len(frame.cells), num_columns)
    text = Text(no_wrap=True)
    for is_empty, group in groupby(firsts, lambda first: _is_empty(frame, first, num_columns)):
        rows = list(group)
        if is_empty and len(firsts) > most_rows:
            num_free = len(frame.cells[rows[0] : rows[-1] + num_columns])
            text.append(f"{rows[0]:>5} ·· and the next, {num_free:,} in all\n", "dim")
            continue
        for first in rows:
            text.append(f"{first:>5}", "dim")
            for cell in frame.cells[first : first + num_columns]:
                text.append(" ").append_text(_cell(cell))
            text.append("\n")
    for line in (Text(), *legend):
        text.append_text(line).append("\n")
    return text


def _is_empty(frame: Frame, first: int, num_columns: int) -> bool:
    cells = frame.cells[first : first + num_columns]
    return all(cell.rest == "free" and not cell.holders for cell in cells)


def _cell(cell: Cell) -> Text:
    colour = colour_of(cell.holders)
    if not cell.holders:
        return Text(_SIGNS[cell.rest], "dim")
    if len(cell.holders) > 1:
        return Text(label_of(cell).rjust(2)[:2], "reverse bold")
    number = _DIGITS[int(cell.holders[0].partition(".")[0]) % len(_DIGITS)]
    tint = mixed(colour, PAPER, 0.75)
    if not cell.num_live:
        sign = number + _RESERVED.get(cell.rest, "#")
        return Text(sign, Style(color="#1B1D22", bgcolor=tint))
    level = _LEVELS[-(-len(_LEVELS) * cell.num_live // cell.num_slots) - 1]
    return Text.assemble(
        (number, Style(color=text_on(colour), bgcolor=colour)),
        (level, Style(color=colour, bgcolor=tint)),
    )


def _legend(frame: Frame, width: int) -> list[Text]:
    """What the signs of this frame mean, in lines."""
    parts = [Text.assemble(_cell(Cell(("1",), 1, 2, "tail")), " of prompt 1, half full")]
    if any(len(cell.holders) > 1 for cell in frame.cells):
        parts.append(Text.assemble(_cell(Cell(("1", "2"), 1, 1, "tail")), " shared by 2"))
    rests = {cell.rest for cell in frame.cells if not cell.num_live}
    for name, words in _WORDS.items():
        if name in rests:
            holders = ("1",) if name in _RESERVED else ()
            parts.append(Text.assemble(_cell(Cell(holders, 0, 1, name)), f" {words}"))
    lines = parts[:1]
    for part in parts[1:]:
        longer = Text("   ").join((lines[-1], part))
        if longer.cell_len <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines
