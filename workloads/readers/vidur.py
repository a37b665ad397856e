"""The processed traces of Vidur that have arrival times (github.com/microsoft/vidur).

CSV files with the columns arrived_at (seconds), num_prefill_tokens (prompt) and num_decode_tokens
(output), as `data/processed_traces/splitwise_conv.csv`: Agrawal et al., Vidur, MLSys 2024. Those
without times are of the format `lengths`.
"""

from workloads.checks import COUNT_EXPECTED
from workloads.files import parse_count
from workloads.readers.csv_table import Column, read_csv_table
from workloads.readers.times import SECONDS_EXPECTED, seconds_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

_COLUMNS = {
    "arrived_at": Column(seconds_ns, SECONDS_EXPECTED),
    "num_prefill_tokens": Column(parse_count, COUNT_EXPECTED),
    "num_decode_tokens": Column(parse_count, COUNT_EXPECTED),
}


def recognises(source: Source) -> bool:
    """Whether the columns are those of Vidur, arrival times included."""
    return set(_COLUMNS) <= set(source.columns)


def read(source: Source) -> Trace:
    """Read the trace; times are taken to the nanosecond, other columns are passed over.

    Rows out of time order are sorted and noted (see `trace_from_rows`).

    Raises WorkloadError as `read_csv_table` does.
    """
    table = read_csv_table(source, _COLUMNS)
    rows = Rows(
        time_ns=table.values["arrived_at"],
        prompt_tokens=table.values["num_prefill_tokens"],
        output_tokens=table.values["num_decode_tokens"],
        lines=table.lines,
    )
    return trace_from_rows(rows, format="vidur")
