"""Hands out runs of neighbouring blocks: a buddy allocator (Knuth, TAOCP 1, section 2.5)."""


class BuddyAllocator:
    """Blocks 0 to num_blocks - 1, in holes and runs of 1, 2, 4, ... blocks.

    A run of 2^k blocks starts at a multiple of 2^k. Its buddy is the run beside it that makes up a
    run of 2^(k+1) with it: where both are free they are one hole. The first hole that is large
    enough is halved until it is no larger than need be. A pool that is no power of two is as many
    separate ones as its number has binary digits 1.

    num_free: blocks in holes.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        num_orders = num_blocks.bit_length()
        self._holes: list[set[int]] = [set() for _ in range(num_orders)]  # starts, by order
        start = 0
        for order in reversed(range(num_orders)):
            if num_blocks >> order & 1:
                self._holes[order].add(start)
                start += 1 << order

    def most_runs(self, num_blocks: int) -> int:
        """How many runs of so many blocks an empty pool holds."""
        return self.num_blocks >> _order_of(num_blocks)

    def allocate(self, num_blocks: int) -> int | None:
        """Take a run of at least so many blocks, see `size_of`; None where no hole is so large.

        Returns its first block. Of the smallest holes that do, the first.
        """
        wanted = _order_of(num_blocks)
        for order in range(wanted, len(self._holes)):
            if self._holes[order]:
                start = min(self._holes[order])
                self._holes[order].remove(start)
                for half in reversed(range(wanted, order)):
                    self._holes[half].add(start + (1 << half))
                self.num_free -= 1 << wanted
                return start
        return None

    def free(self, start: int, num_blocks: int) -> None:
        """Take back a run that was taken for so many blocks."""
        order = _order_of(num_blocks)
        self.num_free += 1 << order
        while (buddy := start ^ (1 << order)) in self._holes[order]:
            self._holes[order].remove(buddy)
            start = min(start, buddy)
            order += 1
        self._holes[order].add(start)

    def num_free_for(self, num_blocks: int) -> int:
        """Free blocks in holes that are large enough for a run of so many."""
        orders = range(_order_of(num_blocks), len(self._holes))
        return sum(len(self._holes[order]) << order for order in orders)

    def holes_for(self, num_blocks: int) -> list[range]:
        """These holes, as ranges of blocks."""
        return [
            range(start, start + (1 << order))
            for order in range(_order_of(num_blocks), len(self._holes))
            for start in self._holes[order]
        ]

    @staticmethod
    def size_of(num_blocks: int) -> int:
        """Blocks of the run that is taken for so many: the next power of two."""
        return 1 << _order_of(num_blocks)

    def check(self, runs: dict[int, int]) -> None:
        """Prove the books against the runs that are held: first block -> blocks asked for."""
        owner = [0] * self.num_blocks
        held = [(start, _order_of(num_blocks)) for start, num_blocks in runs.items()]
        holes = [(start, order) for order, starts in enumerate(self._holes) for start in starts]
        for start, order in held + holes:
            assert start % (1 << order) == 0, "a run does not start at a multiple of its size"
            for block in range(start, start + (1 << order)):
                owner[block] += 1
        assert set(owner) <= {1}, "a block is lost, or in two places"
        assert self.num_free == sum(1 << order for _, order in holes)
        for start, order in holes:
            assert start ^ (1 << order) not in self._holes[order], "two free buddies are apart"


def _order_of(num_blocks: int) -> int:
    return (num_blocks - 1).bit_length()
