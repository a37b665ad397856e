"""In which order cached blocks lose their content.

lru: the one released longest ago first (vLLM's order). lfu: the one hit least often since it was
filled, of equals the one released longest ago. fifo: the one taken longest ago.
"""

import heapq
from collections import OrderedDict, defaultdict
from collections.abc import Iterator

EVICTION = ("lru", "lfu", "fifo")


class ReleaseOrder:
    """Free blocks with content in the order in which they were released."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, block_id: int) -> bool:
        return block_id in self._blocks

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def add(self, block_ids: list[int]) -> None:
        """Blocks are released, in this order."""
        for block_id in block_ids:
            self._blocks[block_id] = None

    def remove(self, block_id: int) -> None:
        """A block is held again."""
        del self._blocks[block_id]

    def pop(self, num_blocks: int) -> list[int]:
        """Take the blocks that are to be evicted next."""
        pop = self._blocks.popitem
        return [pop(last=False)[0] for _ in range(num_blocks)]

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

    def __contains__(self, block_id: int) -> bool:
        return block_id in self._entries

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def add(self, block_ids: list[int]) -> None:
        """Blocks are released, in this order."""
        for block_id in block_ids:
            self._num_releases += 1
            entry = (self._key[block_id], self._num_releases, block_id)
            self._entries[block_id] = entry
            heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + 100:  # most of it no longer counts
            self._heap = sorted(self._entries.values())

    def remove(self, block_id: int) -> None:
        """A block is held again."""
        del self._entries[block_id]

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
