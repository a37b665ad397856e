"""BurstGPT (github.com/HPMLL/BurstGPT; Wang et al., arXiv 2401.17644).

CSV files with the columns Timestamp (seconds, whole or not, from the start of the trace), Request
tokens (prompt), Response tokens (output) and Total tokens; Model and Log Type are passed over, as
are Session ID and Elapsed time of the newer files: every request is on its own.
"""

from functools import partial

from workloads.checks import LARGEST_COUNT
from workloads.errors import WorkloadError
from workloads.files import parse_count
from workloads.readers.counts import note_rows
from workloads.readers.csv_requests import SECONDS
from workloads.readers.csv_table import Column, read_csv_table
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows

_UNREADABLE = -1


def _total(text: str) -> int:
    value = parse_count(text, lowest=0)
    return _UNREADABLE if value is None else value


_COUNT = Column(partial(parse_count, lowest=0), f"an integer from 0 to {LARGEST_COUNT}")
COLUMNS = {
    "Timestamp": SECONDS,
    "Request tokens": _COUNT,
    "Response tokens": _COUNT,
}
_TOTAL = {"Total tokens": Column(_total, "anything")}


def recognises(source: Source) -> bool:
    """Whether the columns are those of BurstGPT."""
    return set(COLUMNS) <= set(source.columns)


def read(source: Source) -> Trace:
    """Read the trace; equal times keep the order of the file.

    Rows without output tokens (requests that failed) or without prompt tokens are left out, and
    notes count both; a row without either counts in both. Totals that are not the sum are counted
    in a note and never used.

    Raises WorkloadError where no row is left, and as `read_csv_table` does.
    """
    table = read_csv_table(source, COLUMNS, optional=_TOTAL)
    prompt, output = table.values["Request tokens"], table.values["Response tokens"]
    total = table.values.get("Total tokens", prompt + output)
    notes = (
        *note_rows(output == 0, table.lines, "without output tokens left out"),
        *note_rows(prompt == 0, table.lines, "without prompt tokens left out"),
        *note_rows(
            total != prompt + output, table.lines, "whose `Total tokens` is not the sum (not used)"
        ),
    )
    kept = ((prompt > 0) & (output > 0)).nonzero()[0]
    if not len(kept):
        raise WorkloadError(f"{source.name}: no row with prompt and output tokens: {notes[0]}")
    rows = Rows(
        time_ns=table.values["Timestamp"][kept],
        prompt_tokens=prompt[kept],
        output_tokens=output[kept],
        lines=[table.lines[row] for row in kept.tolist()],
    )
    return trace_from_rows(rows, format="burstgpt", num_rows=len(prompt), notes=notes)
