"""Many decode steps at once against every step by itself: the same records, to the nanosecond."""

import random
from typing import Any

import pytest

from engine import ReplayEngine
from engine.eviction import EVICTION
from sim import recorder, step_table
from sim.attribution import DECODE_PARTS, TTFT_PARTS
from sim.records import Records
from sim.scenario import Scenario
from sim.simulate import simulate
from workloads import ClosedLoop

MS = 1_000_000
COUNTS = (
    *("preemptions", "recomputed_tokens", "restored_tokens"),
    *("cached_tokens", "evicted_tokens"),
    *TTFT_PARTS,
    *DECODE_PARTS,
)

# Constant steps are a divisor or a multiple of many a gap between arrivals: times coincide.
LATENCIES: list[dict[str, Any]] = [
    {"kind": "constant", "step_time_s": 0.01},
    {"kind": "constant", "step_time_s": 0.1},
    {
        "kind": "linear",
        "step_s": 0.01,
        "per_decode_s": 1e-3,
        "per_context_token_s": 1e-5,
        "per_prefill_token_s": 1e-4,
    },
    {"kind": "roofline"},
]
SYSTEMS: list[dict[str, Any]] = [
    {},
    {"batching": "static"},
    {"policy": "priority"},
    {"async_scheduling": True},
    {"async_scheduling": True, "policy": "priority"},
    {"batching": "static", "padding": "batch"},
    {
        "batching": "static",
        "padding": "limit",
        "memory": "contiguous",
        "reservation": "limit",
        "enable_prefix_caching": False,
    },
    {"memory": "contiguous", "reservation": "pow2", "enable_prefix_caching": False},
    {"memory": "contiguous", "reservation": "exact", "enable_prefix_caching": False},
    {"reservation": "exact"},
    {"preemption": "swap", "num_cpu_blocks": 30, "enable_prefix_caching": False},
    {
        "mixed_batches": False,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 300,
    },
    {"kv_role": "kv_producer"},
    {"kv_role": "kv_consumer", "enable_prefix_caching": False},
    {
        "mixed_batches": False,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 300,
        "reservation": "limit",
        "max_batch_total_tokens": 300,
        "waiting_served_ratio": 0.9,
        "max_waiting_tokens": 7,
    },
    {
        "policy": "lpm",
        "enable_prefix_caching": True,
        "mixed_batches": False,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 300,
    },
    {"policy": "lpm", "enable_prefix_caching": True},
]


def random_lengths(rng: random.Random, most: int) -> dict[str, Any]:
    return rng.choice(
        [
            {"fixed": rng.randint(1, most)},
            {"uniform": {"low": 1, "high": most}},
            {"lognormal": {"mean": most / 2, "sigma": 0.8, "max": most}},
        ]
    )


def random_arrivals(rng: random.Random) -> dict[str, Any]:
    """Most of them fall on ends of steps, several at once, or while others still think."""
    closed_loop = {"concurrency": rng.randint(1, 30), "think_time_s": rng.choice([0.0, 0.05, 0.1])}
    return rng.choice(
        [
            {"constant": {"rate": rng.choice([5, 10, 20, 50, 100])}},
            {"poisson": {"rate": rng.choice([2, 20, 200])}},
            {"gamma": {"rate": 30, "cv": 3.0}},
            {"closed_loop": closed_loop},
        ]
    )


def random_engine(rng: random.Random) -> dict[str, Any]:
    """Pools from less than two sequences to more than all of them."""
    block_size = rng.choice([1, 2, 3, 8, 16])
    max_model_len = rng.randint(30, 120)
    num_slots = rng.choice([rng.randint(max_model_len, 3 * max_model_len), 20 * max_model_len])
    chunked = rng.random() < 0.7
    budget = rng.choice([rng.randint(3, 40), 300])
    return {
        "block_size": block_size,
        "num_blocks": max(2, num_slots // block_size),
        "max_model_len": max_model_len,
        "max_num_seqs": rng.choice([2, 5, 40]),
        "batch_size": rng.randint(1, 8),
        "max_wait_s": rng.choice([0.0, 0.05]),
        "max_num_batched_tokens": budget + (0 if chunked else max_model_len),
        "enable_chunked_prefill": chunked,
        "enable_prefix_caching": rng.random() < 0.5,
        "long_prefill_token_threshold": rng.choice([0, 0, rng.randint(1, 8)]),
        "watermark": rng.choice([0.0, 0.1]),
        "reserve_full_isl": rng.random() < 0.6,
        "eviction": rng.choice(EVICTION),
    }


def random_scenario(seed: int) -> Scenario:
    """Every way to schedule under every latency model in turn; all else is drawn."""
    rng = random.Random(seed)
    prompts: dict[str, Any] = {"unique": random_lengths(rng, 40)}
    if rng.random() < 0.6:
        prompts["shared"] = {"groups": rng.randint(1, 4), "tokens": random_lengths(rng, 40)}
    workload: dict[str, Any] = {
        "requests": rng.randint(5, 80),
        "arrivals": random_arrivals(rng),
        "prompts": prompts,
        "outputs": random_lengths(rng, 60),
    }
    if rng.random() < 0.3:
        turns = {"uniform": {"low": 1, "high": 4}}
        workload["sessions"] = {"turns": turns, "think_time_s": rng.choice([0.0, 0.05, 0.1])}
    if rng.random() < 0.5:
        workload["max_new_tokens"] = rng.randint(5, 60)
    # More than one output is refused in sessions, where batches are static or go by priority or
    # prefix, with TGI, and where blocks are reserved; beams where steps are asynchronous.
    system = SYSTEMS[seed % len(SYSTEMS)]
    has_one = {"batching", "policy", "max_batch_total_tokens", "sessions"}
    has_one |= {"reservation"} if system.get("memory") != "contiguous" else set()
    if not has_one & {*system, *workload}:
        workload["n"] = rng.choice([1, 1, 2, 4])
        if workload["n"] > 1 and "async_scheduling" not in system and rng.random() < 0.5:
            workload["beam_search"] = {"switch": rng.choice([0.3, 1.0])}
    scenario = {
        "name": "random",
        "seed": seed,
        "latency": LATENCIES[seed // len(SYSTEMS) % len(LATENCIES)],
        "engine": random_engine(rng) | system,
        "workload": workload,
    }
    return Scenario.parse(scenario)


@pytest.mark.parametrize("seed", range(120))
def test_records_are_those_of_every_step_by_itself(assert_equal_records, seed):
    scenario = random_scenario(seed)
    stepwise = simulate(scenario, "default", stepwise=True)
    records = simulate(scenario, "default")
    assert_equal_records(records, stepwise)
    assert_parts_add_up(records)


def assert_parts_add_up(records: Records) -> None:
    """To the nanosecond, and none of them is negative.

    What is left of TTFT is no more than the steps in flight: two, where steps are asynchronous.
    """
    requests = records.requests.dropna(subset="finished_ns")
    times_ns = {
        TTFT_PARTS: requests["first_token_ns"] - requests["arrival_ns"],
        DECODE_PARTS: requests["finished_ns"] - requests["first_token_ns"],
    }
    for parts, time_ns in times_ns.items():
        assert (requests[list(parts)].sum(axis=1) == time_ns).all()
        assert (requests[list(parts)] >= 0).all(axis=None)
    if not records.requests["preemptions"].any():
        longest_ns = records.steps.loc[records.steps["steps"] > 0, "duration_ns"].max()
        assert (requests["ttft_step_ns"] <= 2 * longest_ns).all()


@pytest.mark.parametrize("seed", range(20))
def test_records_of_a_long_run_are_those_of_every_step_by_itself(
    assert_equal_records, monkeypatch, seed
):
    """As in runs of so many steps that a row stands for several: here of more than 64."""
    monkeypatch.setattr(step_table, "MOST_ROWS", 64)
    monkeypatch.setattr(step_table, "_CHUNK", 64)
    scenario = random_scenario(seed)
    stepwise = simulate(scenario, "default", stepwise=True)
    monkeypatch.setattr(recorder, "_MOST_WAITING", 5)
    records = simulate(scenario, "default")
    assert_equal_records(records, stepwise)
    assert len(records.steps) <= 64 + 64
    assert sum(records.slot_ns) == pytest.approx(
        scenario.engine.num_slots * records.steps["duration_ns"].sum(), rel=1e-12
    )


def test_random_scenarios_come_to_everything():
    """Else the comparison would say nothing."""
    seen: set[str] = set()
    for seed in range(0, 120, 2):
        requests = simulate(random_scenario(seed), "default").requests
        seen |= set(requests["finish_reason"])
        seen |= {name for name in COUNTS if requests[name].any()}
    assert seen == {"stop", "length", "refused", *COUNTS}


# --- by hand: a step takes 10 ms, the first request has 100 tokens of output ---


def stamps(records: Records) -> list[tuple[float, ...]]:
    """(arrived, admitted, first token, last token) of each request, in ms."""
    columns = ["arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"]
    return [
        tuple(time / MS for time in row)
        for row in records.requests[columns].itertuples(index=False)
    ]


@pytest.fixture
def serve_long(serve):
    """Serves a workload of longer sequences than `serve` has room for."""
    return lambda workload, **settings: serve(workload, max_model_len=128, **settings)


@pytest.fixture
def taken(monkeypatch) -> list[int]:
    """How many steps were taken at once, each time."""
    numbers: list[int] = []
    advance = ReplayEngine.advance

    def logged(engine: ReplayEngine, num_steps: int) -> object:
        numbers.append(num_steps)
        return advance(engine, num_steps)

    monkeypatch.setattr(ReplayEngine, "advance", logged)
    return numbers


def test_request_alone_is_slept_through(new_workload, serve_long, taken):
    """Its prompt from 0 to 10, then 99 steps."""
    records = serve_long(new_workload((4, 100), arrival_ms=[0]))
    assert stamps(records) == [(0, 0, 10, 1000)]
    assert taken == [99]


def test_arrival_in_mid_sleep_waits_for_the_end_of_the_step_in_flight(
    new_workload, serve_long, taken
):
    """It comes at 155: its prompt runs from 160 to 170, its second token ends it at 180."""
    records = serve_long(new_workload((4, 100), (4, 2), arrival_ms=[0, 155]))
    assert stamps(records) == [(0, 0, 10, 1000), (155, 160, 170, 180)]
    assert taken == [15, 1, 82]


def test_arrival_at_the_end_of_a_step_takes_part_in_the_next(new_workload, serve_long, taken):
    records = serve_long(new_workload((4, 100), (4, 2), arrival_ms=[0, 150]))
    assert stamps(records) == [(0, 0, 10, 1000), (150, 150, 160, 170)]
    assert taken == [14, 1, 83]


def test_arrival_as_the_sleep_begins_takes_part_in_the_next_step(new_workload, serve_long, taken):
    records = serve_long(new_workload((4, 100), (4, 2), arrival_ms=[0, 10]))
    assert stamps(records) == [(0, 0, 10, 1000), (10, 10, 20, 30)]
    assert taken == [1, 97]


def test_arrival_at_the_end_of_the_sleep_takes_part_in_the_next_step(
    new_workload, serve_long, taken
):
    records = serve_long(new_workload((4, 100), (4, 2), arrival_ms=[0, 1000]))
    assert stamps(records) == [(0, 0, 10, 1000), (1000, 1000, 1010, 1020)]
    assert taken == [99, 1]


def test_two_arrivals_at_one_instant(new_workload, serve_long, taken):
    """Both prompts from 160 to 170; the second request has a token more than the third."""
    records = serve_long(new_workload((4, 100), (4, 3), (4, 2), arrival_ms=[0, 155, 155]))
    assert stamps(records) == [(0, 0, 10, 1000), (155, 160, 170, 190), (155, 160, 170, 180)]
    assert taken == [15, 1, 1, 81]


def test_two_arrivals_in_one_step(new_workload, serve_long, taken):
    """The second while the sleeper waits, woken, for the end of the step; or at this very end."""
    for other_ms in (158, 160):
        taken.clear()
        workload = new_workload((4, 100), (4, 3), (4, 2), arrival_ms=[0, 152, other_ms])
        records = serve_long(workload)
        assert stamps(records)[1:] == [(152, 160, 170, 190), (other_ms, 160, 170, 180)]
        assert taken == [15, 1, 1, 81]


def test_refused_request_changes_nothing(new_workload, serve_long, taken):
    """The sleep ends with the step in flight, as at any event, and goes on."""
    records = serve_long(new_workload((4, 100), (200, 1), arrival_ms=[0, 155]))
    assert stamps(records)[0] == (0, 0, 10, 1000)
    assert taken == [15, 84]


def test_request_without_a_place_waits_while_the_others_go_on(new_workload, serve_long, taken):
    """It comes at 155; the step from 160 to 170 finds no place, and then none is looked for."""
    records = serve_long(new_workload((4, 100), (4, 2), arrival_ms=[0, 155]), max_num_seqs=1)
    assert stamps(records) == [(0, 0, 10, 1000), (155, 1000, 1010, 1020)]
    assert taken == [15, 83, 1]


def test_batch_goes_on_when_a_request_comes_to_wait_for_the_next(new_workload, serve_long, taken):
    records = serve_long(
        new_workload((4, 100), (4, 2), arrival_ms=[0, 155]),
        batching="static",
        max_wait_s=0.0,
    )
    assert stamps(records) == [(0, 0, 10, 1000), (155, 1000, 1010, 1020)]
    assert taken == [15, 84, 1]


def test_sleep_ends_before_the_pool_is_short(new_workload, serve_long, taken):
    """Two of 4 prompt tokens in 5 blocks of 4: each begins a block at 10, one at 50, none at 90.

    The second, in 2 blocks when the first begins its third at 50, is preempted then. The first
    has its 13 tokens at 130; the second then computes its 4 + 5 again, and yields its sixth.
    """
    workload = new_workload((4, 13), (4, 13), arrival_ms=[0, 0])
    records = serve_long(workload, num_blocks=5)
    assert stamps(records) == [(0, 0, 10, 130), (0, 0, 10, 210)]
    assert records.requests["preemptions"].tolist() == [0, 1]
    assert taken[0] == 4


def test_sleep_ends_when_prompts_that_wait_are_due(new_workload, serve_long, taken):
    """As with TGI: the second comes at 155, for the first has run long. The third comes at 195, one
    of the two that it would take; it runs ten tokens after the second's prompt, at 260."""
    records = serve_long(
        new_workload((4, 100), (4, 50), (4, 2), arrival_ms=[0, 155, 195]),
        mixed_batches=False,
        enable_chunked_prefill=False,
        memory="contiguous",
        reservation="limit",
        max_batch_total_tokens=256,
        max_waiting_tokens=10,
    )
    assert stamps(records)[1:] == [(155, 160, 170, 670), (195, 260, 270, 280)]
    assert taken[:3] == [15, 2, 6]


def test_user_sends_the_next_request_at_the_end_of_a_sleep(new_workload, serve_long, taken):
    workload = new_workload((4, 50), (4, 2), (4, 3), closed_loop=ClosedLoop(1, 0.0))
    records = serve_long(workload)
    assert stamps(records) == [(0, 0, 10, 500), (500, 500, 510, 520), (520, 520, 530, 550)]
    assert taken == [49, 1, 2]


def test_asynchronous_steps_are_taken_at_once_too(new_workload, serve_long, taken):
    """All but that of the prompt, and the last, with which none is scheduled any more."""
    records = serve_long(new_workload((4, 100), arrival_ms=[0]), async_scheduling=True)
    assert stamps(records) == [(0, 0, 10, 1000)]
    assert taken == [98]


def test_rows_of_a_sleep_are_those_of_its_steps(new_workload, serve_long):
    """Blocks of 4: after a prompt of 3 the next token begins none, the second one does."""
    records = serve_long(new_workload((3, 7), arrival_ms=[0]))
    steps = records.steps
    assert steps["start_ns"].tolist() == [i * 10 * MS for i in range(7)]
    assert steps["decodes"].tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert steps["live"].tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert steps["tail"].tolist() == [1, 0, 3, 2, 1, 0, 3]
    assert records.itl_ns[0].tolist() == [10 * MS]
    assert records.itl_ns[1].tolist() == [6]
