"""Synthetic workloads: structure, common random numbers, limits."""

from typing import Any

import numpy as np
import pytest

from workloads import (
    ClosedLoop,
    Fixed,
    LogNormal,
    Poisson,
    SharedPrefix,
    Uniform,
    Workload,
    WorkloadError,
    synthetic,
)

COLUMNS = [
    "prompt_tokens",
    "output_tokens",
    "max_new_tokens",
    "segment_offsets",
    "segment_ids",
    "segment_tokens",
    "answer_ids",
]


def make(**changed: Any) -> Workload:
    settings: dict[str, Any] = {
        "num_requests": 400,
        "seed": 5,
        "arrivals": Poisson(8),
        "unique": LogNormal(mean=40, sigma=0.5),
        "outputs": LogNormal(mean=48, sigma=0.8, max=256),
        "shared": SharedPrefix(groups=4, tokens=Uniform(50, 150)),
        "max_model_len": 4096,
    }
    return synthetic(**(settings | changed))


def same(one: Workload, two: Workload, names: list[str]) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


def test_same_seed_gives_the_same_columns() -> None:
    assert same(make(), make(), [*COLUMNS, "arrival_ns"])


def test_another_seed_gives_other_lengths() -> None:
    assert not same(make(), make(seed=6), ["prompt_tokens"])


@pytest.mark.parametrize("arrivals", [Poisson(100), ClosedLoop(16, think_time_s=0)])
def test_requests_do_not_depend_on_the_arrival_process(arrivals: Any) -> None:
    assert same(make(), make(arrivals=arrivals), COLUMNS)


def test_outputs_do_not_depend_on_the_prompts() -> None:
    other = make(unique=Uniform(1, 9), shared=None)
    assert same(make(), other, ["output_tokens", "arrival_ns"])


def test_groups_do_not_depend_on_their_lengths() -> None:
    other = make(shared=SharedPrefix(groups=4, tokens=Fixed(96)))
    assert same(make(), other, ["segment_ids"])


def test_fewer_requests_are_the_first_of_more() -> None:
    assert (make().prompt_tokens[:100] == make(num_requests=100).prompt_tokens).all()


def test_closed_loop_has_no_arrival_times() -> None:
    loop = ClosedLoop(16, think_time_s=0)
    workload = make(arrivals=loop)
    assert (workload.arrival_ns, workload.closed_loop) == (None, loop)


def test_prompt_is_the_system_prompt_of_a_group_then_a_turn_of_its_own() -> None:
    workload = make()
    ids = workload.segment_ids.reshape(-1, 2)
    assert set(ids[:, 0].tolist()) == {0, 1, 2, 3}
    assert ids[:, 1].tolist() == list(range(4, 404))
    assert workload.answer_ids.tolist() == list(range(404, 804))


def test_a_group_has_one_system_prompt() -> None:
    workload = make()
    groups = workload.segment_ids[::2]
    lengths = workload.segment_tokens[::2]
    assert all(len(set(lengths[groups == group].tolist())) == 1 for group in range(4))


def test_groups_are_equally_likely() -> None:
    """Counts of 4,000 draws of 4 within z = 4 binomial standard errors."""
    groups = make(num_requests=4000).segment_ids[::2]
    assert np.abs(np.bincount(groups) - 1000).max() < 4 * (4000 * 0.25 * 0.75) ** 0.5


def test_without_groups_every_prompt_is_unique() -> None:
    workload = make(shared=None)
    assert workload.segment_ids.tolist() == list(range(400))
    assert (workload.segment_tokens == workload.prompt_tokens).all()


def test_bounded_outputs_state_their_bound() -> None:
    assert set(make().max_new_tokens.tolist()) == {256}


def test_unbounded_outputs_state_what_the_model_length_leaves() -> None:
    workload = make(outputs=LogNormal(mean=48, sigma=0.8))
    assert (workload.max_new_tokens == 4096 - workload.prompt_tokens).all()


def test_given_max_new_tokens_leaves_the_true_outputs_and_is_noted() -> None:
    free, limited = make(), make(max_new_tokens=30)
    assert (limited.output_tokens == free.output_tokens).all()
    num_cut = (free.output_tokens > 30).sum()
    assert limited.notes == (f"{num_cut} outputs cut at max_new_tokens 30",)


def test_outputs_beyond_the_model_length_are_noted() -> None:
    workload = make(unique=Fixed(10), outputs=Fixed(100), shared=None, max_model_len=64)
    assert workload.notes == ("400 outputs cut at max_model_len 64",)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_requests": 0}, "num_requests: got 0"),
        ({"max_model_len": 0}, "max_model_len: got 0"),
        ({"max_new_tokens": 0}, "max_new_tokens: got 0"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_impossible_numbers_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{message}, expected an integer"):
        make(**changed)


def test_no_groups_is_a_user_error() -> None:
    with pytest.raises(WorkloadError, match=r"^groups: got 0, expected an integer from 1"):
        SharedPrefix(groups=0, tokens=Fixed(96))


def test_popularity_of_groups_is_that_of_zipfs_law() -> None:
    """Exponent 1, four groups: 12, 6, 4 and 3 of 25; each within five standard deviations."""
    shared = SharedPrefix(groups=4, tokens=Fixed(8), zipf=1.0)
    workload = make(num_requests=20_000, shared=shared)
    counts = np.bincount(workload.segment_ids[workload.segment_offsets[:-1]], minlength=4)
    for count, share in zip(counts[:4].tolist(), (12 / 25, 6 / 25, 4 / 25, 3 / 25), strict=True):
        assert abs(count - 20_000 * share) < 5 * (20_000 * share * (1 - share)) ** 0.5


def test_groups_as_popular_as_one_another_are_drawn_as_before() -> None:
    plain, zero = (SharedPrefix(groups=4, tokens=Fixed(8), **zipf) for zipf in ({}, {"zipf": 0.0}))
    ids = [make(shared=shared).segment_ids.tolist() for shared in (plain, zero)]
    assert ids[0] == ids[1]


def test_exponent_below_0_is_a_user_error() -> None:
    with pytest.raises(WorkloadError, match="zipf: got -1, expected a number from 0 to 10"):
        SharedPrefix(groups=4, tokens=Fixed(8), zipf=-1)
