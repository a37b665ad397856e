"""Pictures as SVG."""

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from sim.blocks.marks import Box, Picture, Words, hatch_lines


def to_svg(picture: Picture) -> str:
    """A picture as the text of a file."""
    width, height = _number(picture.width), _number(picture.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="DejaVu Sans, Verdana, sans-serif">',
        f'<rect width="100%" height="100%" fill="{picture.paper}"/>',
    ]
    for mark in picture.marks:
        lines += _box(mark) if isinstance(mark, Box) else _words(mark)
    return "\n".join([*lines, "</svg>", ""])


def save_svg(picture: Picture, path: Path) -> None:
    """Write a picture."""
    path.write_text(to_svg(picture), "utf-8")


def _box(box: Box) -> Iterator[str]:
    inset = 0.5 if box.stroke else 0  # half of a line would be outside
    x, y = _number(box.x + inset), _number(box.y + inset)
    width, height = _number(box.width - 2 * inset), _number(box.height - 2 * inset)
    stroke = f' stroke="{box.stroke}"' if box.stroke else ""
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    yield f'<rect {place} fill="{box.fill or "none"}"{stroke}/>'
    if box.hatch:
        path = "".join(
            f"M{_number(x1)} {_number(y1)}L{_number(x2)} {_number(y2)}"
            for x1, y1, x2, y2 in hatch_lines(box)
        )
        line_width = "2" if box.hatch == "dots" else "1"
        yield f'<path d="{path}" stroke="{box.hatch_ink}" stroke-width="{line_width}"/>'


def _words(words: Words) -> Iterator[str]:
    weight = ' font-weight="bold"' if words.is_bold else ""
    halo = f' stroke="{words.halo}" stroke-width="4" paint-order="stroke"' if words.halo else ""
    yield (
        f'<text x="{_number(words.x)}" y="{_number(words.y + 0.36 * words.size)}" '
        f'font-size="{_number(words.size)}" fill="{words.ink}" '
        f'text-anchor="{words.anchor}"{weight}{halo}>{escape(words.text)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
