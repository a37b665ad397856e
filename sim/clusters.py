"""Work on clusters of Dask and Ray, whose connection is kept: a plan asks many times."""

import logging
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sim.errors import UserError
from sim.interrupts import interrupts_held

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Attempt = tuple[int, Any, Exception | None]  # place, and what came of it or was raised

_PATIENCE_S = 10  # until a scheduler has answered
_WORKERS_PATIENCE_S = 30  # until a first worker is there
_RAY_OBJECTS_BYTES = 100_000_000  # for what is under way between processes of this machine

# A worker of Dask may have several threads, but limits on threads of BLAS are of the process.
_one_at_a_time = threading.Lock()


def over_cluster(
    work: Callable[[Item], Outcome], items: Sequence[Item], name: str, address: str | None
) -> Iterator[tuple[int, Outcome]]:
    """As `over_cores`, by workers of "dask" or "ray".

    Raises UserError where it is not installed, cannot be reached, or is lost.
    """
    try:
        attempts = {"dask": _by_dask, "ray": _by_ray}[name](work, items, address)
    except ImportError:
        raise UserError(
            f"--backend {name}: not installed, expected pip install 'kvsim[cluster]'"
        ) from None
    for place, outcome, error in _unless_lost(attempts, name):
        if error is not None:
            raise error
        yield place, outcome


def _unless_lost(attempts: Iterator[Attempt], name: str) -> Iterator[Attempt]:
    """What work raises is in an attempt, so whatever else is raised is about the cluster."""
    try:
        yield from attempts
    except Exception as error:
        raise UserError(
            f"--backend {name}: {type(error).__name__}: {_first_line(error)}; expected workers "
            "that stay, with this kvsim and the same paths"
        ) from None


def _attempt(work: Callable[[Item], Outcome], place: int, item: Item) -> Attempt:
    try:
        with _one_at_a_time:
            return place, work(item), None
    except Exception as error:
        error.add_note(traceback.format_exc())  # a traceback does not travel
        return place, None, error


def _by_dask(
    work: Callable[[Item], Outcome], items: Sequence[Item], address: str | None
) -> Iterator[Attempt]:
    from distributed import as_completed

    client = _dask_client(address)
    num = len(items)
    futures = client.map(_attempt, [work] * num, range(num), items, pure=False)
    return (future.result() for future in as_completed(futures))


@cache
def _dask_client(address: str | None) -> "Client":
    from distributed import Client, LocalCluster

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what matters is raised
    if address is None:
        with interrupts_held():
            cluster = LocalCluster(
                n_workers=os.cpu_count(),
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
            return Client(cluster)
    try:
        client = Client(address, timeout=_PATIENCE_S)
    except (OSError, ValueError) as error:
        raise UserError(_no_scheduler(address, "Dask scheduler", error)) from None
    try:
        client.wait_for_workers(1, timeout=_WORKERS_PATIENCE_S)
    except TimeoutError:
        raise UserError(
            f"--address: got {address}, which has no workers, expected at least one"
        ) from None
    return client


def _by_ray(
    work: Callable[[Item], Outcome], items: Sequence[Item], address: str | None
) -> Iterator[Attempt]:
    # Where something else listens Ray asks 20 times, 40 s each, and no Ctrl-C ends that.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    import ray

    _join_ray(address)
    task = ray.remote(_attempt)
    return _as_done([task.remote(work, place, item) for place, item in enumerate(items)])


def _as_done(pending: list[Any]) -> Iterator[Attempt]:
    import ray

    try:
        while pending:
            done, pending = ray.wait(pending)
            yield from ray.get(done)
    finally:  # after a mistake or Ctrl-C nobody wants what is left
        for task in pending:
            ray.cancel(task)


@cache
def _join_ray(address: str | None) -> None:
    import ray

    if address is None:
        with interrupts_held():
            ray.init(
                "local",
                include_dashboard=False,
                object_store_memory=_RAY_OBJECTS_BYTES,
                log_to_driver=False,
                logging_level="error",
            )
        return
    try:
        _knock(address)
        ray.init(address, log_to_driver=False, logging_level="error")
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(_no_scheduler(address, "Ray head", error)) from None
    if ray.cluster_resources().get("CPU", 0) < 1:
        raise UserError(f"--address: got {address}, which has no CPU, expected at least one")


def _knock(address: str) -> None:
    """Raises OSError where nobody answers: Ray itself asks for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host, int(port)), timeout=_PATIENCE_S).close()


def _no_scheduler(address: str, what: str, error: Exception) -> str:
    return f"--address: got {address}, which is no {what}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "no word of why")
