"""Hands out the pool's blocks and takes them back: ids, holders, the free queue."""

from engine.eviction import KeyOrder, ReleaseOrder


class BlockAllocator:
    """Blocks 0 to num_blocks - 1, each held by nobody, by one or by several.

    Only what several hold is counted, so that taking and returning the blocks of one holder is
    work on whole lists. num_free: blocks nobody holds, cached content or not. num_saved: how many
    more would be held if every holder had its own.

    The free queue is kept in eviction order: first the empty blocks, then those that still hold
    cached content, the one to lose it first at the head. A block without content is put back at
    the front of the queue, so the empty ones always come first and can be a plain stack. Those with
    content are in the order of `eviction` (see engine.eviction).
    """

    def __init__(self, num_blocks: int, eviction: str = "lru") -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self.num_saved = 0
        self._num_more: dict[int, int] = {}  # holders beyond the first, of shared blocks
        self._empty = list(range(num_blocks - 1, -1, -1))  # the next to be used is last
        self._cached = _order(num_blocks, eviction)
        self._counts_use = eviction != "lru"

    @property
    def num_cached(self) -> int:
        """Free blocks that keep their content for reuse."""
        return len(self._cached)

    @property
    def cached(self) -> list[int]:
        """These blocks, the next to lose its content first. Takes time; see num_cached."""
        return list(self._cached)

    @property
    def num_shared(self) -> int:
        """Blocks with more than one holder."""
        return len(self._num_more)

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
        if self._counts_use:
            self._cached.allocated(block_ids)
        return block_ids, evicted

    def share(self, block_ids: list[int]) -> None:
        """Add a holder to blocks with content; cached ones leave the free queue."""
        cached = self._cached.discard(block_ids)
        self.num_free -= len(cached)
        if len(cached) < len(block_ids):
            self.num_saved += len(block_ids) - len(cached)
            num_more = self._num_more
            is_cached = set(cached)
            for block_id in block_ids:
                if block_id not in is_cached:
                    num_more[block_id] = num_more.get(block_id, 0) + 1
        if self._counts_use:
            self._cached.hit(block_ids)

    def add_holder(self, block_ids: list[int]) -> None:
        """Add a holder to blocks that are held."""
        self.num_saved += len(block_ids)
        num_more = self._num_more
        for block_id in block_ids:
            num_more[block_id] = num_more.get(block_id, 0) + 1

    def num_cached_of(self, block_ids: list[int]) -> int:
        """How many of these blocks are free and keep their content."""
        return self._cached.num_of(block_ids)

    def num_holders(self, block_id: int) -> int:
        """Holders of a block that is not free."""
        return 1 + self._num_more.get(block_id, 0)

    def free(self, block_ids: list[int], *, num_kept: int) -> None:
        """Take a holder off each of a table's blocks; the first num_kept keep their content.

        Content goes into the queue tail first, so that the head of a sequence is evicted last.
        Empty blocks are used again tail first as well.
        """
        if not num_kept and not self._num_more:
            self._empty += block_ids
            self.num_free += len(block_ids)
            return
        kept, emptied = block_ids[:num_kept], block_ids[num_kept:]
        if self._num_more:
            kept, emptied = self._let_go(kept), self._let_go(emptied)
        kept.reverse()
        self._cached.add(kept)
        self._empty += emptied
        self.num_free += len(kept) + len(emptied)

    def _let_go(self, block_ids: list[int]) -> list[int]:
        """Take a holder off blocks; returns those that nobody holds any more."""
        num_more = self._num_more
        num_leading = 0  # shared blocks at the head, mostly of a common prefix
        for block_id in block_ids:
            if block_id not in num_more:
                break
            num_leading += 1
        rest = block_ids[num_leading:]
        shared = block_ids[:num_leading]
        if not num_more.keys().isdisjoint(rest):
            shared += [block_id for block_id in rest if block_id in num_more]
            rest = [block_id for block_id in rest if block_id not in num_more]
        self.num_saved -= len(shared)
        for block_id in shared:
            if num_more[block_id] == 1:
                del num_more[block_id]
            else:
                num_more[block_id] -= 1
        return rest

    def check(self, num_holders: dict[int, int]) -> None:
        """Prove the books against the holders of each block that is held (and of no other)."""
        free = self._empty + list(self._cached)
        assert len(free) == self.num_free
        assert len(free) == len(set(free)), "a block is twice in the free queue"
        assert set(free) | set(num_holders) == set(range(self.num_blocks)), "a block is lost"
        assert not set(free) & set(num_holders), "a block is held and free"
        num_more = {block_id: count - 1 for block_id, count in num_holders.items() if count > 1}
        assert self._num_more == num_more, "counts of holders differ from the holders"
        assert self.num_saved == sum(num_more.values())


def _order(num_blocks: int, eviction: str) -> ReleaseOrder | KeyOrder:
    return ReleaseOrder(num_blocks) if eviction == "lru" else KeyOrder(by_hits=eviction == "lfu")
