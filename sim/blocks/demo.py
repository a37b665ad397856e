"""What `kvsim demo --watch` shows: the blocks, as the toy model writes."""

import textwrap
import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sim.blocks.frame import Frame, beginning, frame_of
from sim.blocks.looks import blocks_words
from sim.blocks.terminal import terminal_text
from sim.demo import Demo, result_lines

_OTHER_LINES = 4  # empty ones, and one below all
_NO_TERMINAL = 100_000  # lines


def watch_demo(demo: Demo, delay_s: float) -> None:
    """Show every step in a terminal for so long; elsewhere print the picture of the last one."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.print(_last(demo, console), soft_wrap=True)
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while step := demo.schedule():
            frame = frame_of(demo.engine, beginning(demo.engine, 0, step.index))
            live.update(_view(demo, frame, console), refresh=True)
            time.sleep(delay_s)
            demo.compute(step)
            live.update(_view(demo, frame, console), refresh=True)


def _last(demo: Demo, console: Console) -> Text:
    while step := demo.schedule():
        frame = frame_of(demo.engine, beginning(demo.engine, 0, step.index))
        demo.compute(step)
    return _view(demo, frame, console)


def _view(demo: Demo, frame: Frame, console: Console) -> Text:
    counts = textwrap.wrap(f"step {frame.step}: {blocks_words(frame)}", console.width)
    results = [line[: console.width] for line in result_lines(demo)]
    height = console.height if console.is_terminal else _NO_TERMINAL
    text = terminal_text(frame, console.width, height - len(counts) - len(results) - _OTHER_LINES)
    for line in ("", *counts, "", *results):
        text.append(f"{line}\n")
    return text
