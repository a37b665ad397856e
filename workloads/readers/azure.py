"""The Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset).

CSV files with the columns TIMESTAMP (`2023-11-16 18:15:46.6805900`, in 2024 with a zone),
ContextTokens (prompt) and GeneratedTokens (output): Patel et al., Splitwise, ISCA 2024.
"""

from collections import Counter
from collections.abc import Sequence

from workloads.checks import listed
from workloads.files import bad_file
from workloads.readers.csv_requests import COUNT, Names, requests_of
from workloads.readers.csv_table import Column, read_csv_table
from workloads.readers.times import DATE_EXPECTED, date_ns, zone_of
from workloads.source import Source
from workloads.trace import Trace

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_NAMES = Names(*COLUMNS)


def recognises(source: Source) -> bool:
    """Whether the columns are those of Azure."""
    return _NAMES.prompt in source.columns


def read(source: Source) -> Trace:
    """Read the trace; a byte order mark and any line ends are accepted.

    Times of several zones are the instants they say; a note counts the rows of each zone.

    Raises WorkloadError as `read_requests` does, and where some times have a zone and some none.
    """
    zones: list[str] = []  # of each row

    def time_ns(text: str) -> int | None:
        zones.append(zone_of(text))
        return date_ns(text)

    columns = {
        "TIMESTAMP": Column(time_ns, DATE_EXPECTED),
        _NAMES.prompt: COUNT,
        _NAMES.output: COUNT,
    }
    table = read_csv_table(source, columns)
    notes = _zone_notes(source, zones, table.lines)
    return requests_of(table, _NAMES, format="azure", notes=notes)


def _zone_notes(source: Source, zones: Sequence[str], lines: Sequence[int]) -> tuple[str, ...]:
    counts = Counter(zones)
    if len(counts) < 2:
        return ()
    if "" in counts:
        without = lines[zones.index("")]
        with_one = lines[next(row for row, zone in enumerate(zones) if zone)]
        raise bad_file(
            source.name,
            [
                f"column TIMESTAMP: got a time with a zone at line {with_one} and one without at "
                f"line {without}, expected one in all rows or in none"
            ],
        )
    rows = listed(f"{number} in {zone}" for zone, number in sorted(counts.items()))
    return (f"times of {len(counts)} zones, each taken as the instant it is: {rows}",)
