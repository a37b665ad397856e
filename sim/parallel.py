"""The same work on many things, over the cores of this machine."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def over_cores(
    work: Callable[[Item], Outcome], items: Sequence[Item]
) -> Iterator[tuple[int, Outcome]]:
    """The place of each item and what came of it, as they get done; a single one in this process.

    work: a function of a module, so that other processes find it.
    """
    if len(items) == 1:
        yield 0, work(items[0])
        return
    import joblib  # slow to import, and not needed for a single item

    parallel = joblib.Parallel(n_jobs=-1, return_as="generator_unordered")
    with _interrupts_held():
        outcomes = parallel(joblib.delayed(_placed)(work, i, item) for i, item in enumerate(items))
    yield from outcomes


def _placed(work: Callable[[Item], Outcome], place: int, item: Item) -> tuple[int, Outcome]:
    return place, work(item)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Workers started meanwhile never see Ctrl-C: this process ends them, without tracebacks."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
