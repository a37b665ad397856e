"""One engine under the simulated clock: a SimPy process that steps it."""

import math
from bisect import bisect_left
from collections.abc import Generator
from itertools import accumulate
from typing import NamedTuple

import simpy
from simpy.events import EventPriority

from engine.engine import Engine
from engine.replay_engine import Progress, ReplayEngine
from engine.request import Request, RequestError, RequestId
from engine.sequence import Sequence
from engine.step import Step
from sim.latency.model import LatencyModel
from sim.recorder import Recorder

Process = Generator[simpy.Event, object, None]


class _StepInFlight(NamedTuple):
    """A step, and as it began: the queues, and who was admitted next (None: nobody waited)."""

    step: Step
    start_ns: int
    duration_ns: int
    queues: tuple[int, int]
    head: Sequence | None
    token_ids: list[int]


_LAST = EventPriority(2)  # SimPy's own are 0 and 1


class _Late(simpy.Event):
    """A time after everything else that happens at its instant."""

    def __init__(self, env: simpy.Environment, delay_ns: int) -> None:
        # As simpy.Timeout does it, without the constructor of Event, for there are many.
        self.env = env
        self.callbacks = []
        self._value = None
        self._ok = True
        env.schedule(self, _LAST, delay_ns)


class Replica:
    """Runs an engine's steps, each as long as the latency model says.

    A request that comes at the very instant at which a step ends takes part in the next one that
    is scheduled. With asynchronous scheduling that is one step later: the step that starts now was
    scheduled when the one before it started.

    A ReplayEngine knows when nothing but decodes lies ahead: these steps are slept through at once.
    """

    def __init__(
        self,
        env: simpy.Environment,
        engine: Engine | ReplayEngine,
        latency: LatencyModel,
        recorder: Recorder,
    ) -> None:
        self._env = env
        self._engine = engine
        self._latency = latency
        self._recorder = recorder
        self._max_wait_ns = round(engine.config.max_wait_s * 1e9)
        self._answered: dict[RequestId, simpy.Event] = {}
        self._is_idle = False  # to be woken by an arrival
        self._last_step_ns = 1  # of the steps slept through, to guess how many end by when
        self._process = env.process(self._run())

    @property
    def _now_ns(self) -> int:
        return self._env.now  # type: ignore[return-value]  # whole, as every delay is

    @property
    def _queues(self) -> tuple[int, int]:
        scheduler = self._engine.scheduler
        return len(scheduler.running), len(scheduler.waiting)

    def submit(self, request: Request) -> bool:
        """Give the engine a request now; False when it refuses."""
        request_id = request.request_id
        self._recorder.arrived(request_id, self._now_ns)
        try:
            self._engine.add_request(request)
        except RequestError as error:
            self._recorder.refused(request_id, str(error))
            return False
        if self._is_idle:
            self._is_idle = False
            self._process.interrupt()
        return True

    def answered(self, request_id: RequestId) -> simpy.Event:
        """The end of a request that is in the engine, as an event."""
        return self._answered.setdefault(request_id, self._env.event())

    def _run(self) -> Process:
        engine = self._engine
        is_async = engine.config.async_scheduling
        in_flight: _StepInFlight | None = None
        while True:
            if in_flight and not is_async:
                yield from self._end(in_flight)
                in_flight = None
            while num_steps := engine.steps_ahead():
                in_flight = yield from self._sleep_through(in_flight, num_steps)
            step, now_ns = engine.schedule(), self._now_ns
            self._recorder.scheduled(step, now_ns)
            if in_flight:
                yield from self._end(in_flight)
            elif not step.num_tokens and not step.preempted:  # a lone victim can run at once
                yield from self._wait_for_company()
            in_flight = self._start(step) if step.num_tokens else None

    def _start(self, step: Step) -> _StepInFlight:
        token_ids = self._engine.run(step)
        duration_ns = self._latency.step_time_ns(step)
        head = self._engine.head
        return _StepInFlight(step, self._now_ns, duration_ns, self._queues, head, token_ids)

    def _end(self, in_flight: _StepInFlight) -> Process:
        """Wait for the end of a step, that has begun just now, and take its tokens."""
        step, start_ns, duration_ns, queues, head, token_ids = in_flight
        yield _Late(self._env, duration_ns)
        now_ns = self._now_ns
        # Whoever has come meanwhile does not matter to this step.
        kv = self._engine.kv
        usage, saved_slots = kv.usage(head), kv.num_saved_slots
        self._recorder.ran(step, start_ns, now_ns, usage, saved_slots, queues)
        outcome = self._engine.commit(step, token_ids)
        if isinstance(outcome, Progress):
            self._recorder.progressed(outcome, now_ns)
            ended = [seq.request.request_id for seq in outcome.ended]
        else:
            self._recorder.handed_out(outcome, now_ns)
            ended = [output.request_id for output in outcome if output.finished]
        if self._answered and self._answer(ended):
            yield _Late(self._env, 0)

    def _sleep_through(
        self, in_flight: _StepInFlight | None, num_steps: int
    ) -> Generator[simpy.Event, object, _StepInFlight | None]:
        """Let the same sequences decode for at most so many steps; returns what is in flight then.

        Nothing comes before the next event of the simulation; what comes then, waits for the end of
        the step in flight, which is the last.
        """
        env, engine, recorder = self._env, self._engine, self._recorder
        assert isinstance(engine, ReplayEngine)
        start_ns, next_ns = self._now_ns, env.peek()
        queues, num_seqs = self._queues, engine.num_decodes
        if queues[1]:
            recorder.attribution.decided(engine.scheduler.blocked_ahead, start_ns)
        usage, saved_slots = engine.usage(), engine.kv.num_saved_slots
        if next_ns < math.inf:  # about as many as end by then
            num_steps = min(num_steps, int(next_ns - start_ns) // self._last_step_ns + 2)
        durations_ns = self._latency.decode_times_ns(*engine.rows_ahead, num_steps)
        if in_flight:  # the first step runs already, and the last will run when this is over
            durations_ns.insert(0, in_flight.duration_ns)
        ends_ns = list(accumulate(durations_ns, initial=start_ns))[1:]
        num_steps = min(bisect_left(ends_ns, next_ns) + 1, num_steps)
        end_ns, self._last_step_ns = ends_ns[num_steps - 1], durations_ns[num_steps - 1]
        yield _Late(env, end_ns - start_ns)
        begun, ended = engine.advance(num_steps)
        durations = durations_ns[:num_steps]
        recorder.decoded(start_ns, durations, num_seqs, begun, usage, saved_slots, queues)
        if ended:
            recorder.ended(ended, end_ns)
            if self._answered and self._answer([seq.request.request_id for seq in ended]):
                yield _Late(env, 0)
        if not in_flight:
            return None
        duration_ns, queues, head = durations_ns[num_steps], self._queues, engine.head
        return _StepInFlight(engine.in_flight, end_ns, duration_ns, queues, head, [])

    def _answer(self, request_ids: list[RequestId]) -> bool:
        """Tell whoever waits for those of these requests that have ended; whether anybody does.

        Some may have outputs that have not. What they send at this instant comes before the next
        step.
        """
        is_heard = False
        for request_id in request_ids:
            if request_id in self._answered and not self._engine.is_unfinished(request_id):
                self._answered.pop(request_id).succeed()
                is_heard = True
        return is_heard

    def _wait_for_company(self) -> Process:
        """Until the next arrival, or until a batch has waited long enough for company."""
        waiting = self._engine.scheduler.waiting
        call: simpy.Event = self._env.event()  # which never comes
        if waiting:
            oldest_ns = self._recorder.arrival_ns(waiting[0].request.request_id)
            left_ns = oldest_ns + self._max_wait_ns - self._now_ns
            if left_ns <= 0:
                self._engine.close_batch()
                return
            call = _Late(self._env, left_ns)
        engine = self._engine
        self._recorder.idles(engine.usage(), engine.kv.num_saved_slots, self._queues)
        self._is_idle = True
        try:
            yield call
            self._is_idle = False
        except simpy.Interrupt:
            yield _Late(self._env, self._latency.wake_ns)
