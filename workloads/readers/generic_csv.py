"""Any CSV file whose columns say by their names when requests come and how long they are.

Times are in seconds, or dates; lengths in tokens. What has columns of a format of its own is read
as that.
"""

import csv
import io
from collections.abc import Sequence

from workloads.checks import listed, problem
from workloads.files import bad_file
from workloads.readers.csv_requests import Names, read_dated_requests, read_requests
from workloads.readers.times import date_ns
from workloads.source import Source
from workloads.trace import Trace

ARRIVAL = (
    *("arrival_s", "timestamp_s", "arrived_at", "time_s", "timestamp"),
    *("arrival_time", "created_at", "time"),
)
PROMPT = ("prompt_tokens", "input_length", "input_tokens", "num_prefill_tokens")
OUTPUT = (
    *("output_tokens", "output_length", "num_decode_tokens"),
    *("completion_tokens", "generated_tokens"),
)
_MEANINGS = {"an arrival": ARRIVAL, "prompt tokens": PROMPT, "output tokens": OUTPUT}
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
    if date_ns(_first_cell(source, names)) is not None:
        return read_dated_requests(source, names, format="csv")
    return read_requests(source, names, format="csv")


def _first_cell(source: Source, names: Names) -> str:
    """The first arrival; empty where the file has none."""
    rows = csv.DictReader(io.StringIO(source.text, newline=""))
    return str(next(rows, {}).get(names.arrival or "") or "")


def missing_column(source: Source) -> str | None:
    """What a file lacks that has columns of two of the three meanings, in words."""
    missing = {
        what: names for what, names in _MEANINGS.items() if not set(names) & set(source.columns)
    }
    if len(missing) != 1:
        return None
    ((what, names),) = missing.items()
    return f"no column of {what} among {listed(source.columns)}, expected one of {', '.join(names)}"


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
