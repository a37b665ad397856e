"""One engine under the simulated clock: a SimPy process that steps it."""

from collections.abc import Generator
from typing import NamedTuple

import simpy

from engine.engine import Engine
from engine.request import Request, RequestError, RequestId
from engine.scheduler import Step
from sim.latency.model import LatencyModel
from sim.recorder import Recorder

Process = Generator[simpy.Event, object, None]


class _StepInFlight(NamedTuple):
    step: Step
    start_ns: int
    queues: tuple[int, int]
    token_ids: list[int]
    end: simpy.Event


class Replica:
    """Runs an engine's steps, each as long as the latency model says.

    A request that comes at the very instant at which a step ends takes part in the next one that
    is scheduled. With asynchronous scheduling that is one step later: the step that starts now was
    scheduled when the one before it started.
    """

    def __init__(
        self, env: simpy.Environment, engine: Engine, latency: LatencyModel, recorder: Recorder
    ) -> None:
        self._env = env
        self._engine = engine
        self._latency = latency
        self._recorder = recorder
        self._max_wait_ns = round(engine.config.max_wait_s * 1e9)
        self._arrival_ns: dict[RequestId, int] = {}  # of the unfinished requests
        self._answered: dict[RequestId, simpy.Event] = {}
        self._arrival = env.event()
        env.process(self._run())

    @property
    def _now_ns(self) -> int:
        return int(self._env.now)  # whole already: every delay is

    @property
    def _queues(self) -> tuple[int, int]:
        scheduler = self._engine.scheduler
        return len(scheduler.running), len(scheduler.waiting)

    def submit(self, request: Request) -> bool:
        """Give the engine a request now; False when it refuses."""
        self._recorder.arrived(request.request_id, self._now_ns)
        try:
            self._engine.add_request(request)
        except RequestError as error:
            self._recorder.refused(request.request_id, str(error))
            return False
        self._arrival_ns[request.request_id] = self._now_ns
        self._arrival.succeed()
        self._arrival = self._env.event()
        return True

    def answered(self, request_id: RequestId) -> simpy.Event:
        """The end of a request that is in the engine, as an event."""
        return self._answered.setdefault(request_id, self._env.event())

    def _run(self) -> Process:
        is_async = self._engine.config.async_scheduling
        in_flight: _StepInFlight | None = None
        while True:
            if in_flight and not is_async:
                yield from self._end(in_flight)
                in_flight = None
            step = self._engine.schedule()
            self._recorder.scheduled(step, self._now_ns)
            if in_flight:
                yield from self._end(in_flight)
            elif not step.chunks and not step.preempted:  # a lone victim can run at once
                yield self._company()
            in_flight = self._start(step) if step.chunks else None

    def _start(self, step: Step) -> _StepInFlight:
        end = self._env.timeout(self._latency.step_time_ns(step))
        return _StepInFlight(step, self._now_ns, self._queues, self._engine.run(step), end)

    def _end(self, in_flight: _StepInFlight) -> Process:
        """Wait for the end of a step and take its tokens."""
        step, start_ns, queues, token_ids, end = in_flight
        yield end
        kv, now_ns = self._engine.kv, self._now_ns
        self._recorder.ran(step, start_ns, now_ns, kv.usage(), queues)
        outputs = self._engine.commit(step, token_ids)
        self._recorder.committed(outputs, now_ns, kv.usage(), self._queues)
        for output in outputs:
            if output.finished:
                self._finish(output.request_id)
        yield self._env.timeout(0)  # whoever sends at this instant comes before the next step

    def _finish(self, request_id: RequestId) -> None:
        del self._arrival_ns[request_id]
        if request_id in self._answered:
            self._answered.pop(request_id).succeed()

    def _company(self) -> simpy.Event:
        """The next arrival, or the moment at which a batch has waited long enough for company."""
        waiting = self._engine.scheduler.waiting
        if not waiting:
            return self._arrival
        oldest_ns = self._arrival_ns[waiting[0].request.request_id]
        left_ns = oldest_ns + self._max_wait_ns - self._now_ns
        if left_ns > 0:
            return self._arrival | self._env.timeout(left_ns)
        self._engine.close_batch()
        return self._env.timeout(0)
