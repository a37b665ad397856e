"""Vidur's files, with arrival times and of lengths only."""

from pathlib import Path

import numpy as np
import pytest

from workloads import (
    Poisson,
    Source,
    Trace,
    WorkloadError,
    read_source,
    read_trace,
    workload_from_trace,
)

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens"


def read(*lines: str) -> Trace:
    return read_trace(Source("trace.csv", "\n".join(lines)))


def test_times_are_exact_and_other_columns_are_passed_over() -> None:
    trace = read(f"id,{HEADER}", "x,10.000000001,374,44", "y,4314.579,396,109")
    assert trace.format == "vidur"
    assert trace.arrival_ns is not None
    assert trace.arrival_ns.tolist() == [0, 4_304_578_999_999]
    assert trace.prompt_tokens.tolist() == [374, 396]
    assert trace.output_tokens.tolist() == [44, 109]


@pytest.mark.parametrize("time", ["", "NaN", "-1", "1e13", "2023-11-16 18:15:46"])
def test_times_that_are_none(time: str) -> None:
    with pytest.raises(WorkloadError, match=r"line 2, column arrived_at: got .* expected seconds"):
        read(HEADER, f"{time},1,1")


def test_published_file_is_the_same_workload_as_azures(data_dir: Path) -> None:
    """Arrivals to the nanosecond, lengths, limits and content: every column is equal."""
    names = ("vidur/splitwise_conv.csv.gz", "azure2023/AzureLLMInferenceTrace_conv.csv.gz")
    traces = [read_trace(read_source(data_dir / "traces" / name)) for name in names]
    assert [trace.format for trace in traces] == ["vidur", "azure"]
    ours, theirs = (workload_from_trace(trace, max_model_len=16_384) for trace in traces)
    assert len(ours) == 19_366
    for column in (
        "arrival_ns",
        "prompt_tokens",
        "output_tokens",
        "max_new_tokens",
        "segment_offsets",
        "segment_ids",
        "segment_tokens",
        "answer_ids",
    ):
        assert np.array_equal(getattr(ours, column), getattr(theirs, column)), column


def test_unsorted_ties_of_quirks(data_dir: Path) -> None:
    """Order r0 r3 r1 r2 r7 r5 r6 r4, whose prompts are 300 + 10 i."""
    trace = read_trace(read_source(data_dir / "quirks/unsorted_ties.csv"))
    assert trace.prompt_tokens.tolist() == [300 + 10 * i for i in (0, 3, 1, 2, 7, 5, 6, 4)]
    assert trace.notes == ("sorted by time: 3 backward steps, the first at line 5",)


def test_unsorted_rows_with_ties() -> None:
    trace = read(HEADER, "2,1,1", "2,2,1", "1,3,1", "1.0,4,1")
    assert trace.prompt_tokens.tolist() == [3, 4, 1, 2]
    assert trace.notes == ("sorted by time: 1 backward step, the first at line 4",)


@pytest.mark.parametrize(
    "header",
    [
        "num_prefill_tokens,num_decode_tokens",
        "input_length,output_length",
        "prompt_tokens,output_tokens",
    ],
)
def test_lengths_alone_need_arrivals(header: str) -> None:
    trace = read(header, "5,6", "7,8")
    assert (trace.format, trace.arrival_ns) == ("lengths", None)
    seen = header.replace(",", ", ")
    with pytest.raises(WorkloadError) as error:
        workload_from_trace(trace, max_model_len=100)
    assert str(error.value) == (
        f"the trace (lengths; no arrival column (such as arrival_s) found among {seen}) says of no "
        "request when it comes, expected `workload.arrivals` beside it, such as poisson: {rate: 5}"
    )
    workload = workload_from_trace(trace, max_model_len=100, arrivals=Poisson(2.0), seed=3)
    assert workload.prompt_tokens.tolist() == [5, 7]
    assert workload.arrival_ns is not None
    assert workload.arrival_ns[0] > 0


def test_lengths_given_twice_are_an_error() -> None:
    expected = r"columns: got \['prompt_tokens', 'input_length'\], expected one of prompt_tokens"
    with pytest.raises(WorkloadError, match=expected):
        read("prompt_tokens,input_length,output_tokens", "5,6,7")


def test_lengths_only_of_quirks(data_dir: Path) -> None:
    trace = read_trace(read_source(data_dir / "quirks/lengths_only.csv"))
    assert trace.prompt_tokens.tolist() == [1800, 640, 3900, 25, 1024]
    assert trace.output_tokens.tolist() == [150, 320, 12, 2000, 64]
    seen = "num_prefill_tokens, num_decode_tokens, num_total_tokens, pd_ratio"
    with pytest.raises(WorkloadError, match=rf"among {seen}\) .* `workload.arrivals`"):
        workload_from_trace(trace, max_model_len=4096)
    assert len(workload_from_trace(trace, max_model_len=4096, arrivals=Poisson(1.0))) == 5


def test_published_lengths(data_dir: Path) -> None:
    """Against the figures of its README: rows, mean and smallest lengths."""
    name = "arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz"
    trace = read_trace(read_source(data_dir / "traces/vidur" / name))
    assert (trace.format, len(trace)) == ("lengths", 28_257)
    assert trace.prompt_tokens.mean() == pytest.approx(2588.1, abs=0.05)
    assert trace.output_tokens.mean() == pytest.approx(291.4, abs=0.05)
    assert (trace.prompt_tokens.min(), trace.output_tokens.min()) == (1, 5)
