"""kvsim's own format, CSV or JSON lines, read and written: docs/traces.md has its columns.

arrival_s, prompt_tokens, output_tokens; optional session, turn, think_time_s and priority; in JSON
lines also segments, block_tokens and answer_id, which CSV has no room for.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from workloads.checks import listed
from workloads.errors import WorkloadError
from workloads.files import bad_file
from workloads.readers.counts import note_rows
from workloads.readers.own_table import COLUMNS, LENGTHS, Table, read_table
from workloads.readers.turns import first_of_session, in_turn
from workloads.source import Source
from workloads.trace import Rows, Trace, session_numbers, trace_from_rows


def recognises(source: Source) -> bool:
    """Whether the keys or columns are those, times or sessions among them if it is CSV."""
    columns = set(source.columns)
    is_csv = columns >= set(LENGTHS) and columns & (set(COLUMNS) - set(LENGTHS))
    return source.keys >= set(LENGTHS) or bool(is_csv)


def read(source: Source) -> Trace:
    """Read the trace. Rows out of time order are sorted and noted (see `trace_from_rows`).

    Rows of one `session` are sent one after the other, in order of `turn` (without that column, of
    the file), each think_time_s after the answer before it; times of later turns are not used, and
    a note counts those that are not the first turn's.

    Raises WorkloadError for turns of a session that are not 1, 2, ..., for segments that do not sum
    to prompt_tokens, and as `read_csv_table` and `read_jsonl` do.
    """
    table = read_table(source)
    num_rows = len(table.lines)
    notes: tuple[str, ...] = ()
    values, lines, contents = table.values, table.lines, table.contents
    if "session" not in values and values.keys() & {"turn", "think_time_s"}:
        raise WorkloadError(
            f"{source.name}: got turns or think times, expected session beside them"
        )
    previous = think_time_ns = None
    if "session" in values:
        _refuse_turns_of_none(source, table)
        turn = values["turn"].tolist() if "turn" in values else None
        order, previous = in_turn(source, lines, values["session"].tolist(), turn)
        is_moved = order != np.arange(num_rows)
        notes = note_rows(is_moved, lines, "not in order of turn (sorted)", counted=source.counted)
        values = {name: column[order] for name, column in values.items()}
        lines = [lines[row] for row in order.tolist()]
        contents = None if contents is None else [contents[row] for row in order.tolist()]
        think_time_ns = values.get("think_time_s", np.zeros(num_rows, dtype=np.int64))
    time_ns = values.get("arrival_s")
    if time_ns is not None and previous is not None:
        of_first = time_ns[first_of_session(previous)]
        what = "of later turns came at times of their own (not used)"
        notes = (*notes, *note_rows(time_ns != of_first, lines, what, counted=source.counted))
        time_ns = of_first
    if time_ns is None:
        notes = (*notes, f"no arrival_s among {listed(sorted(source.keys) or source.columns)}")
    rows = Rows(
        time_ns=time_ns,
        prompt_tokens=values["prompt_tokens"],
        output_tokens=values["output_tokens"],
        lines=lines,
        contents=contents,
        block_tokens=table.block_tokens,
        previous=previous,
        think_time_ns=think_time_ns,
        answer_ids=values.get("answer_id"),
        priority=values.get("priority"),
        counted=source.counted,
    )
    return trace_from_rows(rows, format="kvsim", num_rows=num_rows, notes=notes)


def _refuse_turns_of_none(source: Source, table: Table) -> None:
    """Raise WorkloadError for rows that are a later turn, or wait, of no session."""
    problems = []
    for name, plain in (("turn", 1), ("think_time_s", 0)):
        if name in table.values:
            is_wrong = (table.values["session"] < 0) & (table.values[name] != plain)
            problems += [
                f"{source.counted} {table.lines[row]}: got a {name}, expected a session beside it"
                for row in np.flatnonzero(is_wrong).tolist()
            ]
    if problems:
        raise bad_file(source.name, problems)


def write_csv(trace: Trace, path: str | Path) -> None:
    """Write a trace so that reading it gives the same; times to the nanosecond.

    Raises WorkloadError for one whose prompts say what they share, and as `_write` does.
    """
    if trace.segments is not None or trace.answer_ids is not None:
        raise WorkloadError(f"{path}: CSV has no room for what prompts share, expected JSON lines")
    rows = _rows(trace)
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    _write(path, lines)


def write_jsonl(trace: Trace, path: str | Path) -> None:
    """Write a trace so that reading it gives the same; times are exact up to 97 days.

    Raises WorkloadError as `_write` does.
    """
    rows = _rows(trace)
    for name in ("arrival_s", "think_time_s"):
        for row in rows:
            if name in row:
                row[name] = float(row[name])
    if trace.answer_ids is not None:
        for row, answer_id in zip(rows, trace.answer_ids.tolist(), strict=True):
            row["answer_id"] = answer_id
    if trace.segments is not None:
        for number, row in enumerate(rows):
            row["segments"] = trace.segments.of(number)
            row["block_tokens"] = trace.segments.block_tokens
    _write(path, [json.dumps(row) for row in rows])


def _rows(trace: Trace) -> list[dict[str, Any]]:
    """Values by column of each request, times as texts."""
    columns: dict[str, list[Any]] = {}
    if trace.arrival_ns is not None:
        columns["arrival_s"] = [_seconds(time) for time in trace.arrival_ns.tolist()]
    columns["prompt_tokens"] = trace.prompt_tokens.tolist()
    columns["output_tokens"] = trace.output_tokens.tolist()
    if trace.previous is not None and trace.think_time_ns is not None:
        columns["session"] = (session_numbers(trace) + 1).tolist()
        columns["turn"] = _turns(trace.previous.tolist())
        columns["think_time_s"] = [_seconds(time) for time in trace.think_time_ns.tolist()]
    if trace.priority is not None:
        columns["priority"] = trace.priority.tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _turns(previous: list[int]) -> list[int]:
    turns: list[int] = []
    for before in previous:
        turns.append(1 if before < 0 else turns[before] + 1)
    return turns


def _seconds(time_ns: int) -> str:
    return f"{time_ns // 10**9}.{time_ns % 10**9:09d}"


def _write(path: str | Path, lines: list[str]) -> None:
    """Raises WorkloadError for a path that cannot be written."""
    try:
        Path(path).write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be written: {error.strerror}") from error
