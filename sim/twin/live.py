"""One engine in real time: what `sim.replica` simulates, with a wall clock and no processes."""

import heapq
import time
from collections.abc import Callable
from typing import Protocol

from engine.engine import Engine
from engine.request import Request, RequestError, TokenOutput
from engine.step import Step
from sim.latency.timed_steps import TimedStep
from sim.recorder import Queues, Recorder
from workloads import Workload


class Clock(Protocol):
    """Nanoseconds since its start."""

    def now_ns(self) -> int:
        """The time."""

    def cpu_ns(self) -> int:
        """Time for which this thread had a CPU: less goes on in real time where others want it."""

    def wait_until(self, time_ns: int) -> None:
        """Return at that time, or at once if it is past."""


class WallClock:
    """Real time from now on."""

    def __init__(self) -> None:
        self._start_ns = time.perf_counter_ns()

    def now_ns(self) -> int:
        """See Clock."""
        return time.perf_counter_ns() - self._start_ns

    def cpu_ns(self) -> int:
        """See Clock."""
        return time.thread_time_ns()

    def wait_until(self, time_ns: int) -> None:
        """See Clock. A sleep ends late, and the steps after it are slower: it is spun through."""
        while self.now_ns() < time_ns:
            pass


class CpuClock:
    """Time for which this thread has a CPU: it stands still while others have it.

    On a shared machine it tells how long the work takes, whoever else is at work.
    """

    def __init__(self) -> None:
        self._start_ns = time.thread_time_ns()

    def now_ns(self) -> int:
        """See Clock."""
        return self.cpu_ns() - self._start_ns

    def cpu_ns(self) -> int:
        """See Clock."""
        return time.thread_time_ns()

    def wait_until(self, time_ns: int) -> None:
        """See Clock. The time passes in spinning alone."""
        while self.now_ns() < time_ns:
            pass


class Senders:
    """When the next request comes: by the clock, or from users after their answers.

    times_ns: when requests come, in order; of users, the first request of each.
    think_time_ns: of users; None where requests come by the clock.
    """

    def __init__(
        self, num_requests: int, times_ns: list[int], think_time_ns: int | None = None
    ) -> None:
        self._num_left = num_requests
        self._times_ns = times_ns  # in order, and so a heap
        self._think_time_ns = think_time_ns

    @property
    def next_ns(self) -> int | None:
        """When the next request comes; None: when there are no more, or not before an answer."""
        return self._times_ns[0] if self._num_left and self._times_ns else None

    def send(self) -> None:
        """The next request has come."""
        heapq.heappop(self._times_ns)
        self._num_left -= 1

    def answer(self, now_ns: int) -> None:
        """A request has been answered, or refused."""
        if self._think_time_ns is not None:
            heapq.heappush(self._times_ns, now_ns + self._think_time_ns)


def senders_of(workload: Workload) -> Senders:
    """Those of a workload."""
    if workload.arrival_ns is not None:
        return Senders(len(workload), workload.arrival_ns.tolist())
    assert workload.closed_loop
    users = workload.closed_loop
    return Senders(len(workload), [0] * users.concurrency, round(users.think_time_s * 1e9))


class LiveReplica:
    """Runs an engine's steps in real time and records them as `sim.replica.Replica` does.

    The loop has one thread, so a step is said to last from the end of the one before it, if the
    engine did not idle, and includes the recording and what came meanwhile. With asynchronous
    scheduling the steps are those of the simulation, but their parts do not overlap.

    timed_steps: the steps taken so far; cpu_ns: time for which they had a CPU.
    """

    def __init__(self, engine: Engine, recorder: Recorder, clock: Clock) -> None:
        self._engine = engine
        self._recorder = recorder
        self._clock = clock
        self._max_wait_ns = round(engine.config.max_wait_s * 1e9)
        self._now_ns = 0  # when the last step ended, or the last wait
        self._now_cpu_ns = clock.cpu_ns()
        self._has_idled = False  # since the last step
        self._in_flight: Step | None = None  # with asynchronous scheduling
        self.timed_steps: list[TimedStep] = []
        self.cpu_ns = 0

    @property
    def _queues(self) -> Queues:
        scheduler = self._engine.scheduler
        return len(scheduler.running), len(scheduler.waiting)

    def submit(self, request: Request, arrival_ns: int) -> bool:
        """Give the engine a request that came at arrival_ns; False when it refuses."""
        self._recorder.arrived(request.request_id, arrival_ns)
        try:
            self._engine.add_request(request)
        except RequestError as error:
            self._recorder.refused(request.request_id, str(error))
            return False
        return True

    def serve(self, senders: Senders, make_request: Callable[[int], Request]) -> None:
        """Serve all that is sent, to the end."""
        number = 0
        while True:
            while (at_ns := senders.next_ns) is not None and at_ns <= self._now_ns:
                senders.send()
                if not self.submit(make_request(number), at_ns):
                    senders.answer(self._now_ns)
                number += 1
            outputs = self.step()
            if outputs is None:
                if not self._wait(senders.next_ns):
                    return
                continue
            for request_id in dict.fromkeys(o.request_id for o in outputs if o.finished):
                if not self._engine.is_unfinished(request_id):
                    senders.answer(self._now_ns)

    def step(self) -> list[TokenOutput] | None:
        """Schedule a step and end the one that is due; None when there is nothing to do.

        No outputs: a first step is in flight, or those that could run were preempted.
        """
        queues = self._queues  # as the step in flight begins
        step = self._engine.schedule()
        self._recorder.scheduled(step, self._now_ns)
        scheduled = step if step.num_tokens else None
        if self._engine.config.async_scheduling:
            due, self._in_flight = self._in_flight, scheduled
        else:
            due, queues = scheduled, self._queues
        if due:
            return self._end(due, queues)
        return [] if scheduled or step.preempted else None

    def _end(self, step: Step, queues: Queues) -> list[TokenOutput]:
        """Compute a step, which begins now, and take its tokens."""
        engine, recorder, start_ns = self._engine, self._recorder, self._now_ns
        token_ids = engine.run(step)
        usage, saved_slots = engine.usage(), engine.kv.num_saved_slots
        outputs = engine.commit(step, token_ids)
        now_ns = self._now_ns = self._clock.now_ns()
        before_ns, self._now_cpu_ns = self._now_cpu_ns, self._clock.cpu_ns()
        self.cpu_ns += self._now_cpu_ns - before_ns
        recorder.ran(step, start_ns, now_ns, usage, saved_slots, queues)
        recorder.handed_out(outputs, now_ns)
        shape = (step.num_decodes, step.decode_context_tokens, step.prefills)
        self.timed_steps.append(TimedStep(*shape, self._has_idled, now_ns - start_ns))
        self._has_idled = False
        return outputs

    def _wait(self, next_ns: int | None) -> bool:
        """Idle until the next arrival, or until a batch has waited long enough for company.

        Returns False when nothing more will come.
        """
        waiting = self._engine.scheduler.waiting
        times_ns = [] if next_ns is None else [next_ns]
        if waiting:
            oldest_ns = self._recorder.arrival_ns(waiting[0].request.request_id)
            times_ns.append(oldest_ns + self._max_wait_ns)
            if times_ns[-1] <= self._now_ns:
                self._engine.close_batch()
                return True
        if not times_ns:
            return False
        engine = self._engine
        self._recorder.idles(engine.usage(), engine.kv.num_saved_slots, self._queues)
        self._clock.wait_until(min(times_ns))
        self.resume()
        self._has_idled = True
        return True

    def resume(self) -> None:
        """What has passed since the last step belongs to none."""
        self._now_ns, self._now_cpu_ns = self._clock.now_ns(), self._clock.cpu_ns()
