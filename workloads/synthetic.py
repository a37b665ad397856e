"""Workloads drawn from distributions."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from workloads.arrivals import Arrivals, ClosedLoop
from workloads.beams import BeamModel
from workloads.checks import require_between, require_count
from workloads.lengths import Lengths
from workloads.limits import output_limits
from workloads.sessions import Sessions, draw_turns, history_tokens, quotes
from workloads.streams import stream
from workloads.workload import Int64Column, Workload


@dataclass(frozen=True)
class SharedPrefix:
    """Groups of requests that begin with the same system prompt, one prompt per group.

    groups: number of groups. tokens: length of a group's system prompt, drawn once per group.
    zipf: a request belongs to group number k, from 1, with a probability that goes as k**-zipf
        (Zipf's law); 0: to each with equal probability.

    Raises WorkloadError for fewer than one group, and an exponent that is not from 0 to 10.
    """

    groups: int
    tokens: Lengths
    zipf: float = 0.0

    def __post_init__(self) -> None:
        require_count("groups", self.groups)
        require_between("zipf", self.zipf, 0, 10)


def synthetic(
    *,
    num_requests: int,
    seed: int,
    arrivals: Arrivals | ClosedLoop,
    unique: Lengths,
    outputs: Lengths,
    shared: SharedPrefix | None = None,
    sessions: Sessions | None = None,
    num_outputs: int = 1,
    beam_switch: float | None = None,
    max_new_tokens: int | None = None,
    max_model_len: int,
) -> Workload:
    """Requests of [system prompt of a group] + what was said in the session + a turn of its own.

    A session belongs to one group, and arrivals say when sessions start; without `sessions` each
    request is one. Where a prompt would leave no room for output within max_model_len, the session
    ends before it: that turn and those after it are left out, and a note counts them. A session
    goes on with the first output of a request.

    Arrivals, lengths, turns and groups are drawn from streams of their own, so that changing one
    leaves the others as they are. max_new_tokens None is the largest output there is, else what
    max_model_len leaves. num_outputs: of each request, all as long as its output.
    beam_switch: what `BeamModel.switch` is, if they are beams. Content ids: groups first, then user
    turns, then answers.

    Raises WorkloadError for a number that cannot be, as `output_limits` and `stream` do.
    """
    require_count("num_requests", num_requests)
    require_count("num_outputs", num_outputs)
    limit = outputs.max_tokens if max_new_tokens is None else max_new_tokens
    drawn = _draw(num_requests, seed, unique, outputs, shared, sessions)
    answer_ids = drawn.turn_ids[-1] + 1 + num_outputs * np.arange(num_requests, dtype=np.int64)
    num_sessions = int(drawn.session[-1]) + 1
    # One that max_model_len cuts is quoted by nobody.
    answer_tokens = drawn.output_tokens if limit is None else drawn.output_tokens.clip(max=limit)
    said_ids = np.column_stack((drawn.turn_ids, answer_ids))
    said_tokens = np.column_stack((drawn.turn_tokens, answer_tokens))
    history = history_tokens(drawn.num_before, said_tokens.sum(axis=1))
    prompt_tokens = drawn.system_tokens + history + drawn.turn_tokens

    is_sent = (drawn.num_before == 0) | (prompt_tokens < max_model_len)
    notes = _note_ended(drawn.session[~is_sent], max_model_len)
    drawn = _Drawn(*(column[is_sent] for column in drawn))
    said_ids, said_tokens, prompt_tokens = (
        column[is_sent] for column in (said_ids, said_tokens, prompt_tokens)
    )
    offsets, places = quotes(drawn.num_before)
    ids, tokens = said_ids.ravel()[places], said_tokens.ravel()[places]
    if shared is not None:
        ids = np.insert(ids, offsets[:-1], drawn.group)
        tokens = np.insert(tokens, offsets[:-1], drawn.system_tokens)
        offsets += np.arange(len(offsets))
    limits = output_limits(
        prompt_tokens, drawn.output_tokens, max_new_tokens=limit, max_model_len=max_model_len
    )
    arrival_ns = _arrival_ns(arrivals, num_sessions, seed)
    previous, think_time_ns = _waiting(sessions, drawn.num_before)
    return Workload(
        arrival_ns=None if arrival_ns is None else arrival_ns[drawn.session],
        closed_loop=arrivals if isinstance(arrivals, ClosedLoop) else None,
        prompt_tokens=prompt_tokens,
        output_tokens=drawn.output_tokens,
        max_new_tokens=limits.max_new_tokens,
        segment_offsets=offsets,
        segment_ids=ids,
        segment_tokens=tokens,
        answer_ids=said_ids[:, 1],
        num_outputs=num_outputs,
        beams=None if beam_switch is None else BeamModel(beam_switch, seed),
        previous=previous,
        think_time_ns=think_time_ns,
        notes=(*notes, *limits.notes),
    )


class _Drawn(NamedTuple):
    """[n] of each request: its session, turns of it before, group, ids and lengths."""

    session: Int64Column
    num_before: Int64Column
    group: Int64Column
    system_tokens: Int64Column
    turn_ids: Int64Column
    turn_tokens: Int64Column
    output_tokens: Int64Column


def _draw(
    num_requests: int,
    seed: int,
    unique: Lengths,
    outputs: Lengths,
    shared: SharedPrefix | None,
    sessions: Sessions | None,
) -> _Drawn:
    session, num_before = draw_turns(sessions, num_requests, seed)
    group = system_tokens = np.zeros(num_requests, np.int64)
    if shared is not None:
        groups, group_tokens = _draw_groups(shared, int(session[-1]) + 1, seed)
        group, system_tokens = groups[session], group_tokens[session]
    return _Drawn(
        session,
        num_before,
        group,
        system_tokens,
        turn_ids=(shared.groups if shared else 0) + np.arange(num_requests, dtype=np.int64),
        turn_tokens=unique.sample(num_requests, stream(seed, "prompt lengths")),
        output_tokens=outputs.sample(num_requests, stream(seed, "output lengths")),
    )


def _waiting(
    sessions: Sessions | None, num_before: Int64Column
) -> tuple[Int64Column | None, Int64Column | None]:
    """The columns that say which answers requests wait for, and how long after them they come."""
    if sessions is None:
        return None, None
    follows = num_before > 0
    previous = np.where(follows, np.arange(len(follows)) - 1, -1)
    return previous, np.where(follows, round(sessions.think_time_s * 1e9), 0)


def _note_ended(sessions: Int64Column, max_model_len: int) -> tuple[str, ...]:
    """sessions: of each request that is left out."""
    if not len(sessions):
        return ()
    num_sessions = len(np.unique(sessions))
    ended = f"{num_sessions} session{'s' if num_sessions > 1 else ''} ended early"
    return (f"{ended} at max_model_len {max_model_len}: {len(sessions)} requests fewer",)


def _draw_groups(
    shared: SharedPrefix, num_sessions: int, seed: int
) -> tuple[Int64Column, Int64Column]:
    """Each session's group, and the length of its system prompt."""
    group_tokens = shared.tokens.sample(shared.groups, stream(seed, "group lengths"))
    rng = stream(seed, "groups")
    if shared.zipf:
        ends = np.cumsum(np.arange(1, shared.groups + 1, dtype=np.float64) ** -shared.zipf)
        draws = rng.random(num_sessions) * ends[-1]
        groups = np.searchsorted(ends[:-1], draws, side="right").astype(np.int64)
    else:
        groups = rng.integers(shared.groups, size=num_sessions, dtype=np.int64)
    return groups, group_tokens[groups]


def _arrival_ns(
    arrivals: Arrivals | ClosedLoop, num_sessions: int, seed: int
) -> Int64Column | None:
    if isinstance(arrivals, ClosedLoop):
        return None
    return arrivals.times_ns(num_sessions, stream(seed, "arrivals"))
