"""What prompts and answers hold: stretches of content, described and never stored.

A prompt is a sequence of segments. Token k of the segment (content id, num_tokens) is token k of
that content, so equal ids mean equal text. Whatever a request generates is content too: token k
of its answer is token k of the content `answer_id`, and a later prompt that quotes the answer has
the segment (answer_id, num_tokens).
"""

import sys
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from copy import copy
from typing import overload

import numpy as np
import numpy.typing as npt

from workloads.checks import problem
from workloads.errors import WorkloadError

Segment = tuple[int, int]  # (content id, num_tokens)
MOST_CONTENT_IDS = 1 << 62  # that a file may have, so that others come after them

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def content_token_ids(content_id: int, start: int, stop: int) -> list[int]:
    """Tokens start to stop - 1 of a content, each a byte (0 to 255).

    Token k is output k, modulo 256, of a splitmix64 generator whose seed is the mixed content id
    (from 0 to 2**63 - 1).

    >>> content_token_ids(0, 0, 3)
    [175, 244, 79]
    """
    seed = _mix(np.array([content_id], dtype=np.uint64))
    steps = np.arange(start + 1, stop + 1, dtype=np.uint64)
    tokens: list[int] = (_mix(seed + steps * _GOLDEN_GAMMA) % np.uint64(256)).tolist()
    return tokens


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output function of splitmix64: Steele, Lea and Flood, OOPSLA 2014, as in Vigna's C."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class SegmentPrompt:
    """A prompt described by segments, followed by an answer of any length.

    Raises WorkloadError for no segments or for an empty one (it would change keys, not tokens).
    """

    __slots__ = ("_content_ids", "_starts")

    def __init__(self, segments: Sequence[Segment], answer_id: int) -> None:
        # The answer is one more segment, without an end: segment i covers positions
        # starts[i] to starts[i + 1] - 1.
        self._content_ids = []
        self._starts = [0]
        for content_id, num_tokens in segments:
            if num_tokens < 1:
                break
            self._content_ids.append(content_id)
            self._starts.append(self._starts[-1] + num_tokens)
        if not segments or len(self._content_ids) < len(segments):
            raise WorkloadError(problem("segments", segments, "at least one, none empty"))
        self._content_ids.append(answer_id)
        self._starts.append(sys.maxsize)

    def __len__(self) -> int:
        return self._starts[-2]

    def for_output(self, index: int) -> "SegmentPrompt":
        """The same segments, followed by the answer whose content id is so much higher."""
        other = copy(self)
        other._content_ids = [*self._content_ids[:-1], self._content_ids[-1] + index]
        return other

    def token_ids(self, start: int, stop: int) -> list[int]:
        """Tokens at prompt positions start to stop - 1."""
        return [
            token
            for content_id, offset, num_tokens in self._parts(self._segment_at(start), start, stop)
            for token in content_token_ids(content_id, offset, offset + num_tokens)
        ]

    def block_runs(
        self, block_size: int, first: int, stop: int, output_token_ids: list[int]
    ) -> list[tuple[Hashable, int, int]]:
        """What blocks first to stop - 1 hold of the prompt followed by the answer.

        Returns runs (key, start, num_blocks): blocks start to start + num_blocks - 1 of what `key`
        tells. A run begins with a block that holds the beginning of a segment, and goes on with
        those that lie wholly in the last segment of that block. The key is what its first block
        holds, as parts (content id, offset, num_tokens), which no tuple of token ids equals. With
        block size 4, segments (7, 9) and (8, 11) have the runs (((7, 0, 4),), 0, 2) and
        (((7, 8, 1), (8, 0, 3)), 0, 3).

        The output goes by its content id, so `output_token_ids` are not read; where a later
        prompt quotes the answer, they must be the answer's own tokens.
        """
        starts = self._starts
        runs: list[tuple[Hashable, int, int]] = []
        block = first
        while block < stop:
            segment = self._segment_at(block * block_size)
            head = block
            if starts[segment + 1] >= (block + 1) * block_size:  # the block lies in one segment
                head = starts[segment] // block_size
            position = head * block_size
            if position < starts[segment]:
                segment = self._segment_at(position)
            parts = self._parts(segment, position, position + block_size)
            end = self._starts[segment + len(parts)] // block_size
            num_blocks = min(end, stop) - block
            runs.append((tuple(parts), block - head, num_blocks))
            block += num_blocks
        return runs

    def _segment_at(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    def _parts(self, segment: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """(content id, offset, num_tokens) of positions begin to end - 1; begin is in `segment`."""
        parts = []
        while begin < end:
            part_end = min(end, self._starts[segment + 1])
            offset = begin - self._starts[segment]
            parts.append((self._content_ids[segment], offset, part_end - begin))
            begin, segment = part_end, segment + 1
        return parts


class AnswerTokens(Sequence[int]):
    """Token ids of an answer, made when the first of them is asked for."""

    __slots__ = ("_content_id", "_num_tokens", "_token_ids")

    def __init__(self, content_id: int, num_tokens: int) -> None:
        self._content_id = content_id
        self._num_tokens = num_tokens
        self._token_ids: list[int] | None = None

    def __len__(self) -> int:
        return self._num_tokens

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if self._token_ids is None:
            self._token_ids = content_token_ids(self._content_id, 0, self._num_tokens)
        return self._token_ids[index]
