"""What a report consists of, whatever it is about."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """text: as it is shown. order: what a column is sorted by; the text where it is None."""

    text: str
    order: float | None = None


class Bar(NamedTuple):
    """Parts of a whole, drawn in the cell of a table: label, colour, and share of each."""

    parts: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True)
class Table:
    """Rows of as many cells as there are headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell | Bar]]
    kind: str = "table"


@dataclass(frozen=True)
class Plot:
    """figure: as Plotly has it, data and layout. about: a line below it."""

    name: str
    figure: dict[str, Any]
    about: str = ""
    kind: str = "plot"


@dataclass(frozen=True)
class Words:
    """Paragraphs."""

    lines: Sequence[str]
    kind: str = "words"


@dataclass(frozen=True)
class Code:
    """Text to be copied. title: opens it, where it is long; else it is shown."""

    text: str
    title: str = ""
    kind: str = "code"


Block = Table | Plot | Words | Code


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it. about: what it is of, in a few words."""

    title: str
    blocks: Sequence[Block]
    about: str = ""


@dataclass(frozen=True)
class Page:
    """verdict: what was found, in sentences, the most weighty first."""

    title: str
    about: str
    verdict: Sequence[str]
    sections: Sequence[Section] = field(default_factory=tuple)
