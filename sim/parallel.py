"""The same work on many things, over the cores of this machine or of a cluster."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, TypeVar

from sim.errors import UserError

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_ITEMS_AT_ONCE = 64  # where a backend hands outcomes back only when all are there


@dataclass(frozen=True)
class Backend:
    """Who does the work: the cores of this machine, or a cluster of Dask or Ray.

    address: of the cluster's scheduler; None: one is started on this machine.
    """

    name: Literal["local", "dask", "ray"] = "local"
    address: str | None = None


LOCAL = Backend()


def over_cores(
    work: Callable[[Item], Outcome], items: Sequence[Item], backend: Backend = LOCAL
) -> Iterator[tuple[int, Outcome]]:
    """The place of each item and what came of it, as they get done; a single one in this process.

    work: a function of a module, so that other processes find it.

    Raises UserError for a cluster that cannot be reached.
    """
    if not items:
        return
    if len(items) == 1 and backend.name == "local":
        yield 0, work(items[0])
        return
    import joblib  # slow to import, and not needed for a single item

    with _started(backend) as hands_back_early:
        if hands_back_early:
            parallel = joblib.Parallel(n_jobs=-1, return_as="generator_unordered")
            with _interrupts_held():
                outcomes = parallel(
                    joblib.delayed(_placed)(work, i, item) for i, item in enumerate(items)
                )
            yield from outcomes
            return
        for first in range(0, len(items), _ITEMS_AT_ONCE):
            some = range(first, min(first + _ITEMS_AT_ONCE, len(items)))
            yield from joblib.Parallel(n_jobs=-1)(
                joblib.delayed(_placed)(work, i, items[i]) for i in some
            )


def _started(backend: Backend) -> AbstractContextManager[bool]:
    """With joblib's work going there; whether outcomes come back as they get done."""
    if backend.name == "local":
        return nullcontext(True)
    try:
        return _on_dask(backend.address) if backend.name == "dask" else _on_ray(backend.address)
    except ImportError:
        raise UserError(
            f"--backend {backend.name}: not installed, expected pip install 'kvsim[cluster]'"
        ) from None


@contextmanager
def _on_dask(address: str | None) -> Iterator[bool]:
    import joblib
    from distributed import Client

    try:
        client = Client(address, timeout=10) if address else Client(processes=True)
    except (OSError, ValueError) as error:
        raise UserError(f"--address: got {address}, which is no Dask scheduler: {error}") from None
    with client, joblib.parallel_config(backend="dask", client=client, wait_for_workers_timeout=30):
        yield True


@contextmanager
def _on_ray(address: str | None) -> Iterator[bool]:
    import joblib
    import ray
    from ray.util.joblib import register_ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError) as error:
        raise UserError(f"--address: got {address}, which is no Ray head: {error}") from None
    register_ray()
    try:
        with joblib.parallel_config(backend="ray"):
            yield False
    finally:
        ray.shutdown()


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
