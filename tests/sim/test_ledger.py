"""What must hold in every run, whatever the settings: the ledger adds up and nobody is lost."""

import random

import numpy as np
import pandas as pd
import pytest

from engine.kv_manager import KVUsage
from sim.ledger import LedgerIntegral, UsageArrays, decoded_on
from sim.records import Records
from sim.scenario.deployed import build_config
from sim.simulate import simulate

COUNTS = (
    *("preemptions", "cached_tokens", "partial_tokens", "unseen_tokens", "evicted_tokens"),
    *("recomputed_tokens", "restored_tokens"),
)

SYSTEMS = {
    "static": {"batching": "static"},
    "continuous": {"batching": "continuous"},
    "sharing": {"batching": "continuous", "enable_prefix_caching": True},
    "static sharing": {"batching": "static", "enable_prefix_caching": True},
    "asynchronous": {"async_scheduling": True},
    "asynchronous sharing": {"async_scheduling": True, "enable_prefix_caching": True},
}
CASES = [
    (system, loop, seed) for system in SYSTEMS for loop in ("open", "closed") for seed in (0, 1, 3)
]


def random_settings(loop: str, seed: int) -> dict:
    """A scenario that is short of memory and refuses some requests."""
    rng = random.Random(f"{loop} {seed}")
    block_size = rng.choice([1, 3, 16])
    open_loops = [
        {"constant": {"rate": 40}},
        {"poisson": {"rate": rng.choice([5, 100])}},
        {"gamma": {"rate": 40, "cv": 3.0}},
    ]
    closed_loop = {"concurrency": rng.randint(2, 12), "think_time_s": rng.choice([0.0, 0.02])}
    return {
        "seed": seed,
        "latency": {
            "kind": "linear",
            "step_s": 0.004,
            "per_decode_s": 1e-4,
            "per_context_token_s": 1.234e-6,
            "per_prefill_token_s": 1e-5,
        },
        "engine": {
            "block_size": block_size,
            "num_blocks": 360 // block_size,
            "max_num_seqs": rng.choice([4, 64]),
            "max_num_batched_tokens": rng.choice([16, 128]),
            "max_model_len": 400,
            "batch_size": rng.choice([3, 8]),
            "max_wait_s": 0.03,
        },
        "workload": {
            "requests": 60,
            "max_new_tokens": 60,
            "arrivals": rng.choice(open_loops) if loop == "open" else {"closed_loop": closed_loop},
            "prompts": {
                "shared": {"groups": 2, "tokens": 24},
                "unique": {"lognormal": {"mean": 40, "sigma": 1.5, "max": 500}},
            },
            "outputs": {"lognormal": {"mean": 20, "sigma": 1.0, "max": 90}},
        },
        "systems": SYSTEMS,
    }


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def run(request, new_scenario):
    """The settings of the engine and what it did."""
    system, loop, seed = request.param
    scenario = new_scenario(**random_settings(loop, seed))
    return build_config(scenario, system), simulate(scenario, system)


@pytest.fixture
def records(run) -> Records:
    return run[1]


def finished(records: Records) -> pd.DataFrame:
    return records.requests.dropna(subset="finished_ns").astype({"finished_ns": "int64"})


def test_integral_is_the_sum_over_the_rows_of_steps(records):
    """Exactly, in slots x nanoseconds, for each class."""
    durations = records.steps["duration_ns"].tolist()
    for name, slot_ns in records.slot_ns._asdict().items():
        slots = records.steps[name].tolist()
        assert slot_ns == sum(n * ns for n, ns in zip(slots, durations, strict=True)), name


def test_integral_of_what_sharing_saves_is_the_sum_over_the_rows_of_steps(run):
    config, records = run
    saved, durations = records.steps["saved"].tolist(), records.steps["duration_ns"].tolist()
    assert records.saved_slot_ns == sum(n * ns for n, ns in zip(saved, durations, strict=True))
    assert (records.saved_slot_ns > 0) == config.enable_prefix_caching


def test_integrals_add_up_to_the_pool_times_the_time(run):
    config, records = run
    assert sum(records.slot_ns) == config.num_slots * sum(records.steps["duration_ns"].tolist())


def test_every_row_accounts_for_the_whole_pool(run):
    config, records = run
    slots = records.steps[list(KVUsage._fields)]
    assert (slots.sum(axis=1) == config.num_slots).all()
    assert (slots >= 0).all(axis=None)


def test_rows_cover_time_without_gap_or_overlap(records):
    starts, durations = records.steps["start_ns"].tolist(), records.steps["duration_ns"].tolist()
    assert starts[0] == 0
    assert min(durations) > 0
    ends = [start + duration for start, duration in zip(starts, durations, strict=True)]
    assert starts[1:] == ends[:-1]


def test_rows_end_with_the_last_token(run):
    """Or with the step after it, which asynchronous scheduling has begun in vain."""
    config, records = run
    span_ns = finished(records)["finished_ns"].max()
    last = records.steps.iloc[-1]
    in_vain_ns = last["start_ns"] + last["duration_ns"] - span_ns
    assert in_vain_ns in ((0, last["duration_ns"]) if config.async_scheduling else (0,))


def test_every_request_has_finished_or_been_refused(records):
    requests = records.requests
    is_refused = requests["finish_reason"] == "refused"
    assert requests["finish_reason"].isin(["stop", "length", "refused"]).all()
    assert (requests["finished_ns"].isna() == is_refused).all()
    assert requests["arrival_ns"].notna().all()


def test_refused_requests_are_those_that_can_never_fit(run):
    """The prompt leaves no room within the model, or prompt and output exceed the pool."""
    config, records = run
    requests = records.requests
    longest = (requests["prompt_tokens"] + 60).clip(upper=config.max_model_len)
    is_too_long = requests["prompt_tokens"] >= config.max_model_len
    is_too_long |= longest - 1 > config.num_slots
    assert ((requests["finish_reason"] == "refused") == is_too_long).all()


def test_stamps_of_a_request_follow_each_other(records):
    """Nothing is admitted before it comes, and no token is there before it is computed."""
    stamps = finished(records)[["arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"]]
    assert (stamps["arrival_ns"] >= 0).all()
    assert (stamps["arrival_ns"] <= stamps["admitted_ns"]).all()
    assert (stamps["admitted_ns"] < stamps["first_token_ns"]).all()
    assert (stamps["first_token_ns"] <= stamps["finished_ns"]).all()


def test_requests_are_admitted_in_the_order_of_arrival(records):
    admitted = finished(records).sort_values(["arrival_ns", "admitted_ns"], kind="stable")
    assert admitted["admitted_ns"].is_monotonic_increasing


def test_stamps_are_ends_and_starts_of_steps(records):
    starts = set(records.steps["start_ns"])
    ends = starts | {records.steps["start_ns"].iloc[-1] + records.steps["duration_ns"].iloc[-1]}
    assert set(finished(records)["admitted_ns"]) <= starts
    assert set(finished(records)["first_token_ns"]) <= ends
    assert set(finished(records)["finished_ns"]) <= ends


def test_gaps_between_tokens_add_up_to_the_decoding_times(records):
    done = finished(records)
    gaps_ns, counts = records.itl_ns
    assert counts.sum() == (done["output_tokens"] - 1).sum()
    decoding_ns = (done["finished_ns"] - done["first_token_ns"]).sum()
    assert gaps_ns @ counts == decoding_ns


def test_every_token_was_computed_once_and_again_what_preemptions_took(run):
    """Prompts less what was cached, and every output token but the last is fed back.

    Asynchronous scheduling also feeds back what turns out to be the last. With sharing a preempted
    request may find more than it had computed.
    """
    config, records = run
    done = finished(records)
    needed = (done["prompt_tokens"] - done["cached_tokens"] + done["output_tokens"] - 1).sum()
    too_much = records.steps[["decodes", "prefill_tokens"]].sum(axis=None) - needed
    too_much -= done["recomputed_tokens"].sum()
    num_stops = (done["finish_reason"] == "stop").sum() if config.async_scheduling else 0
    assert too_much <= num_stops
    assert too_much >= 0 or config.enable_prefix_caching


def test_only_preemptions_take_what_was_computed(run):
    """And only the prefix cache gives it back."""
    config, records = run
    requests = records.requests
    lost = requests["recomputed_tokens"] + requests["restored_tokens"]
    assert (lost[requests["preemptions"] == 0] == 0).all()
    assert config.enable_prefix_caching or not requests["restored_tokens"].any()


def test_every_token_asked_of_the_prefix_cache_is_a_hit_or_a_miss_for_one_reason(run):
    config, records = run
    done = finished(records)
    answers = ["cached_tokens", "partial_tokens", "unseen_tokens", "evicted_tokens"]
    assert (done[answers].sum(axis=1) == done["queried_tokens"]).all()
    expected = done["prompt_tokens"] if config.enable_prefix_caching else 0
    assert (done["queried_tokens"] == expected).all()
    _, counts = records.evicted_for_ns
    assert counts.sum() * config.block_size == done["evicted_tokens"].sum()


def test_preemptions_of_steps_are_those_of_requests(records):
    assert records.steps["preempted"].sum() == records.requests["preemptions"].sum()


def test_nothing_runs_in_an_idle_row(records):
    idle = records.steps[records.steps["decodes"] + records.steps["prefill_tokens"] == 0]
    assert (idle["running"] == 0).all()
    assert (idle[["live", "tail", "reserved", "over_reserved"]] == 0).all(axis=None)


def test_only_sharing_caches_and_only_static_batches_reserve(run):
    """Contiguous memory alone can have unusable holes."""
    config, records = run
    ever = {name for name in KVUsage._fields if records.steps[name].any()}
    expected = {"live", "free"}
    expected |= {"tail"} if config.block_size > 1 else set()
    expected |= {"cached"} if config.enable_prefix_caching else set()
    expected |= {"reserved", "over_reserved"} if config.batching == "static" else set()
    assert ever == expected


def test_random_scenarios_come_to_everything(new_scenario):
    """Preemption, cache hits, cuts and both refusals; else the tests above would say nothing."""
    seen: set[str] = set()
    for system, loop, seed in CASES:
        records = simulate(new_scenario(**random_settings(loop, seed)), system)
        requests = records.requests
        seen |= set(requests["finish_reason"])
        seen |= {name for name in COUNTS if requests[name].any()}
        refused = requests[requests["finish_reason"] == "refused"]
        is_longer_than_model = refused["prompt_tokens"] >= 400
        seen |= {"longer than the model"} if is_longer_than_model.any() else set()
        seen |= {"larger than the pool"} if (~is_longer_than_model).any() else set()
    assert seen == {
        "stop",
        "length",
        "refused",
        *COUNTS,
        "longer than the model",
        "larger than the pool",
    }


def usage_arrays(**classes: list[int]) -> UsageArrays:
    """The classes that are not given are 0."""
    num_steps = len(next(iter(classes.values())))
    columns = dict.fromkeys(UsageArrays._fields, [0] * num_steps) | classes
    return UsageArrays(**{name: np.array(column, np.int64) for name, column in columns.items()})


def test_integral_by_hand():
    """8 free for 10 ns; then 3 live for 15 ns; then, handed in later, 1 live for 1 ns."""
    integral = LedgerIntegral()
    integral.add(usage_arrays(live=[0, 3], free=[8, 5]), np.array([10, 15]))
    integral.add(usage_arrays(live=[1], free=[7]), np.array([1]))
    assert integral.slot_ns == KVUsage(3 * 15 + 1, 0, 0, 0, 0, 0, 8 * 10 + 5 * 15 + 7)


@pytest.mark.parametrize("most", [2**20, 2**31, 2**32, 2**40, 2**62])
def test_integral_is_exact_beyond_64_bits(most):
    """Slots and nanoseconds of any size, against Python's whole numbers."""
    rng = random.Random(most)
    for num_rows in (1, 2, 3, 50):
        slots, durations = ([rng.randint(0, most) for _ in range(num_rows)] for _ in range(2))
        integral = LedgerIntegral()
        for _ in range(2):
            integral.add(usage_arrays(live=slots), np.array(durations))
        expected = 2 * sum(n * ns for n, ns in zip(slots, durations, strict=True))
        assert integral.slot_ns == KVUsage(expected, 0, 0, 0, 0, 0, 0)


def test_integral_just_within_and_just_beyond_64_bits():
    """2**31 x 2**31 twice is 2**63, one more than the largest; so is the sum of many."""
    for slots, durations in (
        ([2**31] * 2, [2**31] * 2),
        ([2**31], [2**32 - 1]),
        ([2**21] * 4096, [2**30] * 4096),
    ):
        integral = LedgerIntegral()
        integral.add(usage_arrays(free=slots), np.array(durations))
        assert integral.slot_ns.free == slots[0] * durations[0] * len(slots)


def test_ledger_while_sequences_decode_takes_empty_blocks_before_cached_ones():
    """Blocks of 4: three sequences fill 3, then 6, then 9 slots and begin 1, 3 and 5 blocks.

    Of the 20 slots free at first 8 are empty; the third block begun takes the first cached one.
    """
    before = usage_arrays(live=[30] * 3, tail=[6] * 3, cached=[12] * 3, free=[8] * 3)
    after = decoded_on(before, np.array([3, 6, 9]), np.array([4, 12, 20]))
    expected = usage_arrays(live=[33, 36, 39], tail=[7, 12, 17], cached=[12, 8, 0], free=[4, 0, 0])
    assert np.array_equal(after, expected)


def test_ledger_while_static_rows_decode_takes_reserved_blocks():
    """Two rows hold 8 slots for what may come, and begin 0, 1 and 2 blocks of 4."""
    before = usage_arrays(
        live=[10] * 3, tail=[2] * 3, reserved=[8] * 3, over_reserved=[4] * 3, free=[16] * 3
    )
    after = decoded_on(before, np.array([2, 4, 6]), np.array([0, 4, 8]))
    expected = usage_arrays(
        live=[12, 14, 16],
        tail=[0, 2, 4],
        reserved=[8, 4, 0],
        over_reserved=[4] * 3,
        free=[16] * 3,
    )
    assert np.array_equal(after, expected)
