"""The progress bar of long commands, on stderr, with the time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_REDRAWN_S = 0.5


def progress_bar(
    *, quiet: bool = False, draws_itself: bool = True, knows_its_end: bool = True
) -> Progress:
    """A bar that vanishes when it is full, and is not drawn where stderr is no terminal.

    draws_itself: in a thread of its own; else only when it is told to. knows_its_end: else neither
    a share nor the time left is shown.
    """
    console = Console(stderr=True)
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    ]
    if knows_its_end:
        columns.insert(2, TextColumn("{task.percentage:>3.0f} %"))
        columns += [TextColumn("left"), TimeRemainingColumn()]
    is_shown = console.is_terminal and not quiet
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not is_shown,
        auto_refresh=draws_itself,
        redirect_stdout=False,  # or data would go to stderr
    )


def planner(progress: Progress, task: TaskID) -> Callable[[int], None]:
    """Tells a task how much more is planned once all before is done: it is at least so long."""

    def plan(num: int) -> None:
        now = progress.tasks[task]
        progress.update(task, total=max(now.total or 0, now.completed + num))

    return plan


@contextmanager
def busy(what: str, *, quiet: bool = False) -> Iterator[None]:
    """A bar that says what goes on, for how long, where nobody knows how long it will take."""
    with progress_bar(quiet=quiet, knows_its_end=False) as progress:
        progress.add_task(what, total=None)
        yield


Tell = Callable[[str, float], None]  # what goes on, and which share of it is done


def tell_nobody(what: str, share: float) -> None:
    """A `Tell` that does nothing."""


@contextmanager
def bar_between_measurements() -> Iterator[Tell]:
    """A bar that is drawn when it is told of progress alone, so that nothing else is slowed."""
    with progress_bar(draws_itself=False) as progress:
        task = progress.add_task("", total=1.0)
        last_s, last_what = 0.0, ""

        def tell(what: str, share: float) -> None:
            nonlocal last_s, last_what
            if what != last_what:
                progress.reset(task, description=what)
            elif time.monotonic() - last_s < _REDRAWN_S:
                return
            last_s, last_what = time.monotonic(), what
            progress.update(task, completed=share, refresh=True)

        yield tell
