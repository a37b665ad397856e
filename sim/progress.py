"""The progress bar of long commands, on stderr, with the time left."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar(*, quiet: bool = False) -> Progress:
    """A bar that vanishes when it is full, and is not drawn where stderr is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    is_shown = console.is_terminal and not quiet
    return Progress(*columns, console=console, transient=True, disable=not is_shown)
