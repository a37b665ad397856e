"""Watches a run, and notes what its timeline shows."""

from collections import Counter

from engine.engine_base import EngineBase
from engine.kv_manager import KVUsage
from engine.request import RequestId, TokenOutput
from engine.step import Step
from sim.recorder import Queues
from sim.rerun import Window, WindowOver
from sim.timeline.parts import Parts
from sim.timeline.replica_history import ReplicaHistory
from sim.watched import DoneStep, Watcher


class History(Watcher):
    """The parts of all replicas that touch a window, until there are too many: then it is full.

    Not before it knows something of the window.
    """

    def __init__(self, window: Window, most_events: int) -> None:
        self._window = window
        self._most_events = most_events
        self._parts = Parts()
        self._replicas: dict[int, ReplicaHistory] = {}
        self._known_ns: dict[int, int] = {}  # of each replica, how far it is known
        self._num_in_flight: Counter[int] = Counter()  # steps of each replica
        self.is_full = False

    @property
    def end_ns(self) -> int:
        """How far everything is known: the end of the run, or of a window that is over."""
        return self._all_known_ns if self.is_full else self._last_ns

    @property
    def _last_ns(self) -> int:
        return max(self._known_ns.values(), default=0)

    @property
    def _all_known_ns(self) -> int:
        """Before this nothing can happen any more at replicas that compute."""
        busy = [replica for replica, count in self._num_in_flight.items() if count]
        return min((self._known_ns[replica] for replica in busy), default=self._last_ns)

    def parts(self) -> Parts:
        """All that is known, with what has not ended. To be asked once, at the end."""
        for replica in self._replicas.values():
            replica.leave_open(self.end_ns)
        return self._parts

    def arrived(self, replica: int, request_id: RequestId, now_ns: int) -> None:
        """See Watcher."""
        self._of(replica).arrived(request_id, now_ns)

    def refused(self, replica: int, request_id: RequestId, reason: str) -> None:
        """See Watcher."""
        self._of(replica).refused(request_id, reason)

    def scheduled(self, replica: int, step: Step, now_ns: int) -> None:
        """See Watcher."""
        self._known_ns[replica] = now_ns
        self._num_in_flight[replica] += bool(step.num_tokens)
        self._of(replica).scheduled(step, now_ns)

    def ran(self, replica: int, engine: EngineBase, done: DoneStep) -> None:
        """See Watcher."""
        self._of(replica).ran(done)
        self._known_ns[replica] = done.end_ns
        self._num_in_flight[replica] -= 1
        num_open = sum(of.num_open for of in self._replicas.values())
        is_in_window = self._all_known_ns > self._window.start_ns
        if is_in_window and self._parts.num_events + num_open > self._most_events:
            self.is_full = True
            raise WindowOver

    def handed_out(self, replica: int, outputs: list[TokenOutput], now_ns: int) -> None:
        """See Watcher."""
        self._of(replica).handed_out(outputs, now_ns)

    def idles(self, replica: int, usage: KVUsage, queues: Queues, now_ns: int) -> None:
        """See Watcher."""
        self._of(replica).idles(usage, queues, now_ns)

    def _of(self, replica: int) -> ReplicaHistory:
        if replica not in self._replicas:
            self._replicas[replica] = ReplicaHistory(replica, self._window.start_ns, self._parts)
        return self._replicas[replica]
