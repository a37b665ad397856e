"""How cells look, and what that is called."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sim.blocks.frame import Cell, Frame

# Okabe and Ito, "Color Universal Design", 2008, without black: distinct under colour blindness. A
# request has the one of its number, so that it keeps it, and neighbours in time differ.
HOLDERS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
SHARED = "#2B2D42"
GREY = "#8A8F98"
PAPER = "#FFFFFF"
INK = "#1B1D22"
FAINT = "#666B75"
LINE = "#C9CDD3"


class Look(NamedTuple):
    """How the slots of a class look.

    words: what they are. hatch: one of those of `sim.blocks.marks`, or none. is_own: in the colour
        of the holder, or grey.
    """

    words: str
    hatch: str | None
    is_own: bool


LOOKS = {
    "tail": Look("empty tail of a block", None, True),
    "reserved": Look("reserved, for tokens to come", "stripes", True),
    "over_reserved": Look("reserved for nothing", "crosses", True),
    "cached": Look("cached: kept, held by nobody", "dots", False),
    "unusable": Look("unusable: no run fits", "crosses", False),
    "free": Look("free", None, False),
}


def colour_of(holders: tuple[str, ...]) -> str:
    """Of a cell that these hold."""
    if not holders:
        return GREY
    if len(holders) > 1:
        return SHARED
    return HOLDERS[int(holders[0].partition(".")[0]) % len(HOLDERS)]


def label_of(cell: Cell) -> str:
    """What is written in it where there is room: its holder, or how many there are."""
    if len(cell.holders) > 1:
        return f"\N{MULTIPLICATION SIGN}{len(cell.holders)}"
    return cell.holders[0] if cell.holders else ""


def mixed(colour: str, with_colour: str, share: float) -> str:
    """A colour with a share of another one in it."""
    pairs = zip(_rgb(colour), _rgb(with_colour), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def text_on(background: str) -> str:
    """Black or white, whichever is easier to read on it."""
    red, green, blue = _rgb(background)
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else PAPER


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def when_words(frame: Frame, why: str) -> str:
    """Which moment it is, what is special about it, and how many blocks are what, in a line."""
    step = f"step {frame.step:,}, " if frame.step is not None else ""
    why = f", {why}" if why else ""
    return f"{step}at {frame.start_ns / 1e9:.3f} s{why}: {blocks_words(frame)}"


def what_words(frame: Frame, block_size: int) -> list[str]:
    """What is drawn, in lines."""
    size = f"A block has slots for the keys and values of {block_size} tokens."
    if block_size == 1:
        size = "A block is a slot for the keys and values of one token."
    if frame.per_cell == 1:
        return [f"Each square is a block. {size}"]
    folded = (
        f"Each square is {frame.per_cell:,} neighbouring blocks, filled as far as their slots are "
        "together, in the colour of whoever holds most of them."
    )
    return [folded, size]


def examples(frames: Iterable[Frame]) -> Iterator[tuple[Cell, str, str]]:
    """What occurs in any of these frames and must be explained.

    A cell as an example, what it is, and which field of `KVUsage` counts it; "shared": blocks.
    """
    frames = list(frames)
    yield Cell(("12",), 1, 1, "tail"), "tokens of a request, here number 12", "live"
    if any(frame.num_shared for frame in frames):
        yield Cell(("1", "2", "3"), 1, 1, "tail"), "held by several, here by 3", "shared"
    for name, look in LOOKS.items():
        if name == "free" or any(getattr(frame.usage, name) for frame in frames):
            holders = ("12",) if look.is_own else ()
            yield Cell(holders, 10 if name == "tail" else 0, 16, name), look.words, name


def blocks_words(frame: Frame) -> str:
    """How many blocks are what."""
    words = [f"{frame.num_held:,} of {frame.num_blocks:,} blocks held"]
    if frame.num_shared:
        words.append(f"{frame.num_shared:,} of them by several")
    if frame.num_cached:
        words.append(f"{frame.num_cached:,} cached")
    return ", ".join(words)
