"""Workloads drawn from distributions."""

from typing import NamedTuple

import numpy as np

from workloads.arrivals import Arrivals, ClosedLoop
from workloads.beams import BeamModel
from workloads.checks import require_count
from workloads.lengths import Lengths
from workloads.limits import output_limits
from workloads.prefixes import Documents, Prefixes, SharedPrefix, draw_prefixes
from workloads.sessions import Sessions, draw_turns, history_tokens, quotes, think_times_ns
from workloads.streams import stream
from workloads.workload import Int64Column, Workload


def synthetic(
    *,
    num_requests: int,
    seed: int,
    arrivals: Arrivals | ClosedLoop,
    unique: Lengths,
    outputs: Lengths,
    shared: SharedPrefix | None = None,
    documents: Documents | None = None,
    sessions: Sessions | None = None,
    num_outputs: int = 1,
    beam_switch: float | None = None,
    max_new_tokens: int | None = None,
    max_model_len: int,
) -> Workload:
    """Requests of [system prompt, documents] + what was said in the session + a turn of its own.

    A session has the system prompt of one group and some documents, and arrivals say when sessions
    start; without `sessions` each request is one. Where a prompt would leave no room for output
    within max_model_len, the session ends before it: that turn and those after it are left out, and
    a note counts them. A session goes on with the first output of a request.

    Arrivals, lengths, turns, groups and documents are drawn from streams of their own, so that
    changing one leaves the others as they are. max_new_tokens None is the largest output there is,
    else what max_model_len leaves. num_outputs: of each request, all as long as its output.
    beam_switch: what `BeamModel.switch` is, if they are beams. Content ids: groups first, then
    documents, turns of users, and answers.

    Raises WorkloadError for a number that cannot be, as `output_limits` and `stream` do.
    """
    require_count("num_requests", num_requests)
    require_count("num_outputs", num_outputs)
    limit = outputs.max_tokens if max_new_tokens is None else max_new_tokens
    session, num_before = draw_turns(sessions, num_requests, seed)
    num_sessions = int(session[-1]) + 1
    prefixes = draw_prefixes(shared, documents, num_sessions, seed)
    numbers = np.arange(num_requests, dtype=np.int64)
    output_tokens = outputs.sample(num_requests, stream(seed, "output lengths"))
    first_answer_id = prefixes.num_contents + num_requests
    said = _Said(
        turn_ids=prefixes.num_contents + numbers,
        turn_tokens=_turn_tokens(unique, sessions, num_before, seed),
        answer_ids=first_answer_id + num_outputs * numbers,
        # One that max_model_len cuts is quoted by nobody.
        answer_tokens=output_tokens if limit is None else output_tokens.clip(max=limit),
    )
    history = history_tokens(num_before, said.turn_tokens + said.answer_tokens)
    prompt_tokens = prefixes.tokens.sum(axis=1)[session] + history + said.turn_tokens
    think_time_ns = think_times_ns(sessions, num_before, seed)

    is_sent = (num_before == 0) | (prompt_tokens < max_model_len)
    notes = _note_ended(session[~is_sent], max_model_len)
    session, num_before = session[is_sent], num_before[is_sent]
    prompt_tokens, output_tokens = prompt_tokens[is_sent], output_tokens[is_sent]
    said = _Said(*(column[is_sent] for column in said))
    offsets, ids, tokens = _segments(prefixes, session, num_before, said)
    limits = output_limits(
        prompt_tokens, output_tokens, max_new_tokens=limit, max_model_len=max_model_len
    )
    arrival_ns = _arrival_ns(arrivals, num_sessions, seed)
    return Workload(
        arrival_ns=None if arrival_ns is None else arrival_ns[session],
        closed_loop=arrivals if isinstance(arrivals, ClosedLoop) else None,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        max_new_tokens=limits.max_new_tokens,
        segment_offsets=offsets,
        segment_ids=ids,
        segment_tokens=tokens,
        answer_ids=said.answer_ids,
        num_outputs=num_outputs,
        beams=None if beam_switch is None else BeamModel(beam_switch, seed),
        previous=None if sessions is None else _previous(num_before),
        think_time_ns=None if think_time_ns is None else think_time_ns[is_sent],
        notes=(*notes, *limits.notes),
    )


class _Said(NamedTuple):
    """[n] content id and length of each turn of a user and the answer that later ones quote."""

    turn_ids: Int64Column
    turn_tokens: Int64Column
    answer_ids: Int64Column
    answer_tokens: Int64Column


def _turn_tokens(
    unique: Lengths, sessions: Sessions | None, num_before: Int64Column, seed: int
) -> Int64Column:
    tokens = unique.sample(len(num_before), stream(seed, "prompt lengths"))
    if sessions is None or sessions.first is None:
        return tokens
    first = sessions.first.sample(len(num_before), stream(seed, "first prompt lengths"))
    return np.where(num_before == 0, first, tokens)


def _segments(
    prefixes: Prefixes, session: Int64Column, num_before: Int64Column, said: _Said
) -> tuple[Int64Column, Int64Column, Int64Column]:
    """Offsets, ids and lengths of what prompts hold, as in `Workload`."""
    offsets, places = quotes(num_before)
    starts = np.repeat(offsets[:-1], prefixes.ids.shape[1])
    said_ids = np.column_stack((said.turn_ids, said.answer_ids)).ravel()
    said_tokens = np.column_stack((said.turn_tokens, said.answer_tokens)).ravel()
    return (
        offsets + prefixes.ids.shape[1] * np.arange(len(offsets)),
        np.insert(said_ids[places], starts, prefixes.ids[session].ravel()),
        np.insert(said_tokens[places], starts, prefixes.tokens[session].ravel()),
    )


def _previous(num_before: Int64Column) -> Int64Column:
    """[n] the turn before, which stands just before; -1 for a first one."""
    return np.where(num_before > 0, np.arange(len(num_before)) - 1, -1)


def _note_ended(sessions: Int64Column, max_model_len: int) -> tuple[str, ...]:
    """sessions: of each request that is left out."""
    if not len(sessions):
        return ()
    num_sessions = len(np.unique(sessions))
    ended = f"{num_sessions} session{'s' if num_sessions > 1 else ''} ended early"
    return (f"{ended} at max_model_len {max_model_len}: {len(sessions)} requests fewer",)


def _arrival_ns(
    arrivals: Arrivals | ClosedLoop, num_sessions: int, seed: int
) -> Int64Column | None:
    if isinstance(arrivals, ClosedLoop):
        return None
    return arrivals.times_ns(num_sessions, stream(seed, "arrivals"))
