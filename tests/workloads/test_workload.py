"""The columns of a workload: what is made of them, and that they agree."""

from typing import Any

import numpy as np
import pytest

from workloads import ClosedLoop, Workload, WorkloadError, content_token_ids


def column(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def columns(**changed: Any) -> dict[str, Any]:
    """Two requests: segments (0, 4) (5, 2), then (0, 4) alone; `changed` replaces columns."""
    return {
        "arrival_ns": column(10, 20),
        "closed_loop": None,
        "prompt_tokens": column(6, 4),
        "output_tokens": column(3, 1),
        "max_new_tokens": column(8, 8),
        "segment_offsets": column(0, 2, 3),
        "segment_ids": column(0, 5, 0),
        "segment_tokens": column(4, 2, 4),
        "answer_ids": column(8, 9),
    } | changed


def test_prompt_has_the_segments_of_its_request() -> None:
    workload = Workload(**columns())
    tokens = content_token_ids(0, 0, 4) + content_token_ids(5, 0, 2)
    assert [len(workload), len(workload.prompt(0)), len(workload.prompt(1))] == [2, 6, 4]
    assert workload.prompt(0).token_ids(0, 6) == tokens


def test_output_is_keyed_by_the_answer_id() -> None:
    assert Workload(**columns()).prompt(1).block_runs(1, 4, 5, [0]) == [(((9, 0, 1),), 0, 1)]


def test_keys_hold_plain_ints() -> None:
    """NumPy integers would be equal too, but slow to hash."""
    ((key, _, _),) = Workload(**columns()).prompt(0).block_runs(6, 0, 1, [])
    assert {type(number) for part in key for number in part} == {int}


def test_answer_is_the_true_output() -> None:
    assert list(Workload(**columns()).answer(0)) == content_token_ids(8, 0, 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"output_tokens": column(3)}, r"output_tokens: got int64 of shape \(1,\)"),
        ({"max_new_tokens": np.array([1.0, 2.0])}, "max_new_tokens: got float64"),
        ({"answer_ids": column(1, 2, 3)}, r"answer_ids: got int64 of shape \(3,\)"),
        ({"output_tokens": column(3, 0)}, "output_tokens: got 0, expected every value >= 1"),
        ({"segment_tokens": column(4, 2)}, r"segment_tokens: got int64 of shape \(2,\)"),
        ({"segment_offsets": column(0, 3, 3)}, "segment_offsets: expected to rise from 0 to 3"),
        ({"segment_offsets": column(0, 1, 2)}, "segment_offsets: expected to rise from 0 to 3"),
        ({"segment_offsets": column(1, 2, 3)}, "segment_offsets: expected to rise from 0 to 3"),
        ({"prompt_tokens": column(6, 5)}, "prompt_tokens: expected the sum"),
        ({"arrival_ns": column(20, 10)}, "arrival_ns: expected times that never fall"),
        ({"arrival_ns": column(-1, 10)}, "arrival_ns: got -1"),
        ({"previous": column(-1, 0)}, "previous, think_time_ns: expected both or none"),
        (
            {"previous": column(-1, 1), "think_time_ns": column(0, 0)},
            "previous: expected earlier requests",
        ),
        (
            {"previous": column(-1, -2), "think_time_ns": column(0, 0)},
            "previous: got -2, expected every value >= -1",
        ),
        ({"arrival_ns": None}, "arrival_ns, closed_loop: expected one of the two"),
        ({"closed_loop": ClosedLoop(1, 0)}, "arrival_ns, closed_loop: expected one of the two"),
    ],
)
def test_columns_that_disagree_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{message}"):
        Workload(**columns(**changed))
