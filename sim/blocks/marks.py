"""Marks that pictures are made of, and where they go: in pixels, y downwards."""

from typing import Literal, NamedTuple

Anchor = Literal["start", "middle", "end"]


class Box(NamedTuple):
    """A rectangle. hatch: "stripes", "crosses" or "dots", in the colour `hatch_ink`."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    hatch: str | None = None
    hatch_ink: str = ""


class Words(NamedTuple):
    """A line of text; x is its start, middle or end, y the middle of its height.

    halo: a colour around it, for where it stands on several.
    """

    x: float
    y: float
    text: str
    size: float
    ink: str
    anchor: Anchor = "start"
    is_bold: bool = False
    halo: str | None = None


Mark = Box | Words
Segment = tuple[float, float, float, float]  # x1, y1, x2, y2


class Picture(NamedTuple):
    """Marks, the later ones on top, on paper of a size."""

    width: float
    height: float
    paper: str
    marks: list[Mark]


def hatch_lines(box: Box) -> list[Segment]:
    """The lines of a hatch, within the box; dots are very short ones."""
    gap = max(4.0, min(box.width, box.height) / 4)
    if box.hatch == "dots":
        return _dots(box, gap)
    rising = _diagonals(box, gap)
    if box.hatch == "crosses":
        middle = 2 * box.x + box.width  # x1 + x2 of mirror images
        return rising + [(middle - a, y1, middle - b, y2) for a, y1, b, y2 in rising]
    return rising


def _diagonals(box: Box, gap: float) -> list[Segment]:
    """Lines that rise to the right: x + y is constant along each, a gap from the next."""
    segments = []
    offset = gap / 2
    while offset < box.width + box.height:
        start = (max(offset - box.height, 0), min(offset, box.height))
        end = (min(offset, box.width), max(offset - box.width, 0))
        segments.append((box.x + start[0], box.y + start[1], box.x + end[0], box.y + end[1]))
        offset += gap
    return segments


def _dots(box: Box, gap: float) -> list[Segment]:
    columns, rows = int(box.width // gap), int(box.height // gap)
    left = box.x + (box.width - gap * (columns - 1)) / 2
    top = box.y + (box.height - gap * (rows - 1)) / 2
    return [
        (left + i * gap - 0.5, top + j * gap, left + i * gap + 0.5, top + j * gap)
        for j in range(rows)
        for i in range(columns)
    ]
