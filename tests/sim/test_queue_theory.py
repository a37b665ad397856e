"""Simulated queues against queueing theory: one request at a time is a single-server queue.

Requests come as a Poisson process at `LOAD` times the rate that can be served. A token takes a
step of 10 ms, so an output of n tokens is a service of 10 n ms (the step of the prompt yields the
first). Theory gives long-run means, so the first requests of each replication are left out.
"""

import numpy as np
import pytest
from scipy.stats import t as student

from workloads import Workload

STEP_NS = 10_000_000
LOAD = 0.6
WARM_UP = 300
SEEDS = range(10)


def poisson_workload(seed: int, output_tokens: np.ndarray, mean_output: float) -> Workload:
    """Requests of 1 prompt token each, drawn without the package's own generators."""
    num_requests = len(output_tokens)
    rng = np.random.default_rng([seed, 1])
    gaps_ns = rng.exponential(mean_output * STEP_NS / LOAD, num_requests)
    numbers = np.arange(num_requests, dtype=np.int64)
    ones = np.ones(num_requests, dtype=np.int64)
    return Workload(
        arrival_ns=np.cumsum(gaps_ns).astype(np.int64),
        closed_loop=None,
        prompt_tokens=ones,
        output_tokens=output_tokens,
        max_new_tokens=output_tokens,
        segment_offsets=np.arange(num_requests + 1, dtype=np.int64),
        segment_ids=numbers,
        segment_tokens=ones,
        answer_ids=num_requests + numbers,
    )


def fixed_outputs(seed: int) -> np.ndarray:
    return np.full(2_000, 1, dtype=np.int64)


def geometric_outputs(seed: int) -> np.ndarray:
    """Mean 4, at least 1: the discrete exponential."""
    return np.random.default_rng([seed, 2]).geometric(0.25, 1_500).astype(np.int64)


# Pollaczek (1930) and Khinchine (1932): the mean wait of M/G/1 is load x E[S^2] / (2 (1 - load)
# E[S]). Service in steps: fixed, S = 1; geometric with p = 1/4, E[S] = 4, E[S^2] = (2 - p) / p^2.
QUEUES = {
    "M/D/1": (fixed_outputs, 1, LOAD / (2 * (1 - LOAD))),
    "M/G/1 geometric": (geometric_outputs, 4, LOAD * 28 / (2 * (1 - LOAD) * 4)),
}


@pytest.fixture(scope="module", params=QUEUES)
def queue(request, serve):
    """Name, workloads and what became of them, one of each a seed."""
    outputs, mean_output, _ = QUEUES[request.param]
    workloads = [poisson_workload(seed, outputs(seed), mean_output) for seed in SEEDS]
    settings = {"max_num_seqs": 1, "max_model_len": 512, "num_blocks": 128}
    return request.param, workloads, [serve(workload, **settings) for workload in workloads]


def waits_ns(records) -> np.ndarray:
    requests = records.requests
    return (requests["admitted_ns"] - requests["arrival_ns"]).to_numpy(np.int64)


def test_every_wait_is_that_of_lindleys_recursion(queue):
    """W' = max(0, W + S - gap), Lindley (1952): to the nanosecond, request by request."""
    _, workloads, all_records = queue
    for workload, records in zip(workloads, all_records, strict=True):
        waits = [0]
        services = workload.output_tokens * STEP_NS
        gaps = np.diff(workload.arrival_ns)
        for service, gap in zip(services.tolist(), gaps.tolist(), strict=False):
            waits.append(max(0, waits[-1] + service - gap))
        assert waits_ns(records).tolist() == waits


def test_mean_wait_is_the_closed_form(queue):
    """Within the 99.9 % interval of ten independent replications (Student's t, 9 degrees)."""
    name, _, all_records = queue
    theory = QUEUES[name][2] * STEP_NS
    means = np.array([waits_ns(records)[WARM_UP:].mean() for records in all_records])
    half_width = student.ppf(0.9995, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5
    assert half_width < 0.25 * theory, "too wide to say anything"
    assert abs(means.mean() - theory) < half_width


def test_share_of_busy_time_is_the_load(queue):
    """Within 5 %: there are steps for as long as work comes in, and no others."""
    _, _, all_records = queue
    busy_ns = sum(
        row.duration_ns
        for records in all_records
        for row in records.steps.itertuples()
        if row.decodes + row.prefill_tokens
    )
    span_ns = sum(int(records.requests["finished_ns"].max()) for records in all_records)
    assert busy_ns / span_ns == pytest.approx(LOAD, rel=0.05)


def test_with_room_for_all_nobody_waits_longer_than_a_step(serve):
    """And a service then takes as many steps as it has tokens, whoever else is there."""
    workload = poisson_workload(0, geometric_outputs(0), 0.1)  # 40 times what one could serve
    records = serve(
        workload,
        max_num_seqs=2_000,
        max_num_batched_tokens=4_000,
        num_blocks=20_000,
        max_model_len=512,
    )
    assert records.steps["running"].max() > 10
    assert (waits_ns(records) < STEP_NS).all()
    requests = records.requests
    services = (requests["finished_ns"] - requests["admitted_ns"]).to_numpy(np.int64)
    assert (services == workload.output_tokens * STEP_NS).all()
