"""The limits that requests state, and the count of outputs that they will cut."""

from typing import Any

import numpy as np
import pytest

from workloads import WorkloadError, output_limits


def column(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def test_without_a_limit_requests_state_what_the_model_length_leaves() -> None:
    limits = output_limits(
        column(50, 90, 99, 20), column(50, 11, 7, 5), max_new_tokens=None, max_model_len=100
    )
    assert limits.max_new_tokens.tolist() == [50, 10, 1, 80]
    assert limits.notes == ("2 outputs cut at max_model_len 100",)


def test_each_cut_is_counted_once_under_the_limit_that_cuts() -> None:
    limits = output_limits(
        column(10, 10, 97, 80), column(30, 20, 15, 21), max_new_tokens=20, max_model_len=100
    )
    assert limits.max_new_tokens.tolist() == [20, 20, 20, 20]
    assert limits.notes == (
        "1 output cut at max_new_tokens 20",
        "2 outputs cut at max_model_len 100",
    )


@pytest.mark.parametrize(("max_new_tokens", "stated"), [(None, 1), (20, 20)])
def test_a_prompt_without_room_is_left_to_the_engine(
    max_new_tokens: int | None, stated: int
) -> None:
    limits = output_limits(
        column(100, 101), column(30, 40), max_new_tokens=max_new_tokens, max_model_len=100
    )
    assert limits.max_new_tokens.tolist() == [stated, stated]
    assert limits.notes == ()


@pytest.mark.parametrize(("max_new_tokens", "max_model_len"), [(0, 100), (-1, 100), (5, 0)])
def test_limits_below_1_are_user_errors(max_new_tokens: int, max_model_len: int) -> None:
    with pytest.raises(WorkloadError, match="expected an integer from 1"):
        output_limits(
            column(5), column(5), max_new_tokens=max_new_tokens, max_model_len=max_model_len
        )
