"""The Azure LLM inference traces of 2023 and 2024 (github.com/Azure/AzurePublicDataset).

CSV files with the columns TIMESTAMP (`2023-11-16 18:15:46.6805900`, in 2024 with a zone),
ContextTokens (prompt) and GeneratedTokens (output): Patel et al., Splitwise, ISCA 2024.
"""

from workloads.readers.csv_requests import Names, read_dated_requests
from workloads.source import Source
from workloads.trace import Trace

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_NAMES = Names(*COLUMNS)


def recognises(source: Source) -> bool:
    """Whether the columns are those of Azure."""
    return _NAMES.prompt in source.columns


def read(source: Source) -> Trace:
    """Read the trace; a byte order mark and any line ends are accepted.

    Raises WorkloadError as `read_dated_requests` does.
    """
    return read_dated_requests(source, _NAMES, format="azure")
