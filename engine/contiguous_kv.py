"""Contiguous KV memory: a run of neighbouring blocks for each sequence, reserved at admission."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.buddy import BuddyAllocator
from engine.config import EngineConfig
from engine.kv_manager import (
    NO_MOVES,
    BlockState,
    KVUsage,
    Moves,
    OutputTokens,
    final_slots,
    reserved_slots,
)
from engine.sequence import Sequence


@dataclass(frozen=True)
class Run:
    """What a sequence holds: the blocks it reserved from `start` on, and those it will fill."""

    start: int
    num_reserved: int
    num_final: int


class ContiguousKVManager:
    """The door of `engine.kv_manager` over a buddy allocator. A run never moves and never grows.

    How long a run is decides `EngineConfig.reservation`; of more blocks than were reserved, since
    runs are powers of two, nobody has a use.
    """

    def __init__(self, config: EngineConfig, output_tokens: OutputTokens) -> None:
        self._config = config
        self._output_tokens = output_tokens
        self._allocator = BuddyAllocator(config.num_blocks)
        self._runs: dict[Sequence, Run] = {}
        self._copies: list[tuple[int, int]] = []  # since the last call of take_moves
        self._retired: set[Sequence] = set()
        self._num_live_slots = 0  # the totals of running sequences
        self._num_begun_blocks = 0
        self._num_final_blocks = 0
        self._num_reserved_blocks = 0
        self._num_retired_blocks = 0  # reserved by retired ones

    @property
    def num_free_blocks(self) -> int:
        """See KVManager."""
        return self._allocator.num_free

    @property
    def num_growable_blocks(self) -> int:
        """See KVManager. Whoever runs has all that it can come to need."""
        return self._num_reserved_blocks - self._num_begun_blocks

    @property
    def num_shared_blocks(self) -> int:
        """See KVManager."""
        return 0

    @property
    def num_saved_slots(self) -> int:
        """See KVManager."""
        return 0

    def misfit(self, seq: Sequence) -> str | None:
        """See KVManager."""
        num_blocks, num_runs = self._num_reserved(seq), len(seq.outputs)
        most_runs = self._allocator.most_runs(num_blocks)
        if num_runs <= most_runs:
            return None
        runs = f"{num_runs} runs" if num_runs > 1 else "a run"
        return (
            f"{runs} of {self._allocator.size_of(num_blocks)} blocks, "
            f"the pool of {self._config.num_blocks} has room for {most_runs}"
        )

    def take_moves(self) -> Moves:
        """See KVManager."""
        if not self._copies:
            return NO_MOVES
        copies, self._copies = self._copies, []
        return Moves([], [], copies)

    def begin_step(self, index: int) -> None:
        """See KVManager."""

    def cached_prefix(self, seq: Sequence) -> list[int]:
        """See KVManager."""
        return []

    def admit(
        self,
        seq: Sequence,
        prefix: list[int],
        num_tokens: int,
        *,
        reserve_tokens: int = 0,
        fit_tokens: int = 0,
        watermark_blocks: int = 0,
    ) -> bool:
        """See KVManager. A run by the rule, whatever is asked for, for each of the outputs."""
        num_reserved = self._num_reserved(seq)
        num_wanted = len(seq.outputs) * self._allocator.size_of(num_reserved)
        if self._allocator.num_free < watermark_blocks + num_wanted:
            return False
        if self._allocator.num_free_for(num_reserved) < num_wanted:
            return False
        for output in seq.outputs:
            self._reserve(output, num_reserved)
        return self.grow(seq, num_tokens)

    def _reserve(self, seq: Sequence, num_reserved: int) -> None:
        start = self._allocator.allocate(num_reserved)
        assert start is not None
        run = Run(start, num_reserved, self._num_blocks_for(self._final_slots(seq)))
        self._runs[seq] = run
        seq.block_table.block_ids = list(range(start, start + num_reserved))
        self._count_run(seq, run, +1)

    def fork(self, first: Sequence, seq: Sequence) -> None:
        """See KVManager. Nothing is shared: all is copied into the run of the other."""
        num_tokens = first.block_table.num_tokens
        self.grow(seq, num_tokens)
        num_begun = self._num_blocks_for(num_tokens)
        tables = (first.block_table.block_ids, seq.block_table.block_ids)
        self._copies += zip(*(block_ids[:num_begun] for block_ids in tables), strict=True)

    def reorder(self, seqs: list[Sequence], parents: list[int]) -> None:
        """See KVManager. The first that goes on from a run takes it over, the others copy it."""
        num_begun = self._num_blocks_for(seqs[0].block_table.num_tokens)
        first = seqs[0].num_prompt_tokens // self._config.block_size  # that runs may differ in
        held = [(self._runs[seq], seq.block_table.block_ids) for seq in seqs]
        unclaimed = [held[place] for place in range(len(seqs)) if place not in parents]
        claimed: set[int] = set()
        for seq, parent in zip(seqs, parents, strict=True):
            run, block_ids = held[parent]
            if parent in claimed:
                source = block_ids
                run, block_ids = unclaimed.pop()
                self._copies += zip(
                    source[first:num_begun], block_ids[first:num_begun], strict=True
                )
            claimed.add(parent)
            self._runs[seq], seq.block_table.block_ids = run, block_ids

    def grow_together(self, seqs: list[Sequence]) -> bool:
        """See KVManager."""
        return all(self.grow(seq, 1) for seq in seqs)

    def grow(self, seq: Sequence, num_tokens: int) -> bool:
        """See KVManager."""
        table = seq.block_table
        num_begun = self._num_blocks_for(table.num_tokens)
        table.num_tokens += num_tokens
        num_needed = self._num_blocks_for(table.num_tokens)
        assert num_needed <= self._runs[seq].num_reserved, "a sequence outgrew its run"
        self._num_begun_blocks += num_needed - num_begun
        self._num_live_slots += num_tokens
        return True

    def begin(self, seqs: list[Sequence], steps: list[int] | None = None) -> bool:
        """See KVManager."""
        self._num_begun_blocks += len(seqs)
        return True

    def fill(self, num_tokens: int, num_reserved_blocks: int = 0) -> None:
        """See KVManager."""
        self._num_live_slots += num_tokens
        self._num_begun_blocks += num_reserved_blocks

    def swap_out(self, seqs: list[Sequence]) -> bool:
        """See KVManager. Nobody is ever preempted."""
        return False

    def swap_in(self, seqs: list[Sequence], num_tokens: int, *, watermark_blocks: int = 0) -> bool:
        """See KVManager."""
        return False

    def publish(self, seq: Sequence, num_tokens: int) -> None:
        """See KVManager. Nothing is shared."""

    def defer_publishing(self, seq: Sequence, catch_up: Callable[[Sequence], None]) -> bool:
        """See KVManager."""
        return False

    def resume_publishing(self, seq: Sequence) -> None:
        """See KVManager."""

    def retire(self, seq: Sequence) -> None:
        """See KVManager."""
        run = self._runs[seq]
        self._count_run(seq, run, -1)
        self._retired.add(seq)
        self._num_retired_blocks += run.num_reserved

    def release(self, seq: Sequence) -> None:
        """See KVManager."""
        run = self._runs.pop(seq)
        if seq in self._retired:
            self._retired.remove(seq)
            self._num_retired_blocks -= run.num_reserved
        else:
            self._count_run(seq, run, -1)
        if self._copies:  # it may have forked and ended with one and the same step
            stop = run.start + run.num_reserved
            self._copies = [copy for copy in self._copies if not run.start <= copy[1] < stop]
        self._allocator.free(run.start, run.num_reserved)
        seq.block_table.clear()

    def usage(self, head: Sequence | None = None) -> KVUsage:
        """See KVManager."""
        block_size = self._config.block_size
        num_free = self._allocator.num_free
        num_useful = num_free
        if head is not None:
            num_useful = self._allocator.num_free_for(self._num_reserved(head))
        num_held = self._config.num_blocks - num_free
        num_unused = num_held - self._num_reserved_blocks - self._num_retired_blocks
        over_reserved = self._num_reserved_blocks - self._num_final_blocks
        return KVUsage(
            live=self._num_live_slots,
            tail=self._num_begun_blocks * block_size - self._num_live_slots,
            reserved=(self._num_final_blocks - self._num_begun_blocks) * block_size,
            over_reserved=(over_reserved + self._num_retired_blocks) * block_size,
            cached=0,
            unusable=(num_unused + num_free - num_useful) * block_size,
            free=num_useful * block_size,
        )

    def snapshot(self, holders: list[Sequence], head: Sequence | None = None) -> list[BlockState]:
        """See KVManager."""
        states = [BlockState((), 0, "unusable")] * self._config.num_blocks
        for hole in self._allocator.holes_for(1 if head is None else self._num_reserved(head)):
            for block_id in hole:
                states[block_id] = BlockState((), 0, "free")
        for seq in holders:
            run = self._runs[seq]
            for place in range(self._allocator.size_of(run.num_reserved)):
                states[run.start + place] = self._state(seq, run, place)
        return states

    def _state(self, seq: Sequence, run: Run, place: int) -> BlockState:
        """Of a block by its place in a run."""
        if place >= run.num_reserved:
            return BlockState((seq,), 0, "unusable")
        block_size = self._config.block_size
        num_live = min(seq.block_table.num_tokens - place * block_size, block_size)
        if seq in self._retired or (num_live <= 0 and place >= run.num_final):
            return BlockState((seq,), 0, "over_reserved")
        if num_live > 0:
            return BlockState((seq,), num_live, "tail")
        return BlockState((seq,), 0, "reserved")

    def check(self, holders: list[Sequence]) -> None:
        """See KVManager."""
        assert set(holders) == set(self._runs)
        self._allocator.check({run.start: run.num_reserved for run in self._runs.values()})
        running = [seq for seq in holders if seq not in self._retired]
        for seq in running:
            num_begun = self._num_blocks_for(seq.block_table.num_tokens)
            assert num_begun <= self._runs[seq].num_final <= self._runs[seq].num_reserved
        usage = self.usage(None)
        assert min(usage) >= 0
        assert sum(usage) == self._config.num_slots
        assert usage.live == sum(seq.block_table.num_tokens for seq in running)

    def _count_run(self, seq: Sequence, run: Run, sign: int) -> None:
        table = seq.block_table
        self._num_live_slots += sign * table.num_tokens
        self._num_begun_blocks += sign * self._num_blocks_for(table.num_tokens)
        self._num_final_blocks += sign * run.num_final
        self._num_reserved_blocks += sign * run.num_reserved

    def _num_reserved(self, seq: Sequence) -> int:
        """Blocks that a sequence reserves."""
        return self._num_blocks_for(reserved_slots(self._config, seq, self._output_tokens(seq)))

    def _final_slots(self, seq: Sequence) -> int:
        is_async = self._config.async_scheduling
        return final_slots(seq, self._output_tokens(seq), is_async=is_async)

    def _num_blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._config.block_size)
