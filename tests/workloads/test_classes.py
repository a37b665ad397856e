"""Classes of requests, drawn by their shares."""

from typing import Any

import numpy as np
import pytest

from workloads import (
    Fixed,
    FixedTime,
    Poisson,
    RequestClass,
    Sessions,
    Uniform,
    Workload,
    WorkloadError,
    classified,
    synthetic,
)


def requests(num: int, **settings: Any) -> Workload:
    return synthetic(
        num_requests=num,
        seed=3,
        arrivals=Poisson(10.0),
        unique=Fixed(5),
        outputs=Fixed(5),
        max_model_len=10_000,
        **settings,
    )


def test_shares_are_those_of_all_and_priorities_those_of_the_class() -> None:
    """Of 10,000 requests 3/4 are expected, with a standard deviation of 43."""
    classes = {"chat": RequestClass(3, -1), "batch": RequestClass(1, 5)}
    workload = classified(requests(10_000), classes, seed=3)
    assert workload.class_names == ("chat", "batch")
    assert workload.class_numbers is not None
    assert workload.priority is not None
    counts = np.bincount(workload.class_numbers)
    assert abs(counts[0] - 7500) < 5 * 43.3
    assert workload.priority.tolist() == [[-1, 5][c] for c in workload.class_numbers.tolist()]


def test_turns_of_a_session_are_of_one_class() -> None:
    sessions = Sessions(Uniform(1, 4), FixedTime(0))
    classes = {"a": RequestClass(1), "b": RequestClass(1)}
    workload = classified(requests(300, sessions=sessions), classes, seed=3)
    assert workload.class_numbers is not None
    of_session: dict[int, set[int]] = {}
    numbers = zip(workload.session_numbers.tolist(), workload.class_numbers.tolist(), strict=True)
    for session, number in numbers:
        of_session.setdefault(session, set()).add(number)
    assert {len(found) for found in of_session.values()} == {1}
    assert len(of_session) > 80


def test_the_rest_of_the_workload_stays_as_it_is() -> None:
    before = requests(50)
    after = classified(before, {"all": RequestClass(1, 2)}, seed=3)
    assert after.prompt_tokens is before.prompt_tokens
    assert set(after.priority.tolist() if after.priority is not None else ()) == {2}


def test_priorities_are_given_once() -> None:
    workload = classified(requests(5), {"all": RequestClass(1)}, seed=3)
    with pytest.raises(WorkloadError, match="classes: got some beside a trace that has prior"):
        classified(workload, {"all": RequestClass(1)}, seed=3)


@pytest.mark.parametrize(("share", "priority"), [(0, 0), (-1, 0), (float("nan"), 0), (1, 10**7)])
def test_classes_that_cannot_be(share: float, priority: int) -> None:
    with pytest.raises(WorkloadError, match=r"^(share|priority): got"):
        RequestClass(share, priority)
