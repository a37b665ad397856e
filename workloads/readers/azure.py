"""The Azure LLM inference trace of 2023 (github.com/Azure/AzurePublicDataset), as published.

A CSV file with the columns TIMESTAMP (`2023-11-16 18:15:46.6805900`, no zone), ContextTokens
(prompt) and GeneratedTokens (output). Described in Patel et al., Splitwise, ISCA 2024.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from workloads.checks import COUNT_EXPECTED
from workloads.files import parse_count
from workloads.readers.csv_table import Column, read_csv_table
from workloads.trace import Trace, trace_from_rows

_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_azure_csv(path: str | Path) -> Trace:
    """Read the trace, plain or gzipped; a byte order mark and any line ends are accepted.

    Rows out of time order are sorted and noted (see `trace_from_rows`). Token counts are plain
    positive integers (`500.0` is 500); 0 generated tokens is an error too, since every request
    that a simulation serves produces a token.

    Raises WorkloadError as `read_csv_table` does, all bad rows (ten at most) in one message.
    """
    table = read_csv_table(path, _COLUMNS)
    return trace_from_rows(
        time_ns=table.values["TIMESTAMP"],
        prompt_tokens=table.values["ContextTokens"],
        output_tokens=table.values["GeneratedTokens"],
        lines=table.lines,
    )


def _parse_timestamp_ns(text: str) -> int | None:
    """Nanoseconds since 1970, exactly; None for what is no time of the years 1970 to 2199."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match.groups(default="0")
    try:
        time = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    except ValueError:  # a 13th month, a 30th of February
        return None
    if not 1970 <= time.year < 2200:  # int64 nanoseconds end in 2262
        return None
    return (time - _EPOCH) // timedelta(seconds=1) * 10**9 + int(fraction.ljust(9, "0"))


_COLUMNS = {
    "TIMESTAMP": Column(_parse_timestamp_ns, "YYYY-MM-DD HH:MM:SS.fffffff, from 1970 to 2199"),
    "ContextTokens": Column(parse_count, COUNT_EXPECTED),
    "GeneratedTokens": Column(parse_count, COUNT_EXPECTED),
}
