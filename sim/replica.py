"""One engine under the simulated clock: a SimPy process that steps it."""

import math
from bisect import bisect_left
from collections.abc import Generator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import simpy
from simpy.events import EventPriority

from engine.engine import Engine
from engine.kv_manager import KVUsage
from engine.replay_engine import Progress, ReplayEngine
from engine.request import Request, RequestError, RequestId
from engine.sequence import Sequence
from engine.step import Step
from sim.instant import BEGINS, ENDS, Answers, Late
from sim.latency.model import LatencyModel
from sim.recorder import Queues, Recorder

Process = Generator[simpy.Event, object, None]


class _StepInFlight(NamedTuple):
    """A step, and as it began: the queues, and who was admitted next (None: nobody waited)."""

    step: Step
    start_ns: int
    duration_ns: int
    queues: Queues
    head: Sequence | None
    token_ids: list[int]


@dataclass
class _Sleep:
    """Steps that are slept through, all else as the first of them begins.

    ends_ns, durations_ns: of each; with asynchronous scheduling there is a duration more.
    num_steps: so many of them are taken; less than there are when somebody comes meanwhile.
    """

    start_ns: int
    ends_ns: list[int]
    durations_ns: list[int]
    num_steps: int
    num_seqs: int
    usage: KVUsage
    saved_slots: int
    queues: Queues


class Replica:
    """Runs an engine's steps, each as long as the latency model says.

    A request that comes at the very instant at which a step ends takes part in the next one that
    is scheduled. With asynchronous scheduling that is one step later: the step that starts now was
    scheduled when the one before it started.

    A ReplayEngine knows when nothing but decodes lies ahead: these steps are slept through at once.
    Whoever sends a request meanwhile, or looks at the engine, finds it as if every step had been
    taken by itself.

    number, answers: among replicas that share their clients; None where it is the only one.
    """

    def __init__(
        self,
        env: simpy.Environment,
        engine: Engine | ReplayEngine,
        latency: LatencyModel,
        recorder: Recorder,
        answers: Answers | None = None,
        number: int = 0,
    ) -> None:
        self._env = env
        self._engine = engine
        self._latency = latency
        self._recorder = recorder
        self._answers = answers or Answers(env)
        self._is_alone = answers is None
        self._end_priority = EventPriority(ENDS + number)
        self._max_wait_ns = round(engine.config.max_wait_s * 1e9)
        self._is_async = engine.config.async_scheduling
        self._in_flight: _StepInFlight | None = None
        self._next: Step | None = None  # scheduled, and not begun
        self._sleep: _Sleep | None = None
        self._can_be_woken = False  # idle, or asleep
        self._last_step_ns = 1  # of the steps slept through, to guess how many end by when
        self._process = env.process(self._run())

    @property
    def _now_ns(self) -> int:
        return self._env.now  # type: ignore[return-value]  # whole, as every delay is

    @property
    def _queues(self) -> Queues:
        scheduler = self._engine.scheduler
        return len(scheduler.running), len(scheduler.waiting)

    def submit(self, request: Request) -> bool:
        """Give the engine a request now; False when it refuses."""
        request_id = request.request_id
        self._recorder.arrived(request_id, self._now_ns)
        if self._sleep:
            self._shorten(self._sleep)
        try:
            self._engine.add_request(request)
        except RequestError as error:
            self._recorder.refused(request_id, str(error))
            return False
        if not self._sleep:
            self._wake()
        return True

    def answered(self, request_id: RequestId) -> simpy.Event:
        """The end of a request that is in the engine, as an event."""
        return self._answers.of(request_id)

    @property
    def num_unfinished(self) -> int:
        """Requests in the engine, running or waiting."""
        return self._engine.num_unfinished

    def look(self) -> Engine | ReplayEngine:
        """The engine as it is now, after all steps that have begun have been scheduled.

        A router that looks does so for every request, before it comes, at all replicas: where
        somebody has come meanwhile, nobody can tell any more what has been scheduled without him.
        """
        if self._sleep:
            self._catch_up(self._sleep)
        return self._engine

    def _run(self) -> Process:
        while True:
            if self._in_flight and not self._is_async:
                yield from self._end(self._in_flight)
            if self._next is None:
                if num_steps := self._engine.steps_ahead():
                    yield from self._sleep_through(num_steps)
                    continue
                self._schedule(self._now_ns)
            step = self._next
            assert step
            if self._in_flight:
                yield from self._end(self._in_flight)
            elif not step.num_tokens and not step.preempted:  # a lone victim can run at once
                yield from self._wait_for_company()
            self._next = None
            if step.num_tokens:
                start_ns, duration_ns = self._now_ns, self._latency.step_time_ns(step)
                self._in_flight = self._start(step, start_ns, duration_ns)

    def _schedule(self, now_ns: int) -> None:
        self._next = self._engine.schedule()
        self._recorder.scheduled(self._next, now_ns)

    def _start(self, step: Step, start_ns: int, duration_ns: int) -> _StepInFlight:
        token_ids = self._engine.run(step)
        self._recorder.began(step, start_ns)
        return _StepInFlight(
            step, start_ns, duration_ns, self._queues, self._engine.head, token_ids
        )

    def _end(self, in_flight: _StepInFlight) -> Process:
        """Wait for the end of a step, and take its tokens."""
        step, start_ns, duration_ns, queues, head, token_ids = in_flight
        yield Late(self._env, start_ns + duration_ns - self._now_ns, self._end_priority)
        now_ns = self._now_ns
        self._in_flight = None
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
        self._answer(ended)
        if self._must_listen:
            yield Late(self._env, 0, BEGINS)

    def _sleep_through(self, num_steps: int) -> Process:
        """Let the same sequences decode for at most so many steps.

        Afterwards what is in flight is what would be: nothing or, with asynchronous scheduling, the
        next step; or, when somebody has looked at the engine meanwhile, the step that runs.
        """
        self._sleep = self._plan(num_steps)
        while sleep := self._sleep:
            self._can_be_woken = True
            try:
                end_ns = sleep.ends_ns[sleep.num_steps - 1]
                yield Late(self._env, end_ns - self._now_ns, self._end_priority)
            except simpy.Interrupt:
                continue
            self._can_be_woken = False
            self._sleep = None
            self._take(sleep)
            if self._must_listen:
                yield Late(self._env, 0, BEGINS)
            if self._in_flight:
                self._in_flight = self._running(sleep)

    def _plan(self, num_steps: int) -> _Sleep:
        """A sleep of at most so many steps.

        Nobody comes before the next event of the simulation, so a replica that is alone looks no
        further than to the step that is in flight then. Among others, most events are not for it.
        """
        engine = self._engine
        assert isinstance(engine, ReplayEngine)
        start_ns, queues = self._now_ns, self._queues
        if queues[1]:
            self._recorder.attribution.decided(engine.scheduler.blocked_ahead, start_ns)
        next_ns = self._env.peek() if self._is_alone else math.inf
        if next_ns < math.inf:  # about as many as end by then
            num_steps = min(num_steps, int(next_ns - start_ns) // self._last_step_ns + 2)
        durations_ns = self._latency.decode_times_ns(*engine.rows_ahead, num_steps)
        if self._in_flight:  # the first step runs already, the last will run when this is over
            durations_ns.insert(0, self._in_flight.duration_ns)
        ends_ns = list(accumulate(durations_ns, initial=start_ns))[1:]
        num_steps = min(bisect_left(ends_ns, next_ns) + 1, num_steps)
        self._last_step_ns = durations_ns[num_steps - 1]
        return _Sleep(
            start_ns,
            ends_ns,
            durations_ns,
            num_steps,
            engine.num_decodes,
            engine.usage(),
            engine.kv.num_saved_slots,
            queues,
        )

    def _take(self, sleep: _Sleep) -> None:
        """Take the steps that have been slept through."""
        engine, recorder, num_steps = self._engine, self._recorder, sleep.num_steps
        assert isinstance(engine, ReplayEngine)
        begun, ended = engine.advance(num_steps)
        durations_ns = sleep.durations_ns[:num_steps]
        of_first = (sleep.usage, sleep.saved_slots, sleep.queues)
        recorder.decoded(sleep.start_ns, durations_ns, sleep.num_seqs, begun, *of_first)
        if ended:
            recorder.ended(ended, sleep.ends_ns[num_steps - 1])
            self._answer([seq.request.request_id for seq in ended])

    def _running(self, sleep: _Sleep) -> _StepInFlight:
        """With asynchronous scheduling, the step that begins as those end that are taken."""
        engine, num_steps = self._engine, sleep.num_steps
        assert isinstance(engine, ReplayEngine)
        start_ns, duration_ns = sleep.ends_ns[num_steps - 1], sleep.durations_ns[num_steps]
        return _StepInFlight(engine.in_flight, start_ns, duration_ns, self._queues, engine.head, [])

    def _num_ended(self, sleep: _Sleep) -> int:
        """Steps of a sleep that have ended, those before the one that is in flight.

        One that ends now counts as in flight, also for clients who hear now (see sim.instant): no
        request ends with it, or the sleep would, and nothing else can be seen of its end.
        """
        return bisect_left(sleep.ends_ns, self._now_ns)

    def _shorten(self, sleep: _Sleep) -> None:
        """Sleep no longer than until the step ends that is in flight now."""
        num_steps = self._num_ended(sleep) + 1
        if num_steps < sleep.num_steps:
            sleep.num_steps = num_steps
            self._wake()

    def _catch_up(self, sleep: _Sleep) -> None:
        """Be where every step by itself would be now, with the step that runs scheduled.

        Before anybody comes: whoever is in the engine is scheduled.
        """
        assert self._queues[1] == sleep.queues[1]
        num_ended = self._num_ended(sleep)
        start_ns = sleep.start_ns
        if num_ended:
            start_ns, sleep.num_steps = sleep.ends_ns[num_ended - 1], num_ended
            self._take(sleep)
            if self._is_async:
                self._in_flight = self._running(sleep)
        self._sleep = None
        self._schedule(start_ns)
        if not self._is_async:
            step, self._next = self._next, None
            assert step
            self._in_flight = self._start(step, start_ns, sleep.durations_ns[num_ended])
        self._wake()

    @property
    def _must_listen(self) -> bool:
        """Whether, after the end of a step, somebody may come at this instant."""
        answers = self._answers
        return answers.are_given_now or (answers.are_awaited and not self._is_alone)

    def _answer(self, request_ids: list[RequestId]) -> None:
        """Tell whoever waits for those of these requests that have ended: all their outputs."""
        if self._answers.are_awaited:
            for request_id in request_ids:
                if not self._engine.is_unfinished(request_id):
                    self._answers.give(request_id)

    def _wake(self) -> None:
        if self._can_be_woken:
            self._can_be_woken = False
            self._process.interrupt()

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
            call = Late(self._env, left_ns, BEGINS)
        engine = self._engine
        self._recorder.idles(engine.usage(), engine.kv.num_saved_slots, self._queues)
        self._can_be_woken = True
        try:
            yield call
            self._can_be_woken = False
        except simpy.Interrupt:
            yield Late(self._env, self._latency.wake_ns, BEGINS)
