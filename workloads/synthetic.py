"""Workloads drawn from distributions."""

from dataclasses import dataclass

import numpy as np

from workloads.arrivals import Arrivals, ClosedLoop
from workloads.beams import BeamModel
from workloads.checks import require_count
from workloads.lengths import Lengths
from workloads.limits import output_limits
from workloads.streams import stream
from workloads.workload import Int64Column, Workload


@dataclass(frozen=True)
class SharedPrefix:
    """Groups of requests that begin with the same system prompt, one prompt per group.

    groups: number of groups; a request belongs to each with equal probability.
    tokens: length of a group's system prompt, drawn once per group.

    Raises WorkloadError for fewer than one group.
    """

    groups: int
    tokens: Lengths

    def __post_init__(self) -> None:
        require_count("groups", self.groups)


def synthetic(
    *,
    num_requests: int,
    seed: int,
    arrivals: Arrivals | ClosedLoop,
    unique: Lengths,
    outputs: Lengths,
    shared: SharedPrefix | None = None,
    num_outputs: int = 1,
    beam_switch: float | None = None,
    max_new_tokens: int | None = None,
    max_model_len: int,
) -> Workload:
    """Requests of [system prompt of a group] + a user turn of its own.

    Arrivals, lengths and groups are drawn from streams of their own, so that changing one leaves
    the others as they are. max_new_tokens None is the largest output there is, else what
    max_model_len leaves. num_outputs: of each request, all as long as its output.
    beam_switch: what `BeamModel.switch` is, if they are beams. Content ids: groups first, then user
    turns, then answers.

    Raises WorkloadError for a number that cannot be, as `output_limits` and `stream` do.
    """
    require_count("num_requests", num_requests)
    require_count("num_outputs", num_outputs)
    turn_tokens = unique.sample(num_requests, stream(seed, "prompt lengths"))
    output_tokens = outputs.sample(num_requests, stream(seed, "output lengths"))
    first_turn_id = 0 if shared is None else shared.groups
    turn_ids = first_turn_id + np.arange(num_requests, dtype=np.int64)

    if shared is None:
        ids, tokens = turn_ids[:, np.newaxis], turn_tokens[:, np.newaxis]
    else:
        groups, system_tokens = _draw_groups(shared, num_requests, seed)
        ids = np.column_stack((groups, turn_ids))
        tokens = np.column_stack((system_tokens, turn_tokens))

    prompt_tokens = tokens.sum(axis=1)
    limits = output_limits(
        prompt_tokens,
        output_tokens,
        max_new_tokens=outputs.max_tokens if max_new_tokens is None else max_new_tokens,
        max_model_len=max_model_len,
    )
    closed_loop = arrivals if isinstance(arrivals, ClosedLoop) else None
    return Workload(
        arrival_ns=_arrival_ns(arrivals, num_requests, seed),
        closed_loop=closed_loop,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        max_new_tokens=limits.max_new_tokens,
        segment_offsets=np.arange(num_requests + 1, dtype=np.int64) * ids.shape[1],
        segment_ids=ids.ravel(),
        segment_tokens=tokens.ravel(),
        answer_ids=turn_ids[-1] + 1 + num_outputs * np.arange(num_requests, dtype=np.int64),
        num_outputs=num_outputs,
        beams=None if beam_switch is None else BeamModel(beam_switch, seed),
        notes=limits.notes,
    )


def _draw_groups(
    shared: SharedPrefix, num_requests: int, seed: int
) -> tuple[Int64Column, Int64Column]:
    """Each request's group, and the length of its system prompt."""
    group_tokens = shared.tokens.sample(shared.groups, stream(seed, "group lengths"))
    groups = stream(seed, "groups").integers(shared.groups, size=num_requests, dtype=np.int64)
    return groups, group_tokens[groups]


def _arrival_ns(
    arrivals: Arrivals | ClosedLoop, num_requests: int, seed: int
) -> Int64Column | None:
    if isinstance(arrivals, ClosedLoop):
        return None
    return arrivals.times_ns(num_requests, stream(seed, "arrivals"))
