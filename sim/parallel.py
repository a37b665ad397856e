"""The same work on many things, over the cores of this machine or of a cluster."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

from sim.errors import UserError
from sim.interrupts import interrupts_held

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


_WATCH_S = 1.0  # between two looks whether the process that is worked for is there


@dataclass(frozen=True)
class Backend:
    """Who does the work: the cores of this machine, or a cluster of Dask or Ray.

    address: of the cluster's scheduler; None: one is started on this machine.

    Raises UserError for an address of no cluster.
    """

    name: Literal["local", "dask", "ray"] = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name == "local" and self.address is not None:
            raise UserError(f"--address: got {self.address}, expected --backend dask or ray")


LOCAL = Backend()


def over_cores(
    work: Callable[[Item], Outcome], items: Sequence[Item], backend: Backend = LOCAL
) -> Iterator[tuple[int, Outcome]]:
    """The place of each item and what came of it, as they get done; a single one in this process.

    work: a function of a module, so that other processes find it.

    Raises UserError for a cluster that cannot be reached, or is lost.
    """
    if not items:
        return
    if backend.name != "local":
        from sim.clusters import over_cluster

        yield from over_cluster(work, items, backend.name, backend.address)
        return
    if len(items) == 1:
        yield 0, work(items[0])
        return
    import joblib  # slow to import, and not needed for a single item

    # Of one that is ended while the work is: it is said by what ends it, or done by another.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
    parallel = joblib.Parallel(n_jobs=-1, return_as="generator_unordered")
    with interrupts_held():
        outcomes = parallel(
            joblib.delayed(_placed)(os.getpid(), work, place, item)
            for place, item in enumerate(items)
        )
    try:
        for outcome in outcomes:  # noqa: UP028, `yield from` would close it, with warnings
            yield outcome
    finally:
        with warnings.catch_warnings(action="ignore"):  # of what will not be done
            outcomes.close()


def _placed(
    parent: int, work: Callable[[Item], Outcome], place: int, item: Item
) -> tuple[int, Outcome]:
    _end_without(parent)
    return place, work(item)


@cache
def _end_without(parent: int) -> None:
    """From now on this worker ends with the process it works for, also where that is killed."""
    if os.getpid() != parent:  # with a single core that process does the work itself
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
