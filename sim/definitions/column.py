"""What a definition of columns says, and the words that several of them share."""

from typing import NamedTuple

from sim.metrics import PERCENTILES


class Column(NamedTuple):
    """Columns that have a definition together.

    unit: `s`, `ns`, `share` (0 to 1), `tokens`, ...; empty for a number of what the name says, and
        for what is no number.
    meaning: Markdown without links.
    """

    names: tuple[str, ...]
    unit: str
    meaning: str


def one(name: str, unit: str, meaning: str) -> Column:
    """A column with a definition of its own."""
    return Column((name,), unit, meaning)


def times(name: str, meaning: str) -> Column:
    """Mean and percentiles of a time."""
    percentiles = (f"{name}_p{percent}_s" for percent in PERCENTILES)
    return Column((f"{name}_mean_s", *percentiles), "s", meaning)


KEYS = (
    one("system", "", "its name in `systems`; after it comes a column for each key that is swept"),
    one("seed", "", "of the run"),
)

# What a slot of the pool is, of which each is exactly one; as `engine.kv_manager.KVUsage`.
LEDGER = {
    "live": "holds a computed token of a running request; the tokens of the step in flight count "
    "as computed, shared slots count once",
    "tail": "is an empty slot of a partly filled block, whether or not it will be filled",
    "reserved": "lies in a wholly empty block that is held for tokens that will come. The "
    "scheduler does not know how long an output gets; the books do, in a simulation. With a live "
    "engine nobody does, and all that a request may get counts here",
    "over_reserved": "is held for nothing: for tokens that never will come, or by a row of a "
    "static batch that has ended while the batch goes on",
    "cached": "keeps content for reuse and is held by nobody",
    "unusable": "is free but in no hole large enough for the request at the head of the queue, or "
    "is what makes a run a power of two (contiguous memory only). `block_utilisation` and "
    "`internal_fragmentation` do not count it as held, though nobody else can have it",
    "free": "is empty and held by nobody",
}
