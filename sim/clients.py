"""Who sends the requests: an open loop by the clock, or users who wait for their answers."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import simpy

from engine.request import Request
from sim.replica import Process, Replica


def open_loop(
    env: simpy.Environment,
    replica: Replica,
    arrival_ns: npt.NDArray[np.int64],
    make_request: Callable[[int], Request],
) -> Process:
    """Send request i at arrival_ns[i], whatever becomes of the others."""
    for number, at_ns in enumerate(arrival_ns.data):
        if at_ns > env.now:
            yield env.timeout(at_ns - env.now)
        replica.submit(make_request(number))


def closed_loop_user(
    env: simpy.Environment,
    replica: Replica,
    numbers: Iterator[int],
    think_time_ns: int,
    make_request: Callable[[int], Request],
) -> Process:
    """Send the next request of `numbers`, shared by all users, think_time_ns after an answer."""
    for number in numbers:
        if replica.submit(make_request(number)):
            yield replica.answered(number)
        if think_time_ns:
            yield env.timeout(think_time_ns)
