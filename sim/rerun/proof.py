"""Proves that a simulation is the run whose times are in a table of requests."""

import pandas as pd

from engine.engine_base import EngineBase
from engine.kv_manager import KVUsage
from engine.request import RequestId, TokenOutput
from engine.step import Step
from sim.recorder import Queues
from sim.rerun.window import Window, WindowOver
from sim.watched import DoneStep, Watcher

_STAMPS = ("arrival_ns", "admitted_ns", "finished_ns")


class Proof(Watcher):
    """Notes when requests came, were admitted and ended, and lets another one watch.

    Ends the simulation when the window is over, and so are all steps that were scheduled in it.
    """

    def __init__(self, watcher: Watcher, window: Window, num_outputs: int) -> None:
        self._watcher = watcher
        self._window = window
        self._num_outputs = num_outputs
        self._times: dict[str, dict[int, int]] = {name: {} for name in _STAMPS}
        self._num_ended: dict[int, int] = {}
        self._now_ns = 0
        self._scheduled: set[tuple[int, int]] = set()  # in the window: replica and step

    def differs_from(self, requests: pd.DataFrame, *, is_over: bool) -> bool:
        """Whether any of these times is another one than in a table, as far as was simulated.

        requests: as requests.csv has them. is_over: whether the simulation ended by itself.
        """
        table = requests.set_index("request")
        return any(
            _differ(table[name], times, None if is_over else self._now_ns)
            for name, times in self._times.items()
        )

    def _pass(self, now_ns: int) -> None:
        """Time has come; raises WindowOver where it is enough."""
        if self._window.is_past(now_ns) and not self._scheduled:
            raise WindowOver
        self._now_ns = max(self._now_ns, now_ns)

    def arrived(self, replica: int, request_id: RequestId, now_ns: int) -> None:
        """See Watcher."""
        self._pass(now_ns)
        self._times["arrival_ns"][int(request_id)] = now_ns
        self._watcher.arrived(replica, request_id, now_ns)

    def refused(self, replica: int, request_id: RequestId, reason: str) -> None:
        """See Watcher."""
        self._watcher.refused(replica, request_id, reason)

    def scheduled(self, replica: int, step: Step, now_ns: int) -> None:
        """See Watcher."""
        self._pass(now_ns)
        if step.num_tokens and not self._window.is_past(now_ns):
            self._scheduled.add((replica, step.index))
        for seq, _ in step.admitted:
            self._times["admitted_ns"].setdefault(int(seq.request.request_id), now_ns)
        self._watcher.scheduled(replica, step, now_ns)

    def began(self, replica: int, engine: EngineBase, step: Step, start_ns: int) -> None:
        """See Watcher."""
        self._watcher.began(replica, engine, step, start_ns)

    def ran(self, replica: int, engine: EngineBase, done: DoneStep) -> None:
        """See Watcher."""
        self._watcher.ran(replica, engine, done)
        self._scheduled.discard((replica, done.step.index))
        self._pass(done.end_ns)

    def handed_out(self, replica: int, outputs: list[TokenOutput], now_ns: int) -> None:
        """See Watcher."""
        for output in outputs:
            if output.finished:
                request = int(output.request_id)
                self._num_ended[request] = self._num_ended.get(request, 0) + 1
                if self._num_ended[request] == self._num_outputs:
                    self._times["finished_ns"][request] = now_ns
        self._watcher.handed_out(replica, outputs, now_ns)

    def idles(self, replica: int, usage: KVUsage, queues: Queues, now_ns: int) -> None:
        """See Watcher."""
        self._watcher.idles(replica, usage, queues, now_ns)


def _differ(column: pd.Series, times: dict[int, int], end_ns: int | None) -> bool:
    """Whether times by request are not those of a column; end_ns: those from then on may lack."""
    known = column.dropna().astype("int64")
    if any(request not in known or known[request] != time for request, time in times.items()):
        return True
    due = known if end_ns is None else known[known < end_ns]
    return not set(due.index) <= set(times)
