"""Any CSV file whose columns say by their names when requests come and how long they are.

Times are in seconds, lengths in tokens. What has columns of a format of its own is read as that.
"""

from collections.abc import Sequence

from workloads.checks import COUNT_EXPECTED, problem
from workloads.files import bad_file, parse_count
from workloads.readers.csv_table import Column, read_csv_table
from workloads.readers.times import SECONDS_EXPECTED, seconds_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

ARRIVAL = ("arrival_s", "timestamp_s", "arrived_at", "time_s", "timestamp")
PROMPT = ("prompt_tokens", "input_length", "input_tokens", "num_prefill_tokens")
OUTPUT = ("output_tokens", "output_length", "num_decode_tokens")


def recognises(source: Source) -> bool:
    """Whether there is a column of each meaning."""
    return all(set(names) & set(source.columns) for names in (ARRIVAL, PROMPT, OUTPUT))


def read(source: Source) -> Trace:
    """Read the trace; other columns are passed over.

    Rows out of time order are sorted and noted (see `trace_from_rows`).

    Raises WorkloadError for no column of a meaning or for several (all are named), and as
    `read_csv_table` does.
    """
    arrival, prompt, output = find_columns(source, (ARRIVAL, PROMPT, OUTPUT))
    count = Column(parse_count, COUNT_EXPECTED)
    columns = {arrival: Column(seconds_ns, SECONDS_EXPECTED), prompt: count, output: count}
    table = read_csv_table(source, columns)
    rows = Rows(
        time_ns=table.values[arrival],
        prompt_tokens=table.values[prompt],
        output_tokens=table.values[output],
        lines=table.lines,
    )
    return trace_from_rows(rows, format="csv")


def find_columns(source: Source, meanings: Sequence[Sequence[str]]) -> list[str]:
    """The column of each meaning, which is the one that has one of its names.

    Raises WorkloadError for none and for several.
    """
    found = [[name for name in names if name in source.columns] for names in meanings]
    problems = [
        problem("columns", present or source.columns, f"one of {', '.join(names)}")
        for present, names in zip(found, meanings, strict=True)
        if len(present) != 1
    ]
    if problems:
        raise bad_file(source.name, problems)
    return [present[0] for present in found]
