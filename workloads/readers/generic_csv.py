"""Any CSV file whose columns say by their names when requests come and how long they are.

Times are in seconds, lengths in tokens. What has columns of a format of its own is read as that.
"""

from collections.abc import Sequence

from workloads.checks import problem
from workloads.files import bad_file
from workloads.readers.csv_requests import Names, read_requests
from workloads.source import Source
from workloads.trace import Trace

ARRIVAL = ("arrival_s", "timestamp_s", "arrived_at", "time_s", "timestamp")
PROMPT = ("prompt_tokens", "input_length", "input_tokens", "num_prefill_tokens")
OUTPUT = ("output_tokens", "output_length", "num_decode_tokens")
COLUMNS = (*ARRIVAL, *PROMPT, *OUTPUT)


def recognises(source: Source) -> bool:
    """Whether there is a column of each meaning."""
    return all(set(names) & set(source.columns) for names in (ARRIVAL, PROMPT, OUTPUT))


def read(source: Source) -> Trace:
    """Read the trace.

    Raises WorkloadError for no column of a meaning or for several (all are named), and as
    `read_requests` does.
    """
    names = Names(*find_columns(source, (ARRIVAL, PROMPT, OUTPUT)))
    return read_requests(source, names, format="csv")


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
