"""In which order cached blocks lose their content.

lru: the one released longest ago first (vLLM's order). lfu: the one hit least often since it was
filled, of equals the one released longest ago. fifo: the one taken longest ago.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator

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

    def add(self, block_id: int) -> None:
        """A block is released."""
        self._blocks[block_id] = None

    def remove(self, block_id: int) -> None:
        """A block is held again."""
        del self._blocks[block_id]

    def pop(self) -> int:
        """Take the block that is to be evicted next."""
        return self._blocks.popitem(last=False)[0]


class KeyOrder:
    """Free blocks with content by the key they have when released, of equals first released first.

    A heap whose entries are left in place when their block is held again, and skipped later.
    """

    def __init__(self, key: Callable[[int], int]) -> None:
        self._key = key
        self._heap: list[tuple[int, int, int]] = []  # (key, number of the release, block id)
        self._entries: dict[int, tuple[int, int, int]] = {}  # block id -> the entry that counts
        self._num_releases = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, block_id: int) -> bool:
        return block_id in self._entries

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def add(self, block_id: int) -> None:
        """A block is released."""
        self._num_releases += 1
        entry = (self._key(block_id), self._num_releases, block_id)
        self._entries[block_id] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + 100:  # most of it no longer counts
            self._heap = sorted(self._entries.values())

    def remove(self, block_id: int) -> None:
        """A block is held again."""
        del self._entries[block_id]

    def pop(self) -> int:
        """Take the block that is to be evicted next."""
        while True:
            entry = heapq.heappop(self._heap)
            block_id = entry[2]
            if self._entries.get(block_id) == entry:
                del self._entries[block_id]
                return block_id
