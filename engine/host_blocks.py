"""Blocks in the memory of the host, which keep what swapped sequences held."""

from collections import Counter
from collections.abc import Iterable

from engine.allocator import BlockAllocator
from engine.sequence import Sequence

Copies = list[tuple[int, int]]  # (from, to) of each block


class HostBlocks:
    """What swapped sequences held, block by block; a block that several held is kept once."""

    def __init__(self, num_blocks: int) -> None:
        self._allocator = BlockAllocator(num_blocks)
        self._kept: dict[Sequence, list[int]] = {}  # host blocks, in the order of the table
        self._out: Copies = []  # since the last call of take_moves
        self._back: Copies = []

    def take_moves(self) -> tuple[Copies, Copies]:
        """Blocks to copy out to the host and back from it, all since the last call."""
        moves = self._out, self._back
        self._out, self._back = [], []
        return moves

    def keep(self, tables: dict[Sequence, list[int]]) -> bool:
        """Keep the blocks of these tables, if there is room for all of them."""
        holders = Counter(block_id for table in tables.values() for block_id in table)
        if len(holders) > self._allocator.num_free:
            return False
        host_ids, _ = self._allocator.allocate(len(holders))
        host_of = dict(zip(holders, host_ids, strict=True))
        for block_id, count in holders.items():
            self._allocator.add_holder([host_of[block_id]] * (count - 1))
        for seq, table in tables.items():
            self._kept[seq] = [host_of[block_id] for block_id in table]
        self._out += host_of.items()
        return True

    def num_blocks_of(self, seqs: Iterable[Sequence], first: int = 0) -> int:
        """Blocks that keep what these sequences held, from their logical block `first` on."""
        return len({host_id for seq in seqs for host_id in self._kept[seq][first:]})

    def num_tails_of(self, seqs: Iterable[Sequence]) -> int:
        """Different blocks that end what these sequences held."""
        return len({self._kept[seq][-1] for seq in seqs})

    def bring_back(
        self, seqs: list[Sequence], block_ids: list[int], first: int = 0
    ) -> dict[Sequence, list[int]]:
        """Copy what these sequences held, from logical block `first` on, into blocks of the pool.

        Returns these parts of their tables there.
        """
        kept = {seq: self._kept[seq][first:] for seq in seqs}
        host_ids = dict.fromkeys(host_id for held in kept.values() for host_id in held)
        block_of = dict(zip(host_ids, block_ids, strict=True))
        self._back += block_of.items()
        for seq in seqs:
            self.drop(seq)
        return {seq: [block_of[host_id] for host_id in held] for seq, held in kept.items()}

    def drop(self, seq: Sequence) -> None:
        """Keep nothing for a sequence any longer."""
        self._allocator.free(self._kept.pop(seq, []), num_kept=0)

    def check(self) -> None:
        """Prove the books."""
        self._allocator.check(dict(Counter(b for kept in self._kept.values() for b in kept)))
