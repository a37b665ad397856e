"""Which replica serves a request: routers, each a function of the request and the replicas.

Of replicas that are equally good, the one with the lowest number is taken, unless said otherwise.
"""

import hashlib
from collections.abc import Callable, Sequence
from itertools import count
from typing import Literal, Protocol, get_args

import numpy as np

from engine.engine_base import EngineBase
from engine.request import Prompt, Request
from workloads import stream


class Routed(Protocol):
    """What a router may know of a replica."""

    @property
    def num_unfinished(self) -> int:
        """Requests that it has, running or waiting."""

    def look(self) -> EngineBase:
        """Its engine as it is now."""


Router = Callable[[Request, Sequence[Routed]], int]  # the number of the replica

RouterName = Literal[
    "round-robin", "least-requests", "power-of-two", "least-kv", "prefix-hash", "prefix-match"
]
ROUTERS: tuple[str, ...] = get_args(RouterName)

LEADING_TOKENS = 256  # that `prefix-hash` reads
# As `python -m sglang_router.launch_router` has them if it is not told otherwise (cache_threshold,
# balance_abs_threshold, balance_rel_threshold).
LEAST_MATCH = 0.3
MOST_REQUESTS_APART = 64
MOST_TIMES_AS_MANY = 1.5


def build_router(name: RouterName, seed: int) -> Router:
    """A router at its start. seed: of what it draws."""
    match name:
        case "round-robin":
            return _round_robin()
        case "least-requests":
            return least_requests
        case "power-of-two":
            return _power_of_two(stream(seed, "router"))
        case "least-kv":
            return least_kv
        case "prefix-hash":
            return prefix_hash
        case "prefix-match":
            return prefix_match


def _round_robin() -> Router:
    """One after the other."""
    turns = count()
    return lambda _, replicas: next(turns) % len(replicas)


def least_requests(_: Request, replicas: Sequence[Routed]) -> int:
    """The one with the fewest unfinished requests."""
    return _least([replica.num_unfinished for replica in replicas])


def _power_of_two(rng: np.random.Generator) -> Router:
    """Of two different ones drawn at random that with fewer unfinished requests, or the first.

    Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", IEEE Trans. Parallel
    Distrib. Syst. 12(10), 2001; two different ones, as SGLang's router draws them.
    """

    def route(_: Request, replicas: Sequence[Routed]) -> int:
        first = int(rng.integers(len(replicas)))
        second = int(rng.integers(len(replicas) - 1))
        second += second >= first
        is_less = replicas[second].num_unfinished < replicas[first].num_unfinished
        return second if is_less else first

    return route


def least_kv(_: Request, replicas: Sequence[Routed]) -> int:
    """The one whose requests hold least of its pool; of equals, the one with fewest requests.

    Requests that wait hold nothing yet.
    """
    usages = [replica.look().usage() for replica in replicas]
    return _least(
        [
            (usage.live + usage.tail + usage.reserved + usage.over_reserved, replica.num_unfinished)
            for usage, replica in zip(usages, replicas, strict=True)
        ]
    )


def prefix_hash(request: Request, replicas: Sequence[Routed]) -> int:
    """A hash of the first LEADING_TOKENS tokens of the prompt, or of all if it has fewer.

    Requests that begin with as many equal tokens meet, whatever the load.
    """
    return _content_hash(request.prompt, LEADING_TOKENS) % len(replicas)


def _content_hash(prompt: Prompt, num_tokens: int) -> int:
    """Of what the first num_tokens tokens hold: the same in every process, unlike Python's."""
    runs = prompt.block_runs(1, 0, min(num_tokens, len(prompt)), [])
    return int.from_bytes(hashlib.blake2b(repr(runs).encode(), digest_size=8).digest())


def prefix_match(request: Request, replicas: Sequence[Routed]) -> int:
    """The one that has the longest prefix of the prompt in its cache; of equals, least requests.

    But the one with the fewest requests of all where the longest match is no more than LEAST_MATCH
    of the prompt, and while loads are too far apart: more than MOST_REQUESTS_APART between the most
    and the fewest unfinished requests, and more than MOST_TIMES_AS_MANY times as many. The
    thresholds are those of `cache_aware` in SGLang's router (sgl-router/src/policies/
    cache_aware.rs), which guesses what is cached from what it has sent; here the caches are asked.
    """
    # All are asked also where it does not matter: see Replica.look.
    matched = [replica.look().num_cached_tokens(request) for replica in replicas]
    loads = [replica.num_unfinished for replica in replicas]
    most, fewest = max(loads), min(loads)
    is_uneven = most - fewest > MOST_REQUESTS_APART and most > MOST_TIMES_AS_MANY * fewest
    if is_uneven or max(matched) <= LEAST_MATCH * len(request.prompt):
        return _least(loads)
    return _least([(-tokens, load) for tokens, load in zip(matched, loads, strict=True)])


def _least(keys: Sequence[int] | Sequence[tuple[int, int]]) -> int:
    return min(range(len(keys)), key=keys.__getitem__)
