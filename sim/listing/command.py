"""What `kvsim list`, `kvsim systems` and `kvsim workloads` do."""

import json
import re

from rich.console import Console
from rich.table import Table

from sim.errors import UserError
from sim.listing.kinds import KINDS
from sim.terminal import print_prose, print_table

_LONG = 60  # letters; what is longer is prose, whose lines may be broken


def print_kind(name: str, *, as_json: bool) -> None:
    """Print all of a kind. Raises UserError where there are none."""
    data = KINDS[name].data()
    if as_json:
        print(json.dumps(data, indent=1))
    elif data:
        print_table(_table([KINDS[name].cells(row) for row in data]))
    else:
        raise UserError(f"list {name}: found none, neither in ./{name} nor installed with kvsim")


def _table(rows: list[dict[str, str]]) -> Table:
    columns = {heading: [row[heading] for row in rows] for heading in rows[0]}
    has_prose = any(_is_prose(cells) for cells in list(columns.values())[1:])
    below = int(has_prose and Console().is_terminal)  # there prose is broken into lines
    table = Table(box=None, pad_edge=False, header_style="", padding=(0, 2, below, 0))
    for place, (heading, cells) in enumerate(columns.items()):
        is_prose = bool(place) and _is_prose(cells)
        is_number = all(re.fullmatch(r"[0-9.,]+( B)?|-", cell) for cell in cells)
        table.add_column(
            heading,
            justify="right" if is_number else "left",
            no_wrap=not is_prose,
            ratio=1 if is_prose else None,
        )
    for row in rows:
        table.add_row(*row.values())
    return table


def _is_prose(cells: list[str]) -> bool:
    return max(map(len, cells)) > _LONG


def print_all(*, as_json: bool) -> None:
    """Print the names of every kind."""
    names = {name: kind.names for name, kind in KINDS.items()}
    if as_json:
        print(json.dumps(names, indent=1))
        return
    for kind, of_kind in names.items():
        print_prose(f"{kind}: {', '.join(of_kind)}")
        print()
    print("kvsim list KIND says what they are")
