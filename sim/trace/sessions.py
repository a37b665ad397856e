"""Turns of sessions, as keys of a scenario's `workload`."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.trace.beside import Beside
from workloads import Segment, Trace
from workloads.trace import Segments, session_numbers
from workloads.workload import Int64Column, int64_column


@dataclass(frozen=True)
class Turns:
    """What is new in the turns of sessions.

    first: [sessions] length of the first prompt. think_time_ns, added: [later turns] after which
        time a turn comes, and by how much its prompt is longer than that before and its answer.
    is_cut: [later turns] whether the prompt does not begin with that before, or is no longer.
    """

    first: Int64Column
    think_time_ns: Int64Column
    added: Int64Column
    is_cut: npt.NDArray[np.bool_]

    @property
    def is_partly_quoted(self) -> npt.NDArray[np.bool_]:
        """[later turns] whether the prompt has not room for all of the answer and a token more."""
        return ~self.is_cut & (self.added < 1)

    @property
    def new(self) -> Int64Column:
        """What later turns add to their history, at least a token; of those that are not cut."""
        return np.maximum(self.added[~self.is_cut], 1)


def turns_of(trace: Trace) -> Turns:
    """Of a trace with sessions."""
    assert trace.previous is not None
    assert trace.think_time_ns is not None
    later = np.flatnonzero(trace.previous >= 0)
    before = trace.previous[later]
    lengths = trace.prompt_tokens
    is_cut = lengths[later] <= lengths[before]
    if trace.segments is not None:
        # Of the trace's own blocks the last, which may be a part, is another one when it is full.
        size = trace.segments.block_tokens
        pairs = zip(before.tolist(), later.tolist(), strict=True)
        common = int64_column(_common(trace.segments, a, b) for a, b in pairs)
        is_cut |= common < lengths[before] // size * size
    return Turns(
        first=lengths[trace.previous < 0],
        think_time_ns=trace.think_time_ns[later],
        added=lengths[later] - lengths[before] - trace.output_tokens[before],
        is_cut=is_cut,
    )


def fit_sessions(trace: Trace, beside: Beside) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Prompts, outputs and sessions, and notes on what was fitted and what was not."""
    turns = turns_of(trace)
    shared, note = _system_prompt(trace)
    first = turns.first
    prompts: dict[str, Any] = {}
    if shared is not None:
        tokens = beside.lengths("system", shared.tokens)
        prompts["shared"] = {"groups": len(shared.tokens), "tokens": tokens}
        first = np.maximum(first - shared.tokens[shared.group], 1)
    sessions = {"turns": beside.lengths("turns", np.bincount(session_numbers(trace)))}
    sessions["first"] = beside.lengths("first", first)
    new = turns.new if len(turns.new) else first
    prompts["unique"] = beside.lengths("prompts", new)
    if len(turns.think_time_ns):
        sessions["think_time_s"] = beside.seconds("think", turns.think_time_ns)
    keys = {
        "prompts": prompts,
        "outputs": beside.lengths("outputs", trace.output_tokens),
        "sessions": sessions,
    }
    return keys, (_NOTE, *_notes(turns), note)


_NOTE = "turns, what is new in them, outputs and think times are drawn each by itself"


def _notes(turns: Turns) -> tuple[str, ...]:
    num_later = len(turns.added)
    cut, partly = int(turns.is_cut.sum()), int(turns.is_partly_quoted.sum())
    notes = []
    if cut:
        notes.append(
            f"not fitted: {cut} of {num_later} later turns have a prompt that does not go on from "
            "the one before; here all do"
        )
    if partly:
        notes.append(
            f"{partly} of {num_later} later turns have a prompt without all of the answer before: "
            "taken as one token that is new"
        )
    return tuple(notes)


class _Groups(NamedTuple):
    """Sessions that begin alike. tokens: [groups] of the beginning. group: [sessions]."""

    tokens: Int64Column
    group: Int64Column


def _system_prompt(trace: Trace) -> tuple[_Groups | None, str]:
    """What first turns begin with, where each begins as some other does."""
    assert trace.previous is not None
    if trace.segments is None:
        return None, (
            "what prompts hold is not recorded: here a later one begins with all before it in its "
            "session, and sessions share nothing"
        )
    firsts = np.flatnonzero(trace.previous < 0).tolist()
    by_begin: dict[int, list[int]] = {}
    for session, request in enumerate(firsts):
        begin = int(trace.segments.ids[trace.segments.offsets[request]])
        by_begin.setdefault(begin, []).append(session)
    alone = sum(len(sessions) == 1 for sessions in by_begin.values())
    if alone == len(firsts):
        return None, "no two sessions begin alike"
    if alone:
        return None, (
            f"not fitted: {len(firsts) - alone} of {len(firsts)} sessions begin as another does, "
            "here none"
        )
    group = np.zeros(len(firsts), np.int64)
    tokens = []
    for number, sessions in enumerate(by_begin.values()):
        group[sessions] = number
        one, *others = (firsts[session] for session in sessions)
        tokens.append(min(_common(trace.segments, one, other) for other in others))
    return _Groups(int64_column(tokens), group), "system prompts are equally popular"


def _common(segments: Segments, one: int, other: int) -> int:
    """With how many tokens two prompts begin alike."""
    tokens = 0
    pairs: zip[tuple[Segment, Segment]]
    pairs = zip(segments.of(one), segments.of(other), strict=False)
    for (content_id, length), (other_id, other_length) in pairs:
        if content_id != other_id:
            break
        tokens += min(length, other_length)
        if length != other_length:
            break
    return tokens
