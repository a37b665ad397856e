"""Pieces of Markdown that the generated pages have in common."""

from collections.abc import Iterable

MADE = "<!-- Made by `make docs` from {source}; changes belong there. -->\n\n"


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; a bar in a cell is no end of it."""
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(*names: str) -> str:
    """Names as code, with commas between."""
    return ", ".join(f"`{name}`" for name in names)
