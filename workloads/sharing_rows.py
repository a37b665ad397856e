"""What of each prompt of a trace came before, and how long ago: rows for `resampled`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from workloads.resampled import MOST_PARTS, SharingRows
from workloads.trace import Segments, Trace
from workloads.workload import Int64Column, int64_column

Piece = tuple[tuple[int, int], int]  # ((content id, offset), num_tokens)


class Copy(NamedTuple):
    """What `SharingRows` says of what is shared; beginning: its node, -1 for none."""

    shared_tokens: int
    ago: int
    shared_since: int
    beginning: int


def sharing_rows(trace: Trace) -> SharingRows:
    """A row for each request of a trace, which says what prompts hold."""
    assert trace.segments is not None
    copies = list(_copies(trace.segments))
    shared, ago, since, node = (int64_column(column) for column in zip(*copies, strict=True))
    return SharingRows(trace.prompt_tokens, trace.output_tokens, shared, ago, since, _popular(node))


def _popular(nodes: Int64Column) -> Int64Column:
    """Numbers from 1 of nodes that are there often: drawn once in each part of the trace, about.

    0 for the rest, and for -1.
    """
    values, places, counts = np.unique(nodes, return_inverse=True, return_counts=True)
    is_such = (counts >= MOST_PARTS) & (values >= 0)
    return np.where(is_such, np.cumsum(is_such), 0)[places]


@dataclass
class _Node:
    """A beginning of prompts: its number, and the latest request that has it."""

    number: int
    latest: int


def _copies(segments: Segments) -> Iterator[Copy]:
    """Of each request in order: equal beginnings are equal paths through a tree of pieces."""
    nodes: dict[tuple[int, tuple[int, int]], _Node] = {}
    ends = _ends(segments)
    for request in range(len(segments.offsets) - 1):
        before, tokens, copy = -1, 0, Copy(0, 0, 0, -1)
        for key, num_tokens in _pieces(segments, request, ends):
            node = nodes.get((before, key))
            if node is None:
                node = nodes[before, key] = _Node(len(nodes), request)
            else:
                tokens += num_tokens
                ago = request - node.latest
                # The deeper a beginning, the longer ago it came last.
                since = copy.shared_tokens if ago > copy.ago else copy.shared_since
                copy = Copy(tokens, ago, since, node.number)
            node.latest = request
            before = node.number
        yield copy


def _ends(segments: Segments) -> dict[int, list[int]]:
    """By content id the lengths that it has in some prompt, in order."""
    found = sorted(set(zip(segments.ids.tolist(), segments.tokens.tolist(), strict=True)))
    ends: dict[int, list[int]] = {}
    for content_id, tokens in found:
        ends.setdefault(content_id, []).append(tokens)
    return ends


def _pieces(segments: Segments, request: int, ends: dict[int, list[int]]) -> Iterator[Piece]:
    """A prompt cut at every length that a content of it has anywhere.

    So prompts that begin alike do so with equal pieces, though one goes on in the same content. A
    content that has thousands of lengths makes as many pieces of each prompt.
    """
    for content_id, tokens in segments.of(request):
        begin = 0
        for end in ends[content_id]:
            if end > tokens:
                break
            yield (content_id, begin), end - begin
            begin = end
