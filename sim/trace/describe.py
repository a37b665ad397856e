"""What is in a trace, in numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workloads import Trace
from workloads.sharing import POLICIES, Blocks, blocks_of, curve_sizes, unlimited
from workloads.trace import session_numbers
from workloads.workload import Int64Column

_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Lengths:
    """Of prompts or outputs, in tokens; percentiles are nearest-rank."""

    total: int
    mean: float
    percentiles: dict[int, int]
    max: int


@dataclass(frozen=True)
class Arrivals:
    """When requests come, or sessions where requests are turns of them.

    rate_per_s: of the gaps; None for fewer than two arrivals, or all at once. cv: coefficient of
        variation of the gaps, 1 for Poisson; None also for one gap.
    num_ties: arrivals at the instant of the one before.
    """

    span_s: float
    rate_per_s: float | None
    cv: float | None
    num_ties: int


@dataclass(frozen=True)
class Sessions:
    """Requests that wait for one another's answers. num_of_one: sessions of a single request."""

    num_sessions: int
    num_of_one: int
    mean_turns: float
    max_turns: int


@dataclass(frozen=True)
class Point:
    """A cache of so many blocks: the shares of blocks and of prompt tokens that it finds."""

    policy: str
    num_blocks: int
    block_share: float
    token_share: float


@dataclass(frozen=True)
class Sharing:
    """How much of the prompts an earlier one has; points: by policy and size of the cache."""

    block_size: int
    num_blocks: int
    num_distinct_blocks: int
    hit_blocks: int
    block_share: float
    token_share: float
    points: list[Point]


@dataclass(frozen=True)
class Description:
    """All that `kvsim trace` says. sharing: None where nobody knows what prompts hold."""

    format: str
    num_rows: int
    num_requests: int
    arrivals: Arrivals | None
    sessions: Sessions | None
    prompt_tokens: Lengths
    output_tokens: Lengths
    sharing: Sharing | None
    notes: tuple[str, ...]


def describe(trace: Trace, block_size: int | None, *, with_sharing: bool = True) -> Description:
    """All of it, or all but what is shared. Raises WorkloadError for a block size below 1."""
    blocks = blocks_of(trace, block_size) if with_sharing else None
    return Description(
        format=trace.format,
        num_rows=trace.num_rows,
        num_requests=len(trace),
        arrivals=_arrivals(trace),
        sessions=_sessions(trace),
        prompt_tokens=_lengths(trace.prompt_tokens),
        output_tokens=_lengths(trace.output_tokens),
        sharing=_sharing(blocks, int(trace.prompt_tokens.sum())) if blocks else None,
        notes=trace.notes,
    )


def _lengths(tokens: Int64Column) -> Lengths:
    ranked = np.sort(tokens)
    ranks = {p: max(-(-len(tokens) * p // 100) - 1, 0) for p in _PERCENTILES}
    return Lengths(
        total=int(tokens.sum()),
        mean=float(tokens.mean()),
        percentiles={p: int(ranked[rank]) for p, rank in ranks.items()},
        max=int(tokens.max()),
    )


def _arrivals(trace: Trace) -> Arrivals | None:
    if trace.arrival_ns is None:
        return None
    times_ns = trace.arrival_ns if trace.previous is None else trace.arrival_ns[trace.previous < 0]
    gaps_s = np.diff(times_ns) / 1e9
    span_s = float(times_ns[-1] - times_ns[0]) / 1e9
    is_spread = span_s > 0
    return Arrivals(
        span_s=span_s,
        rate_per_s=len(gaps_s) / span_s if is_spread else None,
        cv=float(gaps_s.std() / gaps_s.mean()) if is_spread and len(gaps_s) > 1 else None,
        num_ties=int((gaps_s == 0).sum()),
    )


def _sessions(trace: Trace) -> Sessions | None:
    if trace.previous is None:
        return None
    turns = np.bincount(session_numbers(trace))
    return Sessions(
        num_sessions=len(turns),
        num_of_one=int((turns == 1).sum()),
        mean_turns=float(turns.mean()),
        max_turns=int(turns.max()),
    )


def _sharing(blocks: Blocks, prompt_tokens: int) -> Sharing:
    hits, num_blocks = unlimited(blocks), max(blocks.num_blocks, 1)
    return Sharing(
        block_size=blocks.block_size,
        num_blocks=blocks.num_blocks,
        num_distinct_blocks=blocks.num_distinct,
        hit_blocks=hits.num_blocks,
        block_share=hits.num_blocks / num_blocks,
        token_share=hits.num_tokens / prompt_tokens,
        points=list(_points(blocks, prompt_tokens)) if hits.num_blocks else [],
    )


def _points(blocks: Blocks, prompt_tokens: int) -> Iterator[Point]:
    for size in curve_sizes(blocks):
        for name, policy in POLICIES.items():
            hits = policy(blocks, size)
            share = hits.num_blocks / blocks.num_blocks
            yield Point(name, size, share, hits.num_tokens / prompt_tokens)
