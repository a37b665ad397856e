"""The live loop under a clock that runs while a step is computed, against the simulation."""

import time

import pytest

from engine import Engine, EngineConfig, ReplayRunner
from sim.latency.linear import LinearLatency
from sim.recorder import Recorder
from sim.simulate import request_maker
from sim.twin.live import CpuClock, LiveReplica, WallClock, senders_of
from workloads import ClosedLoop

LATENCY = LinearLatency(
    step_s=0.01, per_decode_s=0.001, per_prefill_token_s=0.0005, per_context_token_s=1e-5
)


class FakeClock:
    """Stands still but for waits and for the steps that are computed."""

    def __init__(self):
        self.time_ns = 0

    def now_ns(self):
        return self.time_ns

    def cpu_ns(self):
        return self.time_ns // 2

    def wait_until(self, time_ns):
        self.time_ns = max(self.time_ns, time_ns)


class SlowRunner(ReplayRunner):
    """Takes as long for a step as the latency model says."""

    def __init__(self, workload, clock):
        super().__init__({i: workload.answer(i) for i in range(len(workload))})
        self._clock = clock

    def run(self, step):
        self._clock.time_ns += LATENCY.step_time_ns(step)
        return super().run(step)


def live(workload, **settings):
    config = EngineConfig(**({"block_size": 4, "num_blocks": 64, "max_model_len": 64} | settings))
    clock = FakeClock()
    engine = Engine(config, SlowRunner(workload, clock), with_text=False)
    recorder = Recorder(len(workload), config.block_size, lambda _: None, num_outputs=1)
    replica = LiveReplica(engine, recorder, clock)
    replica.serve(senders_of(workload), request_maker(workload))
    engine.check()
    return recorder.records(workload.prompt_tokens, workload.notes), replica


LENGTHS = [(9, 5), (30, 12), (4, 1), (17, 8), (9, 9), (3, 20), (25, 2), (8, 8)]

OPEN = {"arrival_ms": [1, 3, 40, 41, 41, 300, 2000, 2004]}
WORKLOADS = {
    "open loop": OPEN,
    "closed loop": {"closed_loop": ClosedLoop(3, 0.0)},
    "closed loop that thinks": {"closed_loop": ClosedLoop(2, 0.07)},
    "more users than requests": {"closed_loop": ClosedLoop(20, 0.0)},
}
SETTINGS = {
    "continuous": {},
    "asynchronous": {"async_scheduling": True},
    "static": {"batching": "static", "batch_size": 2, "max_wait_s": 0.05},
    "preempting": {"num_blocks": 14},
    "refusing": {"num_blocks": 8},
    "small steps": {"max_num_batched_tokens": 8, "enable_prefix_caching": True},
}


@pytest.mark.parametrize("arrivals", WORKLOADS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_live_loop_records_what_the_simulation_does(
    new_workload, serve, assert_equal_records, arrivals, settings
):
    """Every fact: each moment of each request and step, the ledger, the queues."""
    workload = new_workload(*LENGTHS, **WORKLOADS[arrivals], content_ids=[0, 1, 2, 1, 0, 3, 1, 4])
    records, _ = live(workload, **SETTINGS[settings])
    expected = serve(workload, latency=LATENCY, **SETTINGS[settings])
    assert_equal_records(records, expected)


def test_timed_steps_are_the_steps(new_workload):
    """Prompts of 6 and 3 tokens: prefill each, decode the longer alone, in between idle."""
    workload = new_workload((6, 3), (3, 1), arrival_ms=[5, 10_000])
    _, replica = live(workload)
    assert replica.timed_steps == [
        (0, 0, [(6, 0)], True, 13_000_000),
        (1, 7, [], False, 11_070_000),
        (1, 8, [], False, 11_080_000),
        (0, 0, [(3, 0)], True, 11_500_000),
    ]


def test_cpu_time_is_that_of_the_steps(new_workload):
    """Half of the 46.65 ms that the steps take, and nothing of the idle time."""
    workload = new_workload((6, 3), (3, 1), arrival_ms=[5, 10_000])
    _, replica = live(workload)
    assert replica.cpu_ns == 23_325_000


@pytest.mark.parametrize("new_clock", [WallClock, CpuClock])
def test_clock_is_never_early(new_clock):
    clock = new_clock()
    for wait_ns in (0, 10_000, 4_000_000):
        time_ns = clock.now_ns() + wait_ns
        clock.wait_until(time_ns)
        assert clock.now_ns() >= time_ns


def test_cpu_clock_stands_still_while_the_thread_sleeps():
    clock = CpuClock()
    time.sleep(0.2)
    assert clock.now_ns() < 100_000_000
