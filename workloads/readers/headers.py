"""What is odd in the header of a CSV file that is nearly one of a known format."""

import re
from collections.abc import Collection

from workloads.checks import shown
from workloads.source import Source

_ALIASES = {"session_id": "session", "conversation_id": "session"}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def with_commas(source: Source) -> Source:
    """The header alone, separated by commas."""
    return Source(source.name, source.first_line.replace(_separator(source), ","))


def _separator(source: Source) -> str:
    line = source.first_line
    return next((sign for sign in (",", *_SEPARATORS) if sign in line), ",")


def mended(source: Source, names: Collection[str]) -> Source:
    """The header alone, with names for those that are like them but for case, spaces and dashes."""
    known = {plain(name): name for name in names}
    return Source(source.name, ",".join(known.get(plain(cell), "") for cell in source.columns))


def other_separator(source: Source) -> list[str]:
    """What is wrong with the separator, where it is not the comma."""
    sign = _separator(source)
    if sign not in _SEPARATORS:
        return []
    return [f"columns are separated by {_SEPARATORS[sign]}, expected commas"]


def misspelt(cells: Collection[str], names: Collection[str], kind: str = "column") -> list[str]:
    """What is wrong with columns, or keys, that are like these names but for case, spaces, dashes.

    Nothing where the name stands among the others.
    """
    known = {plain(name): name for name in names}
    known |= {alias: name for alias, name in _ALIASES.items() if name in names}
    return [
        f"got the {kind} {shown(cell)}, expected {shown(known[plain(cell)])}"
        for cell in cells
        if plain(cell) in known and known[plain(cell)] not in cells
    ]


def plain(name: str) -> str:
    """A name without what people write differently."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower())
