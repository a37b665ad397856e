"""How long a call keeps the device busy.

What a step reads from memory must not come from the cache because it was timed before. So a point
is timed over several *copies*: the same call with other weights, or with other blocks of the KV
cache, together at least twice the size of the cache. Activations are shared by the copies and stay
in the cache, as in a step, where the operator before has just written them.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice, pairwise
from typing import Any, Protocol

import torch

Call = Callable[[], Any]

_MOST_COPIES = 64
_SHORT_US = 200.0  # a graph of a few calls shorter than this may end before the host's next launch
_LEAST_REPEATS, _MOST_REPEATS = 3, 20
_POINT_US = 50_000.0  # spent on the repeats of a point, if that is enough for the fewest
_WAKE_S = 1.0
_CPU_CACHE_BYTES = 32 << 20  # assumed


class Timer(Protocol):
    """A device whose calls are timed. cache_bytes: of its last cache."""

    cache_bytes: int

    def time_us(self, calls: Sequence[Call]) -> float:
        """Median time of one call in microseconds; the calls are copies of one another."""


class CudaTimer:
    """Times kernels of a CUDA GPU as a graph of calls, so without any work of the host."""

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.cache_bytes = int(getattr(properties, "L2_cache_size", 64 << 20))
        _wake()

    def time_us(self, calls: Sequence[Call]) -> float:
        """Median over replays of a CUDA graph of the calls, divided by their number."""
        calls[0]()  # compiles and chooses kernels
        once_us = _elapsed_us(calls[0], repeats=1)[0]
        num_calls = _MOST_COPIES if once_us < _SHORT_US else len(calls)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in islice(cycle(calls), num_calls):
                call()
        graph.replay()  # keeps the GPU busy while the host queues the others
        repeats = int(_POINT_US / (once_us * num_calls))
        repeats = min(max(repeats, _LEAST_REPEATS), _MOST_REPEATS)
        return statistics.median(_elapsed_us(graph.replay, repeats)) / num_calls


class CpuTimer:
    """Times calls by the clock, the work of Python and torch included."""

    cache_bytes = _CPU_CACHE_BYTES

    def time_us(self, calls: Sequence[Call]) -> float:
        """Median over rounds of all calls, divided by their number."""
        durations_us: list[float] = []
        _round_us(calls)
        while len(durations_us) < _MOST_REPEATS:
            durations_us.append(_round_us(calls))
            spent_us = sum(durations_us)
            if spent_us > _POINT_US and (
                len(durations_us) >= _LEAST_REPEATS or spent_us > 20 * _POINT_US
            ):
                break
        return statistics.median(durations_us) / len(calls)


def num_copies(timer: Timer, read_bytes: float) -> int:
    """How many copies of a call that reads so many bytes exceed the cache twice, 64 at most."""
    return min(max(math.ceil(2 * timer.cache_bytes / max(read_bytes, 1)), 1), _MOST_COPIES)


def _elapsed_us(call: Call, repeats: int) -> list[float]:
    """Times on the GPU between events around each of the calls."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in pairwise(events)]


def _round_us(calls: Sequence[Call]) -> float:
    start_s = time.perf_counter()
    for call in calls:
        call()
    return (time.perf_counter() - start_s) * 1e6


def _wake() -> None:
    """Work until an idle GPU has raised its clocks."""
    matrix = torch.ones(2048, 2048, device="cuda")
    end_s = time.perf_counter() + _WAKE_S
    while time.perf_counter() < end_s:
        matrix @ matrix
        torch.cuda.synchronize()
