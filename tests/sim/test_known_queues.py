"""Replicated sweeps of queues whose mean wait is known: M/M/1, M/M/4 and M/D/1.

Steps of 10 ms whatever runs: an output of n tokens is a service of 10 n ms, and as many are served
at once as there are places.
"""

import math

import pytest

from sim.api import sweep
from sim.metrics import half_width

SEEDS = 10
SERVICE_S = 1.0


def erlang_c_wait(rate: float, servers: int) -> float:
    """Erlang (1917): the mean wait of M/M/c with services of mean 1 s."""
    head = sum(rate**k / math.factorial(k) for k in range(servers))
    tail = rate**servers / math.factorial(servers) * servers / (servers - rate)
    return tail / (head + tail) / (servers - rate)


EXPONENTIAL = {"exponential": {"mean": 100, "max": 10_000}}
QUEUES = {  # places, outputs, rate, mean wait in s
    "M/M/1": (1, EXPONENTIAL, 0.6, erlang_c_wait(0.6, 1)),
    "M/M/4": (4, EXPONENTIAL, 2.8, erlang_c_wait(2.8, 4)),
    "M/D/1": (1, 100, 0.6, 0.6 / (2 * (1 - 0.6))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUEUES)
def test_mean_wait_is_that_of_theory(name, new_scenario):
    """Within the 99 % interval of ten runs, warm-up left out, and that within 15 % of the mean.

    A token more or less makes 0.5 % of a service: outputs are whole tokens, at least one.
    """
    places, outputs, rate, wait_s = QUEUES[name]
    scenario = new_scenario(
        seed=5,
        engine={"max_num_seqs": places, "num_blocks": 4000, "max_model_len": 20_000},
        latency={"kind": "constant", "step_time_s": 0.01},
        workload={
            "requests": 8000,
            "arrivals": {"poisson": {"rate": rate}},
            "prompts": {"unique": 1},
            "outputs": outputs,
        },
    )
    waits = sweep(scenario, {}, seeds=SEEDS)["queueing_mean_s"].to_numpy()
    width = half_width(waits, 0.99)
    assert abs(waits.mean() - wait_s) <= width + 0.01 * wait_s
    assert width < 0.15 * wait_s
