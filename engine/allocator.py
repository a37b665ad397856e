"""Hands out the pool's blocks and takes them back: ids, holders, the free queue."""

from engine.eviction import KeyOrder, ReleaseOrder


class BlockAllocator:
    """Blocks 0 to num_blocks - 1, each held by nobody, by one or by several.

    Only what several hold is counted, so that taking and returning the blocks of one holder is
    work on whole lists. num_free: blocks nobody holds, cached content or not.

    The free queue is kept in eviction order: first the empty blocks, then those that still hold
    cached content, the one to lose it first at the head. A block without content is put back at
    the front of the queue, so the empty ones always come first and can be a plain stack. Those with
    content are in the order of `eviction` (see engine.eviction).
    """

    def __init__(self, num_blocks: int, eviction: str = "lru") -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self._holders_of_shared: dict[int, int] = {}  # of blocks with more than one
        self._empty = list(range(num_blocks - 1, -1, -1))  # the next to be used is last
        self._cached = _order(eviction)

    @property
    def num_cached(self) -> int:
        """Free blocks that keep their content for reuse."""
        return len(self._cached)

    @property
    def num_shared(self) -> int:
        """Blocks with more than one holder."""
        return len(self._holders_of_shared)

    def allocate(self, num_blocks: int) -> tuple[list[int], list[int]]:
        """Take blocks from the head of the free queue, one holder each.

        Returns their ids, and which of them were cached: their content is lost now.
        Raises ValueError, changing nothing, when fewer are free.
        """
        if num_blocks > self.num_free:
            raise ValueError(f"{num_blocks} blocks asked for, {self.num_free} are free")
        self.num_free -= num_blocks
        first = max(len(self._empty) - num_blocks, 0)
        block_ids = self._empty[first:]
        del self._empty[first:]
        block_ids.reverse()
        evicted: list[int] = []
        if len(block_ids) < num_blocks:
            evicted = self._cached.pop(num_blocks - len(block_ids))
            block_ids += evicted
        self._cached.allocated(block_ids)
        return block_ids, evicted

    def share(self, block_ids: list[int]) -> None:
        """Add a holder to blocks with content; cached ones leave the free queue."""
        holders = self._holders_of_shared
        for block_id in block_ids:
            if block_id in holders:
                holders[block_id] += 1
            elif self._cached.discard(block_id):
                self.num_free -= 1
            else:
                holders[block_id] = 2
        self._cached.hit(block_ids)

    def num_cached_of(self, block_ids: list[int]) -> int:
        """How many of these blocks are free and keep their content."""
        return self._cached.num_of(block_ids)

    def num_holders(self, block_id: int) -> int:
        """Holders of a block that is not free."""
        return self._holders_of_shared.get(block_id, 1)

    def free(self, block_ids: list[int], *, num_kept: int) -> None:
        """Take a holder off each of a table's blocks; the first num_kept keep their content.

        Content goes into the queue tail first, so that the head of a sequence is evicted last.
        Empty blocks are used again tail first as well.
        """
        shared = self._holders_of_shared
        num_leading = 0  # shared ones at the head, mostly a common prefix
        while num_leading < len(block_ids) and block_ids[num_leading] in shared:
            self._let_go(block_ids[num_leading])
            num_leading += 1
        kept = block_ids[num_leading:num_kept]
        emptied = block_ids[max(num_kept, num_leading) :]
        if not (shared.keys().isdisjoint(kept) and shared.keys().isdisjoint(emptied)):
            kept = [block_id for block_id in kept if self._let_go(block_id)]
            emptied = [block_id for block_id in emptied if self._let_go(block_id)]
        kept.reverse()
        self._cached.add(kept)
        self._empty += emptied
        self.num_free += len(kept) + len(emptied)

    def _let_go(self, block_id: int) -> bool:
        """Take a holder off a block; returns whether nobody holds it any more."""
        holders = self._holders_of_shared
        if block_id not in holders:
            return True
        holders[block_id] -= 1
        if holders[block_id] == 1:
            del holders[block_id]
        return False

    def check(self, num_holders: dict[int, int]) -> None:
        """Prove the books against the holders of each block that is held (and of no other)."""
        free = self._empty + list(self._cached)
        assert len(free) == self.num_free
        assert len(free) == len(set(free)), "a block is twice in the free queue"
        assert set(free) | set(num_holders) == set(range(self.num_blocks)), "a block is lost"
        assert not set(free) & set(num_holders), "a block is held and free"
        shared = {block_id: count for block_id, count in num_holders.items() if count > 1}
        assert self._holders_of_shared == shared, "counts of holders differ from the holders"


def _order(eviction: str) -> ReleaseOrder | KeyOrder:
    return ReleaseOrder() if eviction == "lru" else KeyOrder(by_hits=eviction == "lfu")
