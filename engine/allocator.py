"""Hands out the pool's blocks and takes them back: ids, reference counts, the free queue."""

from collections.abc import Container

from engine.eviction import KeyOrder, ReleaseOrder


class BlockAllocator:
    """Reference-counted blocks 0 to num_blocks - 1; every operation is O(1) per block.

    The free queue is kept in eviction order: first the empty blocks, then those that still hold
    cached content, the one to lose it first at the head. A block without content is put back at
    the front of the queue, so the empty ones always come first and can be a plain stack. Those with
    content are in the order of `eviction` (see engine.eviction).
    """

    def __init__(self, num_blocks: int, eviction: str = "lru") -> None:
        self.num_blocks = num_blocks
        self.ref_counts = [0] * num_blocks
        self.num_shared = 0  # blocks with more than one holder
        self._empty = list(range(num_blocks - 1, -1, -1))  # the next to be used is last
        self._num_hits = [0] * num_blocks  # since the block was last allocated
        self._allocation = [0] * num_blocks  # number of the block's last allocation
        self._num_allocations = 0
        self._cached = self._order(eviction)

    def _order(self, eviction: str) -> ReleaseOrder | KeyOrder:
        if eviction == "lru":
            return ReleaseOrder()
        return KeyOrder((self._num_hits if eviction == "lfu" else self._allocation).__getitem__)

    @property
    def num_free(self) -> int:
        """Blocks nobody holds, cached content or not."""
        return len(self._empty) + len(self._cached)

    @property
    def num_cached(self) -> int:
        """Free blocks that keep their content for reuse."""
        return len(self._cached)

    def allocate(self, num_blocks: int) -> tuple[list[int], list[int]]:
        """Take blocks from the head of the free queue, one holder each.

        Returns their ids, and which of them were cached: their content is lost now.
        Raises ValueError, changing nothing, when fewer are free.
        """
        if num_blocks > self.num_free:
            raise ValueError(f"{num_blocks} blocks asked for, {self.num_free} are free")
        num_empty = min(num_blocks, len(self._empty))
        block_ids = [self._empty.pop() for _ in range(num_empty)]
        evicted = [self._cached.pop() for _ in range(num_blocks - num_empty)]
        block_ids += evicted
        for block_id in block_ids:
            self.ref_counts[block_id] = 1
            self._num_hits[block_id] = 0
            self._num_allocations += 1
            self._allocation[block_id] = self._num_allocations
        return block_ids, evicted

    def share(self, block_id: int) -> None:
        """Add a holder to a block with content; a cached block leaves the free queue."""
        self.ref_counts[block_id] += 1
        self._num_hits[block_id] += 1
        if self.ref_counts[block_id] == 1:
            self._cached.remove(block_id)
        elif self.ref_counts[block_id] == 2:
            self.num_shared += 1

    def is_cached(self, block_id: int) -> bool:
        """Whether the block is free and keeps its content."""
        return block_id in self._cached

    def free(self, block_ids: list[int], *, keep: Container[int]) -> None:
        """Take a holder off each of a table's blocks; those in `keep` keep their content.

        Content goes into the queue tail first, so that the head of a sequence is evicted last.
        Empty blocks are used again tail first as well.
        """
        emptied = []
        for block_id in reversed(block_ids):
            self.ref_counts[block_id] -= 1
            if self.ref_counts[block_id] == 1:
                self.num_shared -= 1
            elif self.ref_counts[block_id] == 0:
                if block_id in keep:
                    self._cached.add(block_id)
                else:
                    emptied.append(block_id)
        self._empty.extend(reversed(emptied))

    def check(self) -> None:
        """Prove the books: each block is held or in exactly one place of the free queue."""
        free = self._empty + list(self._cached)
        assert len(free) == len(set(free)), "a block is twice in the free queue"
        assert set(free) == {b for b, count in enumerate(self.ref_counts) if count == 0}
        assert min(self.ref_counts) >= 0
        assert self.num_shared == sum(count > 1 for count in self.ref_counts)
