"""How much of their prompts the requests of a trace could share, by the size of a cache.

The cache holds blocks; a block is found if it and all before it are there. The requests look in it
in order of arrival, each before its own blocks are put in, as if an answer took no time.
"""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from workloads.checks import require_count
from workloads.content import Segment, SegmentPrompt
from workloads.trace import Segments, Trace

_NO_ANSWER = 0
_NEVER = 1 << 62
_BLOCK_SIZE = 16  # vLLM's
_MOST_BLOCKS = 2_000_000  # of all prompts, before they are taken to be larger


@dataclass(frozen=True)
class Blocks:
    """The blocks of n prompts. A number means the same content after the same blocks.

    ids: [n] of each prompt, in order. tokens: by id. block_size: tokens of a whole block.
    """

    ids: list[list[int]]
    tokens: list[int]
    block_size: int

    @property
    def num_blocks(self) -> int:
        """Of all prompts."""
        return sum(len(ids) for ids in self.ids)

    @property
    def num_distinct(self) -> int:
        """Different ones: what a cache needs to keep all of them."""
        return len(self.tokens)

    @cached_property
    def runs(self) -> "Runs":
        """The same by runs, of which there are far fewer."""
        return _runs(self)


@dataclass(frozen=True)
class Runs:
    """Blocks that no prompt has without the others, in the order in which prompts have them.

    A cache of any of the policies below loses them one after the other, the last first, so what it
    has of a run is the number of blocks that are left.

    ids: [n] runs of each prompt, in order. tokens: by id, of the first 0, 1, 2, ... blocks.
    """

    ids: list[list[int]]
    tokens: list[list[int]]


@dataclass(frozen=True)
class Hits:
    """What a cache found: blocks, and the tokens in them."""

    num_blocks: int
    num_tokens: int


def blocks_of(
    trace: Trace, block_size: int | None = None, *, with_parts: bool = False
) -> Blocks | None:
    """The blocks of a trace; None where it does not say what prompts hold.

    block_size: None is that in which the trace knows content or, where it knows every token, 16, or
        as many times 4 as leave at most 2 million blocks.
    Of the trace's own blocks every prompt's last one counts, though it may be a part; of others
    only whole ones do, as in an engine, unless with_parts.

    Raises WorkloadError for a block size below 1.
    """
    segments = trace.segments
    if segments is None:
        return None
    if block_size is not None:
        require_count("block_size", block_size)
    number_of: dict[tuple[int, object], int] = {}
    tokens: list[int] = []
    all_ids = []
    is_own = block_size in (None, segments.block_tokens) and segments.block_tokens > 1
    size = segments.block_tokens if is_own else block_size or _default_size(trace)
    for content in _own(segments) if is_own else _recut(segments, size, with_parts):
        ids, before = [], -1
        for key, num_tokens in content:
            before = number_of.setdefault((before, key), len(tokens))
            if before == len(tokens):
                tokens.append(num_tokens)
            ids.append(before)
        all_ids.append(ids)
    return Blocks(all_ids, tokens, size)


def _default_size(trace: Trace) -> int:
    size = _BLOCK_SIZE
    while int((trace.prompt_tokens // size).sum()) > _MOST_BLOCKS:
        size *= 4
    return size


Content = Sequence[tuple[object, int]]  # (what a block holds, its tokens)


def _own(segments: Segments) -> list[list[Segment]]:
    pairs = list(zip(segments.ids.tolist(), segments.tokens.tolist(), strict=True))
    offsets = segments.offsets.tolist()
    return [pairs[first:stop] for first, stop in pairwise(offsets)]


def _recut(segments: Segments, block_size: int, with_parts: bool) -> list[Content]:
    contents: list[Content] = []
    for content in _own(segments):
        prompt = SegmentPrompt(content, _NO_ANSWER)
        runs = prompt.block_runs(block_size, 0, len(prompt) // block_size, [])
        blocks: list[tuple[object, int]] = [
            ((key, start + i), block_size) for key, start, count in runs for i in range(count)
        ]
        if with_parts and (rest := len(prompt) % block_size):
            blocks.append((_part(content, len(prompt) - rest), rest))
        contents.append(blocks)
    return contents


def _runs(blocks: Blocks) -> Runs:
    """A block that as many prompts have as have the one before it belongs to the run of that."""
    counts = Counter(block for ids in blocks.ids for block in ids)
    run_of: dict[int, int] = {}
    tokens: list[list[int]] = []
    for ids in blocks.ids:
        before = -1
        for block in ids:
            if block not in run_of:
                is_next = before >= 0 and counts[block] == counts[before]
                run_of[block] = run_of[before] if is_next else len(tokens)
                if not is_next:
                    tokens.append([0])
                of_run = tokens[run_of[block]]
                of_run.append(of_run[-1] + blocks.tokens[block])
            before = block
    # Blocks of a run stand side by side in a prompt.
    return Runs([list(dict.fromkeys(run_of[block] for block in ids)) for ids in blocks.ids], tokens)


def _part(content: list[Segment], begin: int) -> object:
    """What stands from token `begin` on, so that equal parts are equal."""
    stop, parts = 0, []
    for content_id, tokens in content:
        stop += tokens
        if stop > begin:
            parts.append((content_id, max(begin - stop + tokens, 0), tokens))
    return tuple(parts)


def unlimited(blocks: Blocks) -> Hits:
    """Of a cache that keeps everything."""
    counts = Counter(block for ids in blocks.ids for block in ids)
    again = [(count - 1, blocks.tokens[block]) for block, count in counts.items()]
    return Hits(sum(n for n, _ in again), sum(n * tokens for n, tokens in again))


def lru(blocks: Blocks, num_blocks: int) -> Hits:
    """Of a cache of so many blocks that loses the least recently used; of a prompt its tail."""
    runs = blocks.runs
    cache: OrderedDict[int, int] = OrderedDict()  # run -> blocks of it that are there
    found_blocks = found_tokens = num_cached = 0
    for ids in runs.ids:
        for run in ids:
            there = cache.get(run, 0)
            found_blocks += there
            found_tokens += runs.tokens[run][there]
        for run in reversed(ids):
            size = len(runs.tokens[run]) - 1
            num_cached += size - cache.get(run, 0)
            cache[run] = size
            cache.move_to_end(run)
        while num_cached > num_blocks:
            run = next(iter(cache))
            lost = min(cache[run], num_cached - num_blocks)
            num_cached -= lost
            cache[run] -= lost
            if not cache[run]:
                del cache[run]
    return Hits(found_blocks, found_tokens)


def lfu(blocks: Blocks, num_blocks: int) -> Hits:
    """Of one that loses the least often used, of equals the least recently used."""
    uses: Counter[int] = Counter()

    def rank(run: int, time: int) -> tuple[int, int]:
        uses[run] += 1
        return uses[run], time

    return _by_rank(blocks, num_blocks, rank)


def optimum(blocks: Blocks, num_blocks: int) -> Hits:
    """Of one that knows what comes and loses what is wanted latest: Belady, IBM Sys. J. 5, 1966."""
    wanted: dict[int, list[int]] = {}
    ids_of = blocks.runs.ids
    for number in range(len(ids_of) - 1, -1, -1):
        for run in ids_of[number]:
            wanted.setdefault(run, []).append(number)

    def rank(run: int, time: int) -> tuple[int, int]:
        times = wanted[run]
        times.pop()
        return -(times[-1] if times else _NEVER), time

    return _by_rank(blocks, num_blocks, rank)


def _by_rank(blocks: Blocks, num_blocks: int, rank: Callable[[int, int], tuple[int, int]]) -> Hits:
    """Of one that loses what has the lowest rank, which a run gets anew whenever it is used."""
    runs = blocks.runs
    ranks: dict[int, tuple[int, int]] = {}
    cache: dict[int, int] = {}  # run -> blocks of it that are there
    heap: list[tuple[tuple[int, int], int]] = []
    found_blocks = found_tokens = num_cached = time = 0
    for ids in runs.ids:
        for run in ids:
            there = cache.get(run, 0)
            found_blocks += there
            found_tokens += runs.tokens[run][there]
        for run in reversed(ids):
            time += 1
            ranks[run] = key = rank(run, time)
            heapq.heappush(heap, (key, run))
            size = len(runs.tokens[run]) - 1
            num_cached += size - cache.get(run, 0)
            cache[run] = size
        while num_cached > num_blocks:
            key, run = heap[0]
            if ranks[run] == key and cache[run]:
                lost = min(cache[run], num_cached - num_blocks)
                num_cached -= lost
                cache[run] -= lost
            if ranks[run] != key or not cache[run]:
                heapq.heappop(heap)
    return Hits(found_blocks, found_tokens)


POLICIES = {"lru": lru, "lfu": lfu, "optimum": optimum}


def curve_sizes(blocks: Blocks, num_sizes: int = 6) -> list[int]:
    """Sizes of caches from a few blocks to all there are, by equal factors."""
    most = blocks.num_distinct
    sizes = np.geomspace(max(most / 300, 1), most, num_sizes)
    return sorted({int(np.ceil(size)) for size in sizes})
