"""Conversations: how many turns they have, and what a prompt holds of those before it."""

from dataclasses import dataclass

import numpy as np

from workloads.checks import LATEST_NS
from workloads.durations import Durations
from workloads.errors import WorkloadError
from workloads.lengths import Lengths
from workloads.streams import stream
from workloads.workload import Int64Column


@dataclass(frozen=True)
class Sessions:
    """Conversations of several turns, each sent when the one before it has been answered.

    turns: how many a session has. think_time: from the end of an answer to the next turn.
    first: length of what is new in a first turn, such as a task or a file; None: as in later ones.
    """

    turns: Lengths
    think_time: Durations
    first: Lengths | None = None


def draw_turns(
    sessions: Sessions | None, num_requests: int, seed: int
) -> tuple[Int64Column, Int64Column]:
    """So many requests, session after session, of which the last is cut; None: one in each.

    Returns of each request its session, and how many turns of that come before it.
    """
    numbers = np.arange(num_requests, dtype=np.int64)
    if sessions is None:
        return numbers, np.zeros_like(numbers)
    stops = np.cumsum(sessions.turns.sample(num_requests, stream(seed, "turns")))
    session = np.searchsorted(stops, numbers, side="right")
    return session, numbers - np.concatenate(([0], stops))[session]


def think_times_ns(
    sessions: Sessions | None, num_before: Int64Column, seed: int
) -> Int64Column | None:
    """[n] from the answer before to each turn; 0 for first ones. None: there are no sessions.

    Raises WorkloadError for times that would leave the clock of int64 nanoseconds.
    """
    if sessions is None:
        return None
    times_s = sessions.think_time.sample_s(len(num_before), stream(seed, "think times"))
    if times_s.sum() > LATEST_NS / 2e9:
        mean = f"got a mean of {times_s.mean():.3g} s"
        raise WorkloadError(f"think times: {mean}, expected less: together they pass 140 years")
    return np.where(num_before > 0, np.rint(times_s * 1e9).astype(np.int64), 0)


def history_tokens(num_before: Int64Column, said_tokens: Int64Column) -> Int64Column:
    """[n] what was said in the session before each request; said_tokens: [n] turn and answer."""
    before = np.cumsum(said_tokens) - said_tokens
    first: Int64Column = before[np.arange(len(before)) - num_before]
    return before - first


def quotes(num_before: Int64Column) -> tuple[Int64Column, Int64Column]:
    """What prompts are made of: all turns and answers of the session so far, and a turn.

    Returns offsets [n + 1] and places: request i has places[offsets[i] : offsets[i + 1]]. The turn
    of request k is at place 2 k, its answer at 2 k + 1.
    """
    num_places = 2 * num_before + 1
    offsets = np.concatenate(([0], np.cumsum(num_places)))
    first = 2 * (np.arange(len(num_before)) - num_before)
    return offsets, np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], num_places)
