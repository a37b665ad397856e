"""Paged KV memory: fixed-size blocks, on demand or reserved, shared through the prefix trie."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from engine.allocator import BlockAllocator
from engine.block_table import BlockTable
from engine.config import EngineConfig
from engine.host_blocks import HostBlocks
from engine.kv_manager import (
    NO_MOVES,
    BlockState,
    KVUsage,
    Moves,
    OutputTokens,
    final_slots,
    reserved_slots,
)
from engine.prefix_trie import PrefixTrie
from engine.sequence import PrefixMisses, Sequence


class PagedKVManager:
    """The door of `engine.kv_manager` over an allocator and, with prefix caching, a trie.

    Totals of the ledger are kept as tables change, so that `usage` costs the same at any load.
    """

    def __init__(self, config: EngineConfig, output_tokens: OutputTokens) -> None:
        self._config = config
        self._output_tokens = output_tokens
        self._is_reserved = config.reservation != "none"
        self._block_size = config.block_size
        self._num_blocks = config.num_blocks
        self._allocator = BlockAllocator(config.num_blocks, config.eviction)
        self._trie = (
            PrefixTrie(config.num_blocks, num_remembered=config.num_blocks)
            if config.enable_prefix_caching
            else None
        )
        self._step = 0
        self._num_empty_slots = 0  # held by running sequences, not filled
        self._num_reserved_blocks = 0  # held by running sequences, wholly empty
        self._retired: set[Sequence] = set()
        self._retired_holders: dict[int, int] = {}  # block -> holders that are retired
        self._num_over_reserved_blocks = 0  # held by retired sequences alone
        self._num_beyond: dict[Sequence, int] = {}  # reserved blocks that it will never fill
        self._num_beyond_blocks = 0  # of all running sequences
        self._copies: list[tuple[int, int]] = []  # since the last call of take_moves
        self._host = HostBlocks(config.num_cpu_blocks) if config.preemption == "swap" else None

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody holds, cached content or not."""
        return self._allocator.num_free

    @property
    def num_growable_blocks(self) -> int:
        """See KVManager. With reservations, whoever runs has all that it can come to need."""
        return self._num_reserved_blocks if self._is_reserved else self._allocator.num_free

    def misfit(self, seq: Sequence) -> str | None:
        """See KVManager."""
        num_slots = self._num_reserved_slots(seq) or seq.max_num_tokens - 1  # the last is never fed
        num_blocks = self._num_blocks_for(num_slots)
        if seq.is_beam:  # all that may not be shared, for all of them at once
            num_shared = seq.num_prompt_tokens // self._block_size
            num_blocks += (len(seq.outputs) - 1) * (num_blocks - num_shared)
        if num_blocks <= self._num_blocks:
            return None
        return f"{num_blocks} blocks, the pool has {self._num_blocks}"

    @property
    def num_shared_blocks(self) -> int:
        """Blocks with more than one holder."""
        return self._allocator.num_shared

    @property
    def num_saved_slots(self) -> int:
        """See KVManager."""
        return self._allocator.num_saved * self._block_size

    def take_moves(self) -> Moves:
        """See KVManager."""
        out, back = self._host.take_moves() if self._host else ([], [])
        if not (out or back or self._copies):
            return NO_MOVES
        copies, self._copies = self._copies, []
        return Moves(out, back, copies)

    def begin_step(self, index: int) -> None:
        """See KVManager."""
        self._step = index

    def cached_prefix(self, seq: Sequence) -> list[int]:
        """See KVManager. Without the trie still that of another output of the same request."""
        if self._trie is None:
            return self._prompt_of_another(seq) if seq.group else []
        return self._trie.match(seq.block_runs(0, self._num_shareable(seq)))

    def _prompt_of_another(self, seq: Sequence) -> list[int]:
        """The full blocks of the prompt, where another output of the request holds them."""
        num_blocks = min(self._num_shareable(seq), seq.num_prompt_tokens // self._block_size)
        for other in seq.outputs:
            table = other.block_table
            if table.block_ids and table.num_tokens >= num_blocks * self._block_size:
                return table.block_ids[:num_blocks]
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
        """See KVManager."""
        reserve_tokens = self._num_reserved_slots(seq) or reserve_tokens
        num_filled = len(prefix) * self._block_size + num_tokens
        num_held = self._num_blocks_for(max(num_filled, reserve_tokens))
        # Those of the prefix that are free now, and held afterwards.
        num_revived = self._allocator.num_cached_of(prefix) if prefix else 0
        num_asked = max(num_held, self._num_blocks_for(fit_tokens)) - len(prefix)
        if num_asked + num_revived + watermark_blocks > self._allocator.num_free:
            return False
        if self._trie is not None and seq.num_cached_tokens is None:
            seq.prefix_misses = self._prefix_misses(self._trie, seq, prefix)
        table = seq.block_table
        if prefix:
            self._num_over_reserved_blocks -= self._num_over_reserved(prefix)
            self._allocator.share(prefix)
        table.block_ids = prefix + self._allocate(num_held - len(prefix))
        table.num_published = len(prefix) if self._trie is not None else 0
        table.num_tokens = num_filled
        self._count_table(table, +1)
        if reserve_tokens:
            self._count_beyond(seq, num_held)
        return True

    def _count_beyond(self, seq: Sequence, num_held: int) -> None:
        """Note for the books how many of the blocks it reserved a sequence will never fill."""
        is_async = self._config.async_scheduling
        slots = final_slots(seq, self._output_tokens(seq), is_async=is_async)
        self._num_beyond[seq] = num_beyond = max(num_held - self._num_blocks_for(slots), 0)
        self._num_beyond_blocks += num_beyond

    def fork(self, first: Sequence, seq: Sequence) -> None:
        """See KVManager. Whoever fills more of a block that is shared copies it then."""
        theirs, table = first.block_table, seq.block_table
        self._allocator.add_holder(theirs.block_ids)
        table.block_ids = list(theirs.block_ids)
        table.num_tokens = theirs.num_tokens
        table.num_published = theirs.num_published

    def reorder(self, seqs: list[Sequence], parents: list[int]) -> None:
        """See KVManager."""
        tables = [seq.block_table for seq in seqs]
        num_tails = len({table.block_ids[-1] for table in tables})
        before = [table.block_ids for table in tables]
        for table, parent in zip(tables, parents, strict=True):
            table.block_ids = list(before[parent])
            self._allocator.add_holder(table.block_ids)
        for table, block_ids in zip(tables, before, strict=True):
            self._allocator.free(block_ids, num_kept=table.num_published)
        num_tails -= len({table.block_ids[-1] for table in tables})
        self._num_empty_slots -= num_tails * (-tables[0].num_tokens % self._block_size)

    def grow_together(self, seqs: list[Sequence]) -> bool:
        """See KVManager."""
        if seqs[0].block_table.num_tokens % self._block_size:  # all but one copy a shared tail
            num_new = sum(self._shares_tail(seq) for seq in seqs)
            num_new -= len({s.block_table.block_ids[-1] for s in seqs if self._shares_tail(s)})
        else:
            num_new = len(seqs)
        return num_new <= self._allocator.num_free and all(self.grow(seq, 1) for seq in seqs)

    def swap_out(self, seqs: list[Sequence]) -> bool:
        """See KVManager."""
        assert self._host
        if not self._host.keep({seq: seq.block_table.block_ids for seq in seqs}):
            return False
        for seq in seqs:
            num_tokens = seq.block_table.num_tokens
            self.release(seq)
            seq.block_table.num_tokens = num_tokens
        return True

    def swap_in(self, seqs: list[Sequence], num_tokens: int, *, watermark_blocks: int = 0) -> bool:
        """See KVManager. Blocks that they shared they share again, and their prompt with others."""
        assert self._host
        num_filled = seqs[0].block_table.num_tokens
        prompt = self._prompt_of_another(seqs[0])[: num_filled // self._block_size]
        num_held = self._host.num_blocks_of(seqs, len(prompt))
        num_new = self._num_new_blocks(seqs, num_tokens)
        if num_held + num_new + watermark_blocks > self._allocator.num_free:
            return False
        tables = self._host.bring_back(seqs, self._allocate(num_held), len(prompt))
        for seq, block_ids in tables.items():
            self._allocator.add_holder(prompt)
            seq.block_table.block_ids = prompt + block_ids
        holders = Counter(block_id for block_ids in tables.values() for block_id in block_ids)
        for block_id, count in holders.items():
            self._allocator.add_holder([block_id] * (count - 1))
        tails = {seq.block_table.block_ids[-1] for seq in seqs}
        self._num_empty_slots += len(tails) * (-num_filled % self._block_size)
        has_room = self.grow_together(seqs) if len(seqs) > 1 else self.grow(seqs[0], num_tokens)
        assert has_room
        return True

    def _num_new_blocks(self, seqs: list[Sequence], num_tokens: int) -> int:
        """Blocks that swapped sequences, all of one length, begin or copy with so many tokens."""
        assert self._host
        num_filled = seqs[0].block_table.num_tokens
        if num_filled % self._block_size == 0 or len(seqs) == 1:
            after = self._num_blocks_for(num_filled + num_tokens)
            return len(seqs) * (after - self._num_blocks_for(num_filled))
        return len(seqs) - self._host.num_tails_of(seqs)  # all but one copy a shared tail

    def _shares_tail(self, seq: Sequence) -> bool:
        """Whether others hold the block that the sequence has filled in part."""
        table = seq.block_table
        if seq.group is None or table.num_tokens % self._block_size == 0:
            return False
        return self._allocator.num_holders(table.block_ids[-1]) > 1

    def _copy_tail(self, table: BlockTable) -> bool:
        """Let a sequence have a copy of the block that it has filled in part, if there is room."""
        if not self._allocator.num_free:
            return False
        shared = table.block_ids[-1]
        [copy] = self._allocate(1)
        self._copies.append((shared, copy))
        table.block_ids[-1] = copy
        self._allocator.free([shared], num_kept=0)
        self._num_empty_slots += -table.num_tokens % self._block_size
        return True

    def grow(self, seq: Sequence, num_tokens: int) -> bool:
        """See KVManager."""
        table = seq.block_table
        if self._shares_tail(seq) and not self._copy_tail(table):
            return False
        block_size = self._block_size
        offset = table.num_tokens % block_size
        if offset == 0 or offset + num_tokens > block_size:
            needed = self._num_blocks_for(table.num_tokens + num_tokens)
            num_new = max(needed - len(table.block_ids), 0)
            if num_new > self._allocator.num_free:
                return False
            entered = needed - self._num_blocks_for(table.num_tokens)
            self._num_reserved_blocks -= entered - num_new
            self._num_empty_slots += num_new * block_size
            table.block_ids += self._allocate(num_new)
        table.num_tokens += num_tokens
        self._num_empty_slots -= num_tokens
        return True

    def _num_reserved_slots(self, seq: Sequence) -> int:
        if not self._is_reserved:
            return 0
        return reserved_slots(self._config, seq, self._output_tokens(seq))

    def begin(self, seqs: list[Sequence], steps: list[int] | None = None) -> bool:
        """See KVManager."""
        if self._is_reserved:
            self._num_reserved_blocks -= len(seqs)
            return True
        if len(seqs) > self._allocator.num_free:
            return False
        if not seqs:
            return True
        for seq, block_id in zip(seqs, self._allocate(len(seqs), steps), strict=True):
            seq.block_table.block_ids.append(block_id)
        self._num_empty_slots += len(seqs) * self._block_size
        return True

    def fill(self, num_tokens: int, num_reserved_blocks: int = 0) -> None:
        """See KVManager."""
        self._num_empty_slots -= num_tokens
        self._num_reserved_blocks -= num_reserved_blocks

    def publish(self, seq: Sequence, num_tokens: int) -> None:
        """See KVManager."""
        table = seq.block_table
        first = table.num_published
        if seq.is_beam:  # what it writes may be another's tomorrow
            num_tokens = min(num_tokens, seq.num_prompt_tokens)
        stop = num_tokens // self._block_size
        if self._trie is None or first >= stop:
            return
        assert table.deferred_after is None
        after = table.block_ids[first - 1] if first else None
        self._trie.insert(table.block_ids[first:stop], seq.block_runs(first, stop), after)
        table.num_published = stop

    def defer_publishing(self, seq: Sequence, catch_up: Callable[[Sequence], None]) -> bool:
        """See KVManager. Possible where nothing follows the last block that is published."""
        table = seq.block_table
        if self._trie is None or not table.num_published:
            return False
        last = table.block_ids[table.num_published - 1]
        if self._trie.defer(last, partial(self._catch_up, seq, catch_up)):
            table.deferred_after = last
        return table.deferred_after is not None

    def _catch_up(self, seq: Sequence, catch_up: Callable[[Sequence], None]) -> None:
        seq.block_table.deferred_after = None
        catch_up(seq)

    def resume_publishing(self, seq: Sequence) -> None:
        """See KVManager."""
        table = seq.block_table
        if table.deferred_after is not None:
            assert self._trie is not None
            self._trie.resume(table.deferred_after)
            table.deferred_after = None

    def retire(self, seq: Sequence) -> None:
        """See KVManager."""
        block_ids = seq.block_table.block_ids
        self._count_table(seq.block_table, -1)
        self._num_beyond_blocks -= self._num_beyond.pop(seq, 0)
        self._retired.add(seq)
        for block_id in block_ids:
            self._retired_holders[block_id] = self._retired_holders.get(block_id, 0) + 1
        self._num_over_reserved_blocks += self._num_over_reserved(block_ids)

    def release(self, seq: Sequence) -> None:
        """See KVManager."""
        table = seq.block_table
        block_ids = table.block_ids
        if self._host and not block_ids:
            self._host.drop(seq)
            table.clear()
            return
        self._num_over_reserved_blocks -= self._num_over_reserved(block_ids)
        if seq in self._retired:
            self._retired.remove(seq)
            for block_id in block_ids:
                self._retired_holders[block_id] -= 1
                if not self._retired_holders[block_id]:
                    del self._retired_holders[block_id]
        else:
            if not self._shares_tail(seq):  # else its empty slots are still somebody's
                self._count_table(table, -1)
            self._num_beyond_blocks -= self._num_beyond.pop(seq, 0)
        self._allocator.free(block_ids, num_kept=table.num_published)
        self._num_over_reserved_blocks += self._num_over_reserved(block_ids)
        table.clear()

    def usage(self, head: Sequence | None = None) -> KVUsage:
        """See KVManager. Every free block is of use to whoever comes."""
        block_size = self._block_size
        num_free = self._allocator.num_free
        cached = self._allocator.num_cached * block_size if self._trie is not None else 0
        over_reserved = (self._num_over_reserved_blocks + self._num_beyond_blocks) * block_size
        reserved = (self._num_reserved_blocks - self._num_beyond_blocks) * block_size
        held = (self._num_blocks - num_free) * block_size
        tail = self._num_empty_slots - self._num_reserved_blocks * block_size
        live = held - over_reserved - reserved - tail
        free = num_free * block_size - cached
        return KVUsage(live, tail, reserved, over_reserved, cached, 0, free)

    def snapshot(self, holders: list[Sequence], head: Sequence | None = None) -> list[BlockState]:
        """See KVManager."""
        cached = set(self._allocator.cached)
        held: dict[int, list[Sequence]] = {}
        num_live: Counter[int] = Counter()
        beyond: set[int] = set()  # reserved, and never filled
        for seq in holders:
            table = seq.block_table
            for block_id in table.block_ids:
                held.setdefault(block_id, []).append(seq)
            if seq in self._retired:
                continue
            for place, block_id in enumerate(table.block_ids):
                filled = min(max(table.num_tokens - place * self._block_size, 0), self._block_size)
                num_live[block_id] = max(num_live[block_id], filled)
            beyond.update(table.block_ids[len(table.block_ids) - self._num_beyond.get(seq, 0) :])

        def state(block_id: int) -> BlockState:
            seqs = tuple(held.get(block_id, ()))
            if not seqs:
                return BlockState((), 0, "cached" if block_id in cached else "free")
            if num_live[block_id]:
                return BlockState(seqs, num_live[block_id], "tail")
            is_needless = block_id in beyond or all(seq in self._retired for seq in seqs)
            return BlockState(seqs, 0, "over_reserved" if is_needless else "reserved")

        return [state(block_id) for block_id in range(self._num_blocks)]

    def check(self, holders: list[Sequence]) -> None:
        """See KVManager."""
        tables = [seq.block_table for seq in holders]
        counts = Counter(block_id for table in tables for block_id in table.block_ids)
        self._allocator.check(counts)
        if self._host:
            self._host.check()
        self._check_trie(tables)
        self._check_ledger(holders)

    def _check_trie(self, tables: list[BlockTable]) -> None:
        if self._trie is None:
            assert self._allocator.num_cached == 0
            return
        self._trie.check()
        for table in tables:
            published = [block_id in self._trie for block_id in table.block_ids]
            assert published == [i < table.num_published for i in range(len(published))]
        held = {block_id for table in tables for block_id in table.block_ids}
        free_published = [
            block_id
            for block_id in range(self._num_blocks)
            if block_id in self._trie and block_id not in held
        ]
        assert len(free_published) == self._allocator.num_cached
        assert self._allocator.num_cached_of(free_published) == len(free_published)

    def _check_ledger(self, holders: list[Sequence]) -> None:
        usage = self.usage()
        assert min(usage) >= 0
        assert sum(usage) == self._num_blocks * self._block_size
        live_slots = {
            seq.block_table.locate(position)
            for seq in holders
            if seq not in self._retired
            for position in range(seq.block_table.num_tokens)
        }
        assert usage.live == len(live_slots)

    def _prefix_misses(self, trie: PrefixTrie, seq: Sequence, prefix: list[int]) -> PrefixMisses:
        num_shareable = self._num_shareable(seq)
        num_unseen, evicted_at = trie.missed(seq.block_runs(0, num_shareable), len(prefix))
        return PrefixMisses(
            num_partial_tokens=seq.num_tokens - num_shareable * self._block_size,
            num_unseen_tokens=num_unseen * self._block_size,
            evicted_at=evicted_at,
        )

    def _num_shareable(self, seq: Sequence) -> int:
        """Full blocks that may be hit; at least one token is left to compute."""
        return (seq.num_tokens - 1) // self._block_size

    def _num_blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)

    def _allocate(self, num_blocks: int, steps: list[int] | None = None) -> list[int]:
        """Take blocks, in the current step or each in a step of its own."""
        block_ids, evicted = self._allocator.allocate(num_blocks)
        if evicted:
            assert self._trie is not None
            num_evicted = len(evicted)
            self._trie.remove(
                evicted, steps[-num_evicted:] if steps else [self._step] * num_evicted
            )
        return block_ids

    def _count_table(self, table: BlockTable, sign: int) -> None:
        num_held, num_filled = len(table.block_ids), self._num_blocks_for(table.num_tokens)
        self._num_empty_slots += sign * (num_held * self._block_size - table.num_tokens)
        self._num_reserved_blocks += sign * (num_held - num_filled)

    def _num_over_reserved(self, block_ids: list[int]) -> int:
        """How many of these blocks retired sequences hold, and no others."""
        retired_holders = self._retired_holders
        if not retired_holders:
            return 0
        return sum(
            retired_holders.get(block_id) == self._allocator.num_holders(block_id)
            for block_id in block_ids
        )
