"""Replaying a trace."""

from typing import Any

import numpy as np
import pytest

from workloads import Trace, WorkloadError, workload_from_trace


def trace() -> Trace:
    def column(*values: int) -> Any:
        return np.array(values, dtype=np.int64)

    return Trace(
        arrival_ns=column(0, 5, 9),
        prompt_tokens=column(100, 30, 64),
        output_tokens=column(10, 80, 6),
        num_rows=3,
        format="azure",
        notes=("read with care",),
    )


def test_a_replay_has_the_requests_of_the_trace() -> None:
    workload = workload_from_trace(trace(), max_model_len=1000)
    assert workload.arrival_ns is not None
    assert workload.arrival_ns.tolist() == [0, 5, 9]
    assert workload.prompt_tokens.tolist() == [100, 30, 64]
    assert workload.output_tokens.tolist() == [10, 80, 6]


def test_stated_limit_defaults_to_what_the_model_length_leaves() -> None:
    workload = workload_from_trace(trace(), max_model_len=100)
    assert workload.max_new_tokens.tolist() == [1, 70, 36]


def test_no_content_is_shared() -> None:
    workload = workload_from_trace(trace(), max_model_len=1000)
    ids = workload.segment_ids.tolist() + workload.answer_ids.tolist()
    assert len(set(ids)) == 6


def test_notes_of_the_trace_come_first() -> None:
    workload = workload_from_trace(trace(), max_new_tokens=8, max_model_len=1000)
    assert workload.notes == ("read with care", "2 outputs cut at max_new_tokens 8")


def test_limit_takes_the_first_requests_and_is_noted() -> None:
    workload = workload_from_trace(trace(), max_model_len=1000, limit=2)
    assert workload.prompt_tokens.tolist() == [100, 30]
    assert workload.notes == ("read with care", "the first 2 of 3 requests taken")


def test_limit_beyond_the_trace_takes_all_and_is_noted() -> None:
    workload = workload_from_trace(trace(), max_model_len=1000, limit=4)
    assert len(workload) == 3
    assert workload.notes == ("read with care", "4 requests asked for, the trace gives 3")


def test_limit_of_all_requests_changes_nothing() -> None:
    workload = workload_from_trace(trace(), max_model_len=1000, limit=3)
    assert (len(workload), workload.notes) == (3, ("read with care",))


def test_limit_below_1_is_a_user_error() -> None:
    with pytest.raises(WorkloadError, match=r"^limit: got 0, expected an integer from 1"):
        workload_from_trace(trace(), max_model_len=1000, limit=0)
