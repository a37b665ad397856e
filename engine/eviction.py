"""In which order cached blocks lose their content.

lru: the one released longest ago first (vLLM's order). lfu: the one hit least often since it was
filled, of equals the one released longest ago. fifo: the one taken longest ago.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator
from itertools import chain, islice

EVICTION = ("lru", "lfu", "fifo")


class ReleaseOrder:
    """Free blocks with content in the order in which they were released.

    A queue of the lists they came in, so that most is work on whole lists. A block that is held
    again leaves its place behind, which is passed over later.
    """

    def __init__(self, num_blocks: int) -> None:
        self._queue: deque[list[int]] = deque()
        self._offset = 0  # how many of the first list are gone
        self._is_here = bytearray(num_blocks)  # 1 for the blocks in the queue
        self._num_here = 0
        self._left: defaultdict[int, int] = defaultdict(int)  # places left behind, by block
        self._num_left = 0

    def __len__(self) -> int:
        return self._num_here

    def __iter__(self) -> Iterator[int]:
        left = self._left.copy()
        for block_id in islice(chain.from_iterable(self._queue), self._offset, None):
            if left.get(block_id):
                left[block_id] -= 1  # the places left behind come before the one that counts
            else:
                yield block_id

    def num_of(self, block_ids: list[int]) -> int:
        """How many of these blocks are here."""
        return sum(map(self._is_here.__getitem__, block_ids))

    def add(self, block_ids: list[int]) -> None:
        """Blocks are released, in this order."""
        if block_ids:
            self._queue.append(block_ids)
            self._num_here += len(block_ids)
            is_here = self._is_here
            for block_id in block_ids:
                is_here[block_id] = 1

    def discard(self, block_ids: list[int]) -> list[int]:
        """Blocks are held again; returns those that were here."""
        is_here, left = self._is_here, self._left
        found = [block_id for block_id in block_ids if is_here[block_id]]
        for block_id in found:
            is_here[block_id] = 0
            left[block_id] += 1
        self._num_here -= len(found)
        self._num_left += len(found)
        if self._num_left > self._num_here + 1000:  # most of the queue no longer counts
            self._queue, self._offset = deque([list(self)]), 0
            self._left.clear()
            self._num_left = 0
        return found

    def pop(self, num_blocks: int) -> list[int]:
        """Take the blocks that are to be evicted next."""
        block_ids: list[int] = []
        while num_more := num_blocks - len(block_ids):
            first, offset = self._queue[0], self._offset
            places = first[offset : offset + num_more]
            self._offset += len(places)
            if self._offset == len(first):
                self._queue.popleft()
                self._offset = 0
            if self._num_left and not self._left.keys().isdisjoint(places):
                places = self._pass_over(places)
            block_ids += places
        self._num_here -= num_blocks
        is_here = self._is_here
        for block_id in block_ids:
            is_here[block_id] = 0
        return block_ids

    def _pass_over(self, places: list[int]) -> list[int]:
        """Blocks of these places but for those left behind."""
        left = self._left
        block_ids = []
        for block_id in places:
            num_left = left.get(block_id)
            if num_left is None:
                block_ids.append(block_id)
            elif num_left == 1:
                del left[block_id]
            else:
                left[block_id] = num_left - 1
        self._num_left -= len(places) - len(block_ids)
        return block_ids

    def allocated(self, block_ids: list[int]) -> None:
        """Blocks begin a new life, without content."""

    def hit(self, block_ids: list[int]) -> None:
        """Content of blocks is used again."""


class KeyOrder:
    """Free blocks with content by the key they have when released, of equals first released first.

    by_hits: the key is the number of hits since the block was taken; else when it was taken.

    A heap whose entries are left in place when their block is held again, and skipped later.
    """

    def __init__(self, *, by_hits: bool) -> None:
        self._by_hits = by_hits
        self._key: defaultdict[int, int] = defaultdict(int)  # by block id
        self._num_allocations = 0
        self._heap: list[tuple[int, int, int]] = []  # (key, number of the release, block id)
        self._entries: dict[int, tuple[int, int, int]] = {}  # block id -> the entry that counts
        self._num_releases = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def num_of(self, block_ids: list[int]) -> int:
        """How many of these blocks are here."""
        return sum(map(self._entries.__contains__, block_ids))

    def add(self, block_ids: list[int]) -> None:
        """Blocks are released, in this order."""
        for block_id in block_ids:
            self._num_releases += 1
            entry = (self._key[block_id], self._num_releases, block_id)
            self._entries[block_id] = entry
            heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + 100:  # most of it no longer counts
            self._heap = sorted(self._entries.values())

    def discard(self, block_ids: list[int]) -> list[int]:
        """Blocks are held again; returns those that were here."""
        return [block_id for block_id in block_ids if self._entries.pop(block_id, None)]

    def pop(self, num_blocks: int) -> list[int]:
        """Take the blocks that are to be evicted next."""
        return [self._pop() for _ in range(num_blocks)]

    def _pop(self) -> int:
        while True:
            entry = heapq.heappop(self._heap)
            block_id = entry[2]
            if self._entries.get(block_id) == entry:
                del self._entries[block_id]
                return block_id

    def allocated(self, block_ids: list[int]) -> None:
        """Blocks begin a new life, without content."""
        for block_id in block_ids:
            self._num_allocations += 1
            self._key[block_id] = 0 if self._by_hits else self._num_allocations

    def hit(self, block_ids: list[int]) -> None:
        """Content of blocks is used again."""
        if self._by_hits:
            for block_id in block_ids:
                self._key[block_id] += 1
