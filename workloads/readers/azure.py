"""The Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset).

CSV files with the columns TIMESTAMP (`2023-11-16 18:15:46.6805900`, in 2024 with a zone),
ContextTokens (prompt) and GeneratedTokens (output): Patel et al., Splitwise, ISCA 2024.
"""

from workloads.checks import COUNT_EXPECTED
from workloads.files import parse_count
from workloads.readers.csv_table import Column, read_csv_table
from workloads.readers.times import DATE_EXPECTED, date_ns
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

_COLUMNS = {
    "TIMESTAMP": Column(date_ns, DATE_EXPECTED),
    "ContextTokens": Column(parse_count, COUNT_EXPECTED),
    "GeneratedTokens": Column(parse_count, COUNT_EXPECTED),
}


def recognises(source: Source) -> bool:
    """Whether the columns are those of Azure."""
    return "ContextTokens" in source.columns


def read(source: Source) -> Trace:
    """Read the trace; a byte order mark and any line ends are accepted.

    Rows out of time order are sorted and noted (see `trace_from_rows`). Token counts are plain
    positive integers (`500.0` is 500); 0 generated tokens is an error too, since every request
    that a simulation serves produces a token.

    Raises WorkloadError as `read_csv_table` does, all bad rows (ten at most) in one message.
    """
    table = read_csv_table(source, _COLUMNS)
    rows = Rows(
        time_ns=table.values["TIMESTAMP"],
        prompt_tokens=table.values["ContextTokens"],
        output_tokens=table.values["GeneratedTokens"],
        lines=table.lines,
    )
    return trace_from_rows(rows, format="azure")
