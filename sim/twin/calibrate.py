"""Times the toy engine's steps on this machine, in batches of every size that a scenario allows."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, cycle

from threadpoolctl import threadpool_limits

from engine.config import EngineConfig
from engine.engine import Engine
from sim.build import build_engine
from sim.errors import UserError
from sim.latency.timed_steps import TimedStep
from sim.progress import Tell, tell_nobody
from sim.recorder import Recorder
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.simulate import rare_garbage_collection, request_maker
from sim.sources import build_workload
from sim.twin.live import CpuClock, LiveReplica, Senders
from workloads import Workload

BUDGET_S = 10.0  # no round begins later
FEWEST_ROUNDS = 2
TOKENS_PER_USER = 150  # of output in an episode, and so about as many steps
_NUM_WAKES = 12  # requests that come to an idle engine, a round
_LONGEST_GAP_S = 0.1  # by then caches are as cold as they get
_EPISODE_S = 2.0  # for which requests come and go as they do in the scenario, a round
_FEWEST_REQUESTS = 2000  # to draw from
_SEED = 1 << 32  # far from those that scenarios have: other requests than theirs


def time_steps(
    scenario: Scenario, system: str, tell: Tell = tell_nobody, what: str = "calibrating"
) -> list[TimedStep]:
    """Steps of one system, each with its full cost in the live loop, and how long they took.

    Its engine serves closed loops of 1, 2, 4, ... users, each for a moment and in random order,
    again and again until BUDGET_S is over. The requests have the lengths of the scenario's, but
    are not the same. So the shapes are those that the scheduler makes: decodes with contexts of
    all lengths, prompts alone, several at once, in chunks and beside decodes. Where the engine can
    idle, requests come to an idle one too, for after a pause the caches are cold, and requests come
    at the scenario's rate, for in batches of changing size steps take longer. The time is that of
    the CPU, so that other processes at work meanwhile are not taken for costs of the engine.

    tell: told between the episodes how far `what` is.

    Raises UserError when none of the requests can be served, WorkloadError for a bad file.
    """
    with threadpool_limits(1), rare_garbage_collection():
        return _Calibration(scenario, system).run(partial(tell, what))


class _Calibration:
    """An engine at work on requests that are drawn at random."""

    def __init__(self, scenario: Scenario, system: str) -> None:
        scenario = _with_other_requests(scenario)
        self._workload = workload = build_workload(scenario)
        config = build_config(scenario, system)
        engine = build_engine(scenario, config, workload)
        assert isinstance(engine, Engine)
        self._clock = CpuClock()
        recorder = Recorder(
            len(workload), config.block_size, lambda _: None, num_outputs=workload.num_outputs
        )
        self._replica = LiveReplica(engine, recorder, self._clock)
        self._rng = random.Random(_SEED)
        numbers = self._rng.sample(range(len(workload)), len(workload))
        self._requests = map(request_maker(workload), cycle(numbers))
        self._levels = [*_levels(_most_users(config, workload))]
        self._mean_gap_s = _mean_gap_s(workload)

    def run(self, tell: Callable[[float], None]) -> list[TimedStep]:
        """See `time_steps`."""
        num_rounds = 0
        while num_rounds < FEWEST_ROUNDS or self._clock.now_ns() < BUDGET_S * 1e9:
            for num_users in self._rng.sample(self._levels, len(self._levels)):
                num_requests = _num_requests(num_users, self._workload)
                self._serve(Senders(num_requests, [0] * num_users, 0))
                now_s = self._clock.now_ns() / 1e9
                tell(now_s / max(now_s, BUDGET_S))
            if not self._replica.timed_steps:
                raise UserError("none of the requests can be served")
            for _ in range(_NUM_WAKES if self._mean_gap_s else 0):
                self._wake()
            if self._mean_gap_s:
                self._come_and_go()
            num_rounds += 1
        return self._replica.timed_steps

    def _wake(self) -> None:
        """A request that comes a while after the last one has been served."""
        gap_s = min(self._rng.expovariate(1 / self._mean_gap_s), _LONGEST_GAP_S)
        self._serve(Senders(1, [self._clock.now_ns() + round(gap_s * 1e9)]))

    def _come_and_go(self) -> None:
        """Requests at the scenario's rate: as many batches of changing size as it makes."""
        now_ns, num_requests = self._clock.now_ns(), round(_EPISODE_S / self._mean_gap_s)
        gaps_s = [self._rng.expovariate(1 / self._mean_gap_s) for _ in range(num_requests)]
        self._serve(Senders(num_requests, [now_ns + round(s * 1e9) for s in accumulate(gaps_s)]))

    def _serve(self, senders: Senders) -> None:
        self._replica.resume()
        self._replica.serve(senders, lambda _: next(self._requests))


def _with_other_requests(scenario: Scenario) -> Scenario:
    workload = scenario.workload
    if workload.trace is None:
        num_requests = max(workload.requests or 0, _FEWEST_REQUESTS)
        workload = workload.model_copy(update={"requests": num_requests})
    changed = {"seed": _SEED, "workload": workload, "runner": "toy-lm"}
    return scenario.model_copy(update=changed)


def _most_users(config: EngineConfig, workload: Workload) -> int:
    """The largest batch there may be."""
    most = config.batch_size if config.batching == "static" else config.max_num_seqs
    if workload.closed_loop:
        most = min(most, workload.closed_loop.concurrency)
    return min(most, config.max_num_seqs, len(workload))


def _mean_gap_s(workload: Workload) -> float:
    """How far requests are apart, about; 0 where the engine never idles."""
    if workload.closed_loop:
        return workload.closed_loop.think_time_s / workload.closed_loop.concurrency
    assert workload.arrival_ns is not None
    return float(workload.arrival_ns[-1]) / len(workload) / 1e9


def _levels(most: int) -> Iterator[int]:
    """1, 2, 4, ... up to `most`, itself included."""
    level = 1
    while level < most:
        yield level
        level *= 2
    yield most


def _num_requests(num_users: int, workload: Workload) -> int:
    """So many that each user gets about TOKENS_PER_USER tokens."""
    per_user = max(round(TOKENS_PER_USER / float(workload.output_tokens.mean())), 1)
    return min(num_users * per_user, len(workload))
