"""Results of vLLM's serving benchmark, saved with --save-detailed (github.com/vllm-project/vllm).

One JSON object of `vllm bench serve`, before that `benchmark_serving.py`, with lists that have an
item for each request: input_lens and output_lens (tokens), ttfts and itls (seconds, not read), and
in newer versions start_times (seconds of a clock without a known start). SGLang's `bench_serving`
with --output-details writes the same without times.
"""

from typing import Any

import numpy as np

from workloads.checks import listed, problem
from workloads.errors import WorkloadError
from workloads.files import bad_file
from workloads.readers.counts import note_rows
from workloads.readers.jsonl_table import Field, check_object, parse_json
from workloads.readers.times import in_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows
from workloads.workload import int64_column

_LISTS = {
    "input_lens": Field("count"),
    "output_lens": Field("count"),
    "start_times": Field("number", unit_ns=10**9),
}


def recognises(source: Source) -> bool:
    """Whether the first object has the lists of lengths."""
    return {"input_lens", "output_lens"} <= source.keys


def read(source: Source) -> Trace:
    """Read the requests; those without output, which failed, are left out and noted.

    Without start_times there are no arrival times, and a note lists what there is. Requests count
    from 1 in messages.

    Raises WorkloadError for a file that is not one JSON object with lists of one length, for values
    that are not as they must be (the first ten of them), and where no request has output.
    """
    lists = _lists(source)
    num_rows = len(lists["output_lens"])
    has_output = [length != 0 or length is False for length in lists["output_lens"]]
    kept = np.flatnonzero(has_output).tolist()
    requests = [{name: values[row] for name, values in lists.items()} for row in kept]
    fields = {name: _LISTS[name] for name in lists}
    problems = [
        text
        for row, request in zip(kept, requests, strict=True)
        for text in check_object(request, fields, f"request {row + 1}")
    ]
    if problems or not requests:
        raise bad_file(source.name, problems or [f"no output tokens in {num_rows} requests"])
    notes = note_rows(
        ~np.array(has_output),
        range(1, num_rows + 1),
        "without output tokens left out",
        noun="request",
        counted="request",
    )
    if "start_times" not in lists:
        notes = (*notes, f"no start_times among {listed(sorted(source.keys))}")
    columns = {
        name: int64_column(_integer(name, request[name]) for request in requests) for name in lists
    }
    rows = Rows(
        time_ns=columns.get("start_times"),
        prompt_tokens=columns["input_lens"],
        output_tokens=columns["output_lens"],
        lines=[row + 1 for row in kept],
        counted="request",
    )
    return trace_from_rows(rows, format="benchmark-serving", num_rows=num_rows, notes=notes)


def _lists(source: Source) -> dict[str, list[Any]]:
    try:
        result = parse_json(source.text)
    except ValueError as error:
        raise WorkloadError(f"{source.name}: not one JSON object: {error}") from error
    if not isinstance(result, dict):
        raise WorkloadError(problem(source.name, result, "an object"))
    is_list = {name: Field("list", is_optional=name == "start_times") for name in _LISTS}
    problems = check_object(result, is_list, "result")
    if problems:
        raise bad_file(source.name, problems)
    lists = {name: result[name] for name in _LISTS if name in result}
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise WorkloadError(problem(f"{source.name}: lists", lengths, "all of one length"))
    return lists


def _integer(name: str, value: int | float) -> int:
    return in_ns(value, 10**9) if name == "start_times" else int(value)
