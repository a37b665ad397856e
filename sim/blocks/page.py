"""Pictures as a page for a browser, which needs nothing else."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.kv_manager import KVUsage
from sim.blocks.frame import Cell, Frame
from sim.blocks.layout import Heading
from sim.blocks.looks import GREY, HOLDERS, LOOKS, SHARED, examples, what_words, when_words
from sim.html_page import filled


def save_page(frames: Sequence[Frame], heading: Heading, path: Path) -> None:
    """Write a page with a frame, or with several and a slider."""
    template = files("sim.blocks").joinpath("page.html.j2").read_text("utf-8")
    page = filled(template, title=heading.title, data=_data(frames, heading))
    path.write_text(page, "utf-8")


def _data(frames: Sequence[Frame], heading: Heading) -> dict[str, Any]:
    """What the page draws: of each frame the cells that differ from those before it."""
    states: dict[Cell, int] = {}
    shown = [_frame(frame, heading, before, states) for before, frame in _pairs(frames)]
    fields = {name: place for place, name in enumerate(KVUsage._fields)}
    return {
        "title": heading.title,
        "what": " ".join(what_words(frames[0], heading.block_size)),
        "perCell": frames[0].per_cell,
        "numBlocks": frames[0].num_blocks,
        "colours": HOLDERS,
        "shared": SHARED,
        "grey": GREY,
        "looks": {
            name: {"words": look.words, "hatch": look.hatch, "own": look.is_own}
            for name, look in LOOKS.items()
        },
        "legend": [(cell, words, fields.get(name, -1)) for cell, words, name in examples(frames)],
        "states": list(states),
        "frames": shown,
    }


def _pairs(frames: Sequence[Frame]) -> Iterator[tuple[Frame | None, Frame]]:
    return zip([None, *frames[:-1]], frames, strict=True)


def _frame(
    frame: Frame, heading: Heading, before: Frame | None, states: dict[Cell, int]
) -> dict[str, Any]:
    """states: numbers of the different cells so far; new ones are added."""
    changed = [
        value
        for place, cell in enumerate(frame.cells)
        if before is None or before.cells[place] != cell
        for value in (place, states.setdefault(cell, len(states)))
    ]
    return {
        "words": when_words(frame, heading.why),
        "shared": frame.num_shared,
        "usage": frame.usage,
        "running": frame.running,
        "waiting": frame.waiting,
        "set": changed,
    }
