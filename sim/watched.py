"""Lets somebody watch a simulation, step by step, through what its recorders are told."""

from typing import Any, NamedTuple

from engine.engine_base import EngineBase
from engine.kv_manager import KVUsage
from engine.request import RequestId, TokenOutput
from engine.step import Step
from sim.recorder import Queues, Recorder


class DoneStep(NamedTuple):
    """A step that has been computed."""

    step: Step
    start_ns: int
    end_ns: int
    usage: KVUsage
    """The ledger meanwhile."""
    queues: Queues
    """Running and waiting sequences as it began."""


class Watcher:
    """Is told what happens in replicas that take every step by itself; does nothing about it.

    What it raises ends the simulation, and passes through.
    """

    def arrived(self, replica: int, request_id: RequestId, now_ns: int) -> None:
        """A client has sent a request."""

    def refused(self, replica: int, request_id: RequestId, reason: str) -> None:
        """The engine has refused the request that came last."""

    def scheduled(self, replica: int, step: Step, now_ns: int) -> None:
        """The scheduler has admitted and preempted."""

    def began(self, replica: int, engine: EngineBase, step: Step, start_ns: int) -> None:
        """A step begins to be computed: the engine has the queues that `ran` counts."""

    def ran(self, replica: int, engine: EngineBase, done: DoneStep) -> None:
        """A step is over, and its tokens are not taken yet."""

    def handed_out(self, replica: int, outputs: list[TokenOutput], now_ns: int) -> None:
        """The tokens of the step are taken."""

    def idles(self, replica: int, usage: KVUsage, queues: Queues, now_ns: int) -> None:
        """The engine has nothing to do since the last step."""


class WatchedRecorder(Recorder):
    """The recorder of a replica, which passes on what it is told."""

    def __init__(
        self, watcher: Watcher, replica: int, engine: EngineBase, *args: Any, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._watcher = watcher
        self._replica = replica
        self._engine = engine

    def arrived(self, request_id: RequestId, now_ns: int) -> None:
        """See Recorder."""
        super().arrived(request_id, now_ns)
        self._watcher.arrived(self._replica, request_id, now_ns)

    def refused(self, request_id: RequestId, reason: str) -> None:
        """See Recorder."""
        super().refused(request_id, reason)
        self._watcher.refused(self._replica, request_id, reason)

    def scheduled(self, step: Step, now_ns: int) -> None:
        """See Recorder."""
        super().scheduled(step, now_ns)
        self._watcher.scheduled(self._replica, step, now_ns)

    def began(self, step: Step, start_ns: int) -> None:
        """See Recorder."""
        super().began(step, start_ns)
        self._watcher.began(self._replica, self._engine, step, start_ns)

    def ran(
        self,
        step: Step,
        start_ns: int,
        end_ns: int,
        usage: KVUsage,
        saved_slots: int,
        queues: Queues,
    ) -> None:
        """See Recorder."""
        super().ran(step, start_ns, end_ns, usage, saved_slots, queues)
        done = DoneStep(step, start_ns, end_ns, usage, queues)
        self._watcher.ran(self._replica, self._engine, done)

    def handed_out(self, outputs: list[TokenOutput], now_ns: int) -> None:
        """See Recorder."""
        super().handed_out(outputs, now_ns)
        self._watcher.handed_out(self._replica, outputs, now_ns)

    def idles(self, usage: KVUsage, saved_slots: int, queues: Queues) -> None:
        """See Recorder."""
        super().idles(usage, saved_slots, queues)
        self._watcher.idles(self._replica, usage, queues, self.end_ns)
