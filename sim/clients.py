"""Who sends the requests: an open loop by the clock, or users who wait for their answers."""

from collections.abc import Callable, Iterator
from typing import Protocol

import simpy

from engine.request import Request, RequestId
from sim.replica import Process
from workloads import Workload

MakeRequest = Callable[[int], Request]


class Server(Protocol):
    """Who takes requests: a replica, or several behind a router."""

    def submit(self, request: Request) -> bool:
        """Take a request now; False when it is refused."""

    def answered(self, request_id: RequestId) -> simpy.Event:
        """The end of a request that was taken and has not ended, as an event."""


def send(
    env: simpy.Environment, server: Server, workload: Workload, make_request: MakeRequest
) -> None:
    """Start the clients that send a workload. make_request: makes a request by its number."""
    if workload.arrival_ns is not None:
        env.process(_open_loop(env, server, workload, make_request))
        return
    assert workload.closed_loop
    numbers = iter(workload.first_of_sessions.tolist())
    for _ in range(min(workload.closed_loop.concurrency, len(workload.first_of_sessions))):
        env.process(_closed_loop_user(env, server, workload, numbers, make_request))


def _open_loop(
    env: simpy.Environment, server: Server, workload: Workload, make_request: MakeRequest
) -> Process:
    """Start each session when it comes, whatever becomes of the others."""
    assert workload.arrival_ns is not None
    firsts = workload.first_of_sessions
    for number, at_ns in zip(firsts.data, workload.arrival_ns[firsts].data, strict=True):
        if at_ns > env.now:
            yield env.timeout(at_ns - env.now)
        if workload.following:
            env.process(_session(env, server, workload, number, make_request))
        else:
            server.submit(make_request(number))


def _closed_loop_user(
    env: simpy.Environment,
    server: Server,
    workload: Workload,
    numbers: Iterator[int],
    make_request: MakeRequest,
) -> Process:
    """One session after another, which `numbers`, shared by all users, begin."""
    assert workload.closed_loop
    think_time_ns = round(workload.closed_loop.think_time_s * 1e9)
    for number in numbers:
        yield from _session(env, server, workload, number, make_request)
        if think_time_ns:
            yield env.timeout(think_time_ns)


def _session(
    env: simpy.Environment,
    server: Server,
    workload: Workload,
    number: int | None,
    make_request: MakeRequest,
) -> Process:
    """Send a request and, when it has been answered, what follows. A refusal is an answer too."""
    while number is not None:
        if server.submit(make_request(number)):
            yield server.answered(number)
        number, think_time_ns = workload.following.get(number, (None, 0))
        if think_time_ns:
            yield env.timeout(think_time_ns)
