"""Which blocks hold which content: full blocks, known by what they hold and all before it."""

from collections import deque
from collections.abc import Hashable, Iterable
from typing import TypeVar

from engine.request import BlockRun

T = TypeVar("T")

_NO_BLOCK = -1


class _Run:
    """The paths that lead through the blocks of one content, one path for each of its blocks.

    It comes after block `parent_index` of `parent`. Its lists go by the index of a block in the
    run and end with the last entry that says something, so they are empty when nothing does.

    block_ids: the block that holds the path, of several the one published first.
    evictions: the eviction that took the last of them, while that is remembered.
    children: what continues a path, by its index and then by key.
    spares: the other blocks that hold a path, in the order of publication; mostly there are none.
    """

    __slots__ = (
        "block_ids",
        "children",
        "evictions",
        "key",
        "parent",
        "parent_index",
        "spares",
    )

    def __init__(self, parent: "_Run | None", parent_index: int, key: Hashable) -> None:
        self.parent = parent
        self.parent_index = parent_index
        self.key = key
        self.block_ids: list[int] = []
        self.evictions: list[_Eviction | None] = []
        self.children: dict[int, dict[Hashable, _Run]] = {}
        self.spares: dict[int, list[int]] | None = None

    @property
    def num_known(self) -> int:
        """How many of its paths are known: held or remembered, or continued by one that is."""
        num_continued = max(self.children, default=-1) + 1
        return max(len(self.block_ids), len(self.evictions), num_continued)

    def child(self, index: int, key: Hashable) -> "_Run | None":
        """The run of content `key` after block `index`."""
        siblings = self.children.get(index)
        return siblings.get(key) if siblings else None


class _Eviction:
    """Paths start to stop - 1 of a run lost their last block in a step, the last path first.

    They are forgotten in that order too, so `stop` goes down to `start`.
    """

    __slots__ = ("run", "start", "step", "stop")

    def __init__(self, run: _Run, start: int, stop: int, step: int) -> None:
        self.run = run
        self.start = start
        self.stop = stop
        self.step = step


class PrefixTrie:
    """Published blocks by content. Keys are compared by equality, so no hash can mix up content.

    Content is described by runs (see `engine.request.Prompt.block_runs`), and the trie has a node
    for each run, so that what happens to many blocks of a run at once costs little more than what
    happens to one.

    A path stays while a block holds it or anything that continues it: when a block in the middle
    is evicted, its continuations can be hit again once its content is back. Besides, the last
    `num_remembered` evictions are remembered, to tell an evicted path from one never seen.

    now: number of the current step, which evictions are dated with.
    """

    def __init__(self, num_blocks: int, num_remembered: int = 0) -> None:
        self.now = 0
        self._root = _Run(None, 0, None)
        # By block id: where a published block is.
        self._run_of: list[_Run | None] = [None] * num_blocks
        self._index_of = [0] * num_blocks
        self._num_published = 0
        self._num_remembered = num_remembered
        self._evictions: deque[_Eviction] = deque()  # oldest first
        self._num_evicted = 0  # paths in them

    def __contains__(self, block_id: object) -> bool:
        return isinstance(block_id, int) and self._run_of[block_id] is not None

    def __len__(self) -> int:
        return self._num_published

    def match(self, runs: Iterable[BlockRun]) -> list[int]:
        """Blocks holding the longest known prefix of `runs`; of equal ones the first published."""
        block_ids: list[int] = []
        run, index = self._root, -1
        for key, start, num_blocks in runs:
            if start == 0:
                child = run.child(index, key)
                if child is None:
                    break
                run = child
            held = run.block_ids[start : start + num_blocks]
            if _NO_BLOCK in held:
                del held[held.index(_NO_BLOCK) :]
            block_ids += held
            if len(held) < num_blocks:
                break
            index = start + num_blocks - 1
        return block_ids

    def missed(self, runs: list[BlockRun], num_hits: int) -> tuple[int, list[int]]:
        """Why the blocks of `runs` after the first num_hits are misses.

        Returns the number of those whose path was never seen, as far as is remembered, and for
        each of the others the step of the eviction that took it or, if it is still there, the
        eviction before it on its path.
        """
        evicted_at: list[int] = []
        step: int | None = None
        run, index = self._root, -1
        num_before = 0
        for key, start, num_blocks in runs:
            if start == 0:
                child = run.child(index, key)
                if child is None:
                    break
                run = child
            stop = start + num_blocks
            first = start + min(max(num_hits - num_before, 0), num_blocks)
            past = run.evictions[first:stop]
            past += [None] * (min(run.num_known, stop) - first - len(past))  # held, or continued
            for eviction in past:
                if eviction is not None:
                    step = eviction.step
                if step is not None:
                    evicted_at.append(step)
            num_before += num_blocks
            index = stop - 1
        num_missed = sum(num_blocks for _, _, num_blocks in runs) - num_hits
        return num_missed - len(evicted_at), evicted_at

    def insert(self, block_ids: list[int], runs: Iterable[BlockRun], after: int | None) -> None:
        """Publish blocks that hold `runs`, after the content of block `after` or none (None)."""
        run, index = self._root, -1
        if after is not None:
            run, index = self._place(after)
        num_done = 0
        for key, start, num_blocks in runs:
            if start == 0:
                siblings = run.children.setdefault(index, {})
                child = siblings.get(key)
                if child is None:
                    child = siblings[key] = _Run(run, index, key)
                run = child
            else:
                assert start == index + 1, "a run that is cut must go on where it was cut"
            stop = start + num_blocks
            new = block_ids[num_done : num_done + num_blocks]
            if start == len(run.block_ids):
                run.block_ids += new
            else:
                _merge(run, start, new)
            if run.evictions:
                _clear(run.evictions, start, stop, None)
            for i, block_id in enumerate(new, start):
                self._run_of[block_id] = run
                self._index_of[block_id] = i
            num_done += num_blocks
            index = stop - 1
        self._num_published += num_done

    def remove(self, block_ids: list[int]) -> None:
        """Forget blocks, evicted in this order; their paths are remembered for a while."""
        run_of = self._run_of
        num_done, num_asked = 0, len(block_ids)
        while num_done < num_asked:
            block_id = block_ids[num_done]
            run = run_of[block_id]
            assert run is not None, "a block is evicted that is not published"
            index = self._index_of[block_id]
            held = run.block_ids
            num_blocks = 1
            if held[-1] == block_id and not run.spares:
                # The end of a run, the usual case: as much of it as goes, backwards, at once.
                if num_done + 1 < num_asked:
                    num_blocks = min(len(held), num_asked - num_done)
                    asked = block_ids[num_done : num_done + num_blocks]
                    num_blocks = _num_equal(held[: -num_blocks - 1 : -1], asked)
                self._evict(run, index + 1 - num_blocks, index + 1)
            elif not _replace(run, index, block_id):
                self._evict(run, index, index + 1)
            num_done += num_blocks
        for block_id in block_ids:
            run_of[block_id] = None
        self._num_published -= num_asked
        if self._num_evicted > self._num_remembered:
            self._forget(self._num_evicted - self._num_remembered)

    def withdraw(self, block_ids: list[int]) -> None:
        """Forget blocks whose content was published but never computed: that is no eviction."""
        for block_id in block_ids:
            run, index = self._place(block_id)
            if not _replace(run, index, block_id):
                _clear(run.block_ids, index, index + 1, _NO_BLOCK)
                _drop_unneeded(run)
            self._run_of[block_id] = None
        self._num_published -= len(block_ids)

    def _place(self, block_id: int) -> tuple[_Run, int]:
        run = self._run_of[block_id]
        assert run is not None, f"block {block_id} is not published"
        return run, self._index_of[block_id]

    def _evict(self, run: _Run, start: int, stop: int) -> None:
        """Paths start to stop - 1 lose their last block now, the last path first."""
        eviction = _Eviction(run, start, stop, self.now)
        self._evictions.append(eviction)
        self._num_evicted += stop - start
        _clear(run.block_ids, start, stop, _NO_BLOCK)
        past = run.evictions
        if len(past) < stop:
            past += [None] * (stop - len(past))
        past[start:stop] = [eviction] * (stop - start)

    def _forget(self, num_paths: int) -> None:
        """Stop remembering the oldest evictions of so many paths."""
        self._num_evicted -= num_paths
        while num_paths > 0:
            eviction = self._evictions[0]
            run, start, stop = eviction.run, eviction.start, eviction.stop
            if stop - start > num_paths:
                start = eviction.stop = stop - num_paths
            else:
                self._evictions.popleft()
            num_paths -= stop - start
            past = run.evictions[start:stop]
            num_left = past.count(eviction)
            if num_left == 0:
                continue  # all were published again since
            if num_left == len(past):
                _clear(run.evictions, start, stop, None)
            else:
                for index, latest in enumerate(past, start):
                    if latest is eviction:
                        _clear(run.evictions, index, index + 1, None)
            if not run.evictions:
                _drop_unneeded(run)

    def check(self) -> None:
        """Prove that paths and blocks agree and that no dead path is kept."""
        seen: dict[int, tuple[_Run, int]] = {}
        num_seen = 0
        remembered = set(self._evictions)
        runs = [self._root]
        while runs:
            run = runs.pop()
            assert run is self._root or run.num_known, "a dead path is kept"
            assert not run.block_ids or run.block_ids[-1] != _NO_BLOCK
            assert not run.evictions or run.evictions[-1] is not None
            for index, eviction in enumerate(run.evictions):
                if eviction is not None:
                    assert eviction in remembered and eviction.run is run
                    assert eviction.start <= index < eviction.stop
                    assert run.block_ids[index : index + 1] in ([], [_NO_BLOCK])
            for index, spares in (run.spares or {}).items():
                assert spares and run.block_ids[index] != _NO_BLOCK
                num_seen += len(spares)
                seen.update(dict.fromkeys(spares, (run, index)))
            heads = [(b, index) for index, b in enumerate(run.block_ids) if b != _NO_BLOCK]
            num_seen += len(heads)
            seen.update({block_id: (run, index) for block_id, index in heads})
            for index, siblings in run.children.items():
                assert siblings, "a dead path is kept"
                for key, child in siblings.items():
                    assert (child.parent, child.parent_index, child.key) == (run, index, key)
                    runs.append(child)
        published = [b for b, run in enumerate(self._run_of) if run is not None]
        assert seen == {block_id: self._place(block_id) for block_id in published}
        assert num_seen == len(seen) == self._num_published, "a block is in two places"
        assert sum(e.stop - e.start for e in self._evictions) == self._num_evicted
        assert self._num_evicted <= self._num_remembered


def _clear(items: list[T], start: int, stop: int, nothing: T) -> None:
    """Put `nothing` at start to stop - 1 of a list that ends with its last something."""
    if stop < len(items):
        items[start:stop] = [nothing] * (stop - start)
    else:
        del items[start:]
        while items and items[-1] == nothing:
            items.pop()


def _merge(run: _Run, start: int, block_ids: list[int]) -> None:
    """Add blocks from index `start` on where some paths may be held already."""
    held = run.block_ids
    for index, block_id in enumerate(block_ids, start):
        if index == len(held):
            held.append(block_id)
        elif held[index] == _NO_BLOCK:
            held[index] = block_id
        else:
            run.spares = run.spares or {}
            run.spares.setdefault(index, []).append(block_id)


def _replace(run: _Run, index: int, block_id: int) -> bool:
    """Take a block off its path if another holds it too; returns whether one does."""
    if not run.spares or index not in run.spares:
        return False
    spares = run.spares[index]
    if run.block_ids[index] == block_id:
        run.block_ids[index] = spares.pop(0)
    else:
        spares.remove(block_id)
    if not spares:
        del run.spares[index]
    return True


def _num_equal(one: list[int], other: list[int]) -> int:
    """How far two lists of one length agree."""
    if one == other:
        return len(one)
    return next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)


def _drop_unneeded(run: _Run) -> None:
    """Drop every path that nothing needs any more, from the end of a run up."""
    while run.parent and not (run.block_ids or run.evictions or run.children):
        siblings = run.parent.children[run.parent_index]
        del siblings[run.key]
        if not siblings:
            del run.parent.children[run.parent_index]
        run = run.parent
