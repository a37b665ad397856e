"""The processed traces of Vidur that have arrival times (github.com/microsoft/vidur).

CSV files with the columns arrived_at (seconds), num_prefill_tokens (prompt) and num_decode_tokens
(output), as `data/processed_traces/splitwise_conv.csv`: Agrawal et al., Vidur, MLSys 2024. Those
without times are of the format `lengths`.
"""

from workloads.readers.csv_requests import Names, read_requests
from workloads.source import Source
from workloads.trace import Trace

COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")


def recognises(source: Source) -> bool:
    """Whether the columns are those of Vidur, arrival times included."""
    return set(COLUMNS) <= set(source.columns)


def read(source: Source) -> Trace:
    """Read the trace. Raises WorkloadError as `read_requests` does."""
    return read_requests(source, Names(*COLUMNS), format="vidur")
