"""Lengths of requests without any times, CSV.

Columns are those of the format `csv` without the one of arrivals: num_prefill_tokens and
num_decode_tokens in Vidur's `arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv`
(github.com/microsoft/vidur), else input_length, output_length or prompt_tokens, output_tokens.
"""

from workloads.checks import listed
from workloads.readers.csv_requests import Names, read_requests
from workloads.readers.generic_csv import ARRIVAL, OUTPUT, PROMPT, find_columns
from workloads.readers.headers import plain
from workloads.source import Source
from workloads.trace import Trace

COLUMNS = (*PROMPT, *OUTPUT)


def recognises(source: Source) -> bool:
    """Whether there are columns of both lengths and none that is like arrivals or sessions."""
    columns = set(source.columns)
    has_more = {plain(name) for name in columns} & {*ARRIVAL, "session"}
    return bool(columns & set(PROMPT) and columns & set(OUTPUT)) and not has_more


def read(source: Source) -> Trace:
    """Read the lengths, in the order of the file; a note lists the columns, none of them a time.

    Raises WorkloadError as `find_columns` and `read_requests` do.
    """
    names = Names(None, *find_columns(source, (PROMPT, OUTPUT)))
    note = f"no arrival column (such as arrival_s) found among {listed(source.columns)}"
    return read_requests(source, names, format="lengths", notes=(note,))
