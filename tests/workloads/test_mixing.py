"""Several workloads made one: shares of common arrivals, or each at its own times."""

import math
from typing import Any

import numpy as np
import pytest

from workloads import (
    ClosedLoop,
    ConstantRate,
    Fixed,
    FixedTime,
    Part,
    Poisson,
    Sessions,
    Uniform,
    Workload,
    WorkloadError,
    mixed,
    overlaid,
    synthetic,
)


def source(num: int, prompt: int, **changed: Any) -> Workload:
    settings: dict[str, Any] = {
        "num_requests": num,
        "seed": prompt,
        "arrivals": ConstantRate(1),
        "unique": Fixed(prompt),
        "outputs": Fixed(3),
        "max_model_len": 10_000,
    }
    return synthetic(**(settings | changed))


def classes(workload: Workload) -> list[str]:
    assert workload.class_numbers is not None
    return [workload.class_names[number] for number in workload.class_numbers.tolist()]


def content(workload: Workload, i: int) -> set[int]:
    offsets = workload.segment_offsets
    return set(workload.segment_ids[offsets[i] : offsets[i + 1]].tolist())


def test_overlaid_requests_keep_their_times() -> None:
    """One each second, and one every 0.4 s: of the same instant the first part's comes first."""
    parts = {"a": Part(source(2, 5)), "b": Part(source(5, 7, arrivals=ConstantRate(2.5)))}
    workload = overlaid(parts)
    assert workload.arrival_ns is not None
    assert (workload.arrival_ns / 1e8).tolist() == [4, 8, 10, 12, 16, 20, 20]
    assert classes(workload) == ["b", "b", "a", "b", "b", "a", "b"]
    assert workload.prompt_tokens.tolist() == [7, 7, 5, 7, 7, 5, 7]


def test_no_content_is_shared_between_parts() -> None:
    workload = overlaid({"a": Part(source(40, 5)), "b": Part(source(40, 5))})
    owned: dict[str, set[int]] = {"a": set(), "b": set()}
    for i, name in enumerate(classes(workload)):
        owned[name] |= content(workload, i) | {int(workload.answer_ids[i])}
    assert not owned["a"] & owned["b"]
    assert len(owned["a"] | owned["b"]) == 160


def test_turns_wait_for_those_of_their_own_session() -> None:
    """Every later turn holds the prompt it waits for, and that answer."""
    talks = Sessions(Uniform(1, 5), FixedTime(2))
    parts = {"a": Part(source(200, 5, sessions=talks)), "b": Part(source(200, 7, sessions=talks))}
    shares = {"a": 1.0, "b": 1.0}
    for workload in (
        overlaid(parts),
        mixed(parts, shares, num_requests=150, arrivals=Poisson(3), seed=1),
    ):
        assert workload.previous is not None
        assert workload.think_time_ns is not None
        later = np.flatnonzero(workload.previous >= 0)
        assert len(later) > 50
        assert set(workload.think_time_ns[later].tolist()) == {2_000_000_000}
        for i, before in zip(later.tolist(), workload.previous[later].tolist(), strict=True):
            assert content(workload, i) > content(workload, before)
            assert int(workload.answer_ids[before]) in content(workload, i)


def test_sessions_are_drawn_by_the_shares() -> None:
    """Within four standard errors of a binomial."""
    parts = {"a": Part(source(6000, 5)), "b": Part(source(6000, 7))}
    workload = mixed(parts, {"a": 3.0, "b": 1.0}, num_requests=6000, arrivals=Poisson(3), seed=1)
    num_a = classes(workload).count("a")
    assert abs(num_a - 4500) < 4 * math.sqrt(6000 * 0.75 * 0.25)


def test_a_mix_takes_the_sessions_of_a_part_in_order() -> None:
    parts = {"a": Part(source(90, 5, unique=Uniform(1, 10_000))), "b": Part(source(90, 7))}
    workload = mixed(parts, {"a": 1.0, "b": 2.0}, num_requests=90, arrivals=ConstantRate(2), seed=4)
    of_a = [i for i, name in enumerate(classes(workload)) if name == "a"]
    drawn = workload.prompt_tokens[of_a].tolist()
    assert drawn == parts["a"].workload.prompt_tokens[: len(of_a)].tolist()
    assert workload.arrival_ns is not None
    assert workload.arrival_ns.tolist() == [(i + 1) * 500_000_000 for i in range(90)]


def test_a_mix_in_a_closed_loop_has_no_times() -> None:
    parts = {"a": Part(source(9, 5)), "b": Part(source(9, 7))}
    workload = mixed(parts, {"a": 1.0, "b": 1.0}, num_requests=9, arrivals=ClosedLoop(2, 0), seed=4)
    assert workload.arrival_ns is None
    assert workload.closed_loop == ClosedLoop(2, 0)


def test_priority_of_a_part_stands_for_that_of_its_requests() -> None:
    parts = {"a": Part(source(3, 5), priority=-2), "b": Part(source(3, 7))}
    workload = overlaid(parts)
    assert workload.priority is not None
    assert [{-2: "a", 0: "b"}[priority] for priority in workload.priority.tolist()] == classes(
        workload
    )


def test_a_part_that_ends_too_early_is_named_with_the_numbers() -> None:
    parts = {"a": Part(source(5, 5)), "b": Part(source(100, 7))}
    with pytest.raises(WorkloadError, match=r"^a: got 5 single requests, expected more"):
        mixed(parts, {"a": 1.0, "b": 1.0}, num_requests=100, arrivals=ConstantRate(1), seed=1)


def test_a_part_without_times_cannot_be_overlaid() -> None:
    parts = {"a": Part(source(5, 5)), "b": Part(source(5, 7, arrivals=ClosedLoop(1, 0)))}
    with pytest.raises(WorkloadError, match=r"^b: got requests without times"):
        overlaid(parts)


def test_notes_say_of_which_part_they_are() -> None:
    parts = {"a": Part(source(5, 5)), "b": Part(source(5, 7, max_new_tokens=2))}
    assert [note.split(":")[0] for note in overlaid(parts).notes] == ["b"]
