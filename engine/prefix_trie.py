"""Which blocks hold which content: full blocks, known by what they hold and all before it."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable

from engine.request import BlockRun

_NOTHING = -1  # no block
_NEVER = _NOTHING  # no step


class _Run:
    """The paths that lead through the blocks of one content, one path for each of its blocks.

    It comes after block `parent_index` of `parent`. Its lists go by the index of a block in the
    run and end with the last entry that says something, so they are empty when nothing does.

    block_ids: the block that holds the path, of several the one published first.
    evicted_at: the step in which the last of them was evicted, while that is remembered.
    children: what continues a path, by its index and then by key.
    spares: the other blocks that hold a path, in the order of publication; mostly there are none.
    catch_up: publishes what follows its last block, if that was put off.
    death: the moment at which it lost its last block, while that is remembered.
    """

    __slots__ = (
        "block_ids",
        "catch_up",
        "children",
        "death",
        "evicted_at",
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
        self.evicted_at: list[int] = []
        self.children: dict[int, dict[Hashable, _Run]] = {}
        self.spares: dict[int, list[int]] | None = None
        self.catch_up: Callable[[], None] | None = None
        self.death: _Death | None = None

    @property
    def num_known(self) -> int:
        """How many of its paths are known: held or remembered, or continued by one that is."""
        num_continued = max(self.children) + 1 if self.children else 0
        return max(len(self.block_ids), len(self.evicted_at), num_continued)

    def index(self, block_id: int) -> int:
        """Where in the run a block is; it is quick for the last, the usual case."""
        if self.block_ids and self.block_ids[-1] == block_id:
            return len(self.block_ids) - 1
        if block_id in self.block_ids:
            return self.block_ids.index(block_id)
        return next(index for index, spares in (self.spares or {}).items() if block_id in spares)

    def child(self, index: int, key: Hashable) -> "_Run | None":
        """The run of content `key` after block `index`."""
        siblings = self.children.get(index)
        return siblings.get(key) if siblings else None


# A run that has lost its last block; how many of its paths had one in its life. A plain tuple, for
# there are many.
_Death = tuple[_Run, int]


class PrefixTrie:
    """Published blocks by content. Keys are compared by equality, so no hash can mix up content.

    Content is described by runs (see `engine.request.Prompt.block_runs`), and the trie has a node
    for each run, so that what happens to many blocks of a run at once costs little more than what
    happens to one.

    A path stays while a block holds it or anything that continues it: when a block in the middle
    is evicted, its continuations can be hit again once its content is back. Besides, evictions are
    remembered, to tell an evicted path from one never seen: as long as the run has a block left
    and, of the runs that have none, those that lost their last one most recently, up to
    `num_remembered` paths in all.
    """

    def __init__(self, num_blocks: int, num_remembered: int = 0) -> None:
        self._root = _Run(None, 0, None)
        self._run_of: list[_Run | None] = [None] * num_blocks  # of a published block, by its id
        self._num_published = 0
        self._num_remembered = num_remembered
        self._deaths: deque[_Death] = deque()  # oldest first
        self._num_dead = 0  # paths of these runs

    def __contains__(self, block_id: object) -> bool:
        return isinstance(block_id, int) and self._run_of[block_id] is not None

    def __len__(self) -> int:
        return self._num_published

    def match(self, runs: Iterable[BlockRun]) -> list[int]:
        """Blocks holding the longest known prefix of `runs`; of equal ones the first published."""
        block_ids: list[int] = []
        run, index = self._root, -1
        for key, start, num_blocks in runs:
            known = self._walk(run, index, key, start)
            if known is None:
                break
            run = known
            held = run.block_ids[start : start + num_blocks]
            if _NOTHING in held:
                del held[held.index(_NOTHING) :]
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
            known = self._walk(run, index, key, start)
            if known is None:
                break
            run = known
            stop = start + num_blocks
            first = start + min(max(num_hits - num_before, 0), num_blocks)
            past = run.evicted_at[first:stop]
            past += [_NEVER] * (min(run.num_known, stop) - first - len(past))  # held, or continued
            for evicted in past:
                if evicted != _NEVER:
                    step = evicted
                if step is not None:
                    evicted_at.append(step)
            num_before += num_blocks
            index = stop - 1
        num_missed = sum(num_blocks for _, _, num_blocks in runs) - num_hits
        return num_missed - len(evicted_at), evicted_at

    def _walk(self, run: _Run, index: int, key: Hashable, start: int) -> _Run | None:
        """From block `index` of a run to that of content `key`, brought up to date, if known."""
        known = run if start else run.child(index, key)
        if known and known.catch_up:
            self._catch_up(known)
        return known

    def insert(self, block_ids: list[int], runs: Iterable[BlockRun], after: int | None) -> None:
        """Publish blocks that hold `runs`, after the content of block `after` or none (None)."""
        run, index = self._root, -1
        if after is not None:
            run, index = self._place(after)
        num_done = 0
        for key, start, num_blocks in runs:
            if start == 0:
                siblings = run.children.setdefault(index, {})
                if run.catch_up:  # now something follows: it is put off no longer
                    self._catch_up(run)
                child = siblings.get(key)
                if child is None:
                    child = siblings[key] = _Run(run, index, key)
                run = child
            else:
                assert start == index + 1, "a run that is cut must go on where it was cut"
            self._put(block_ids[num_done : num_done + num_blocks], run, start)
            num_done += num_blocks
            index = start + num_blocks - 1

    def defer(self, block_id: int, catch_up: Callable[[], None]) -> bool:
        """Let what follows a block be published when it makes a difference: `catch_up` is called.

        Once only, and only where nothing follows the block yet; returns whether it will be.
        """
        run, index = self._place(block_id)
        is_end = run.block_ids[-1] == block_id and max(run.children, default=-1) < index
        if run.catch_up or run.spares or not is_end:
            return False
        run.catch_up = catch_up
        return True

    def resume(self, block_id: int) -> None:
        """Nothing that follows a block is put off any more."""
        run, _ = self._place(block_id)
        run.catch_up = None

    def _catch_up(self, run: _Run) -> None:
        """Publish what was put off of a run."""
        catch_up, run.catch_up = run.catch_up, None
        if catch_up:
            catch_up()

    def _put(self, block_ids: list[int], run: _Run, start: int) -> None:
        """Publish blocks of a run from index `start` on."""
        if run.catch_up:
            self._catch_up(run)
        if start == len(run.block_ids):
            run.block_ids += block_ids
        else:
            _merge(run, start, block_ids)
        run.death = None
        if run.evicted_at:
            _clear(run.evicted_at, start, start + len(block_ids))
        run_of = self._run_of
        for block_id in block_ids:
            run_of[block_id] = run
        self._num_published += len(block_ids)

    def remove(self, block_ids: list[int], steps: list[int]) -> None:
        """Forget blocks, evicted in this order; their paths are remembered for a while.

        steps: of each block, the step in which it is evicted.
        """
        run_of = self._run_of
        num_done, num_asked = 0, len(block_ids)
        while num_done < num_asked:
            block_id = block_ids[num_done]
            run = run_of[block_id]
            assert run is not None, "a block is evicted that is not published"
            if run.catch_up:
                self._catch_up(run)
            held = run.block_ids
            num_blocks = 1
            if held[-1] == block_id and not run.spares:
                # The end of a run, the usual case: as much of it as goes, backwards, at once.
                going = block_ids[num_done : num_done + len(held)]
                num_blocks = len(going)
                if going != held[: -num_blocks - 1 : -1]:
                    num_blocks = _num_equal(going, held[: -num_blocks - 1 : -1])
                self._evict(run, len(held) - num_blocks, steps[num_done : num_done + num_blocks])
            else:
                index = run.index(block_id)
                if not _replace(run, index, block_id):
                    self._evict(run, index, [steps[num_done]])
            num_done += num_blocks
        for block_id in block_ids:
            run_of[block_id] = None
        self._num_published -= num_asked
        while self._num_dead > self._num_remembered:
            self._forget(self._deaths.popleft())

    def _place(self, block_id: int) -> tuple[_Run, int]:
        run = self._run_of[block_id]
        assert run is not None, f"block {block_id} is not published"
        return run, run.index(block_id)

    def _evict(self, run: _Run, start: int, steps: list[int]) -> None:
        """Paths from `start` on lose their last block, the last path first, in these steps."""
        held, evicted_at = run.block_ids, run.evicted_at
        stop = start + len(steps)
        if len(evicted_at) < start:
            evicted_at += [_NEVER] * (start - len(evicted_at))
        evicted_at[start:stop] = steps[::-1]
        _clear(held, start, stop)
        if not held:
            run.death = (run, len(evicted_at))
            self._deaths.append(run.death)
            self._num_dead += len(evicted_at)

    def _forget(self, death: _Death) -> None:
        """Stop remembering what a run lost, unless it has come to life again since."""
        run, num_paths = death
        self._num_dead -= num_paths
        if run.death is death:
            run.death = None
            run.evicted_at.clear()
            _drop_unneeded(run)

    def check(self) -> None:
        """Prove that paths and blocks agree and that no dead path is kept."""
        seen: dict[int, _Run] = {}
        num_seen = 0
        runs = [self._root]
        while runs:
            run = runs.pop()
            assert run is self._root or run.num_known, "a dead path is kept"
            assert not run.block_ids or run.block_ids[-1] != _NOTHING
            assert not run.evicted_at or run.evicted_at[-1] != _NEVER
            assert (run.death is None) == bool(run.block_ids or not run.evicted_at)
            for index, step in enumerate(run.evicted_at):
                assert step == _NEVER or run.block_ids[index : index + 1] in ([], [_NOTHING])
            for index, spares in (run.spares or {}).items():
                assert spares and run.block_ids[index] != _NOTHING
                num_seen += len(spares)
                seen.update(dict.fromkeys(spares, run))
            heads = [block_id for block_id in run.block_ids if block_id != _NOTHING]
            num_seen += len(heads)
            seen.update(dict.fromkeys(heads, run))
            for index, siblings in run.children.items():
                assert siblings, "a dead path is kept"
                for key, child in siblings.items():
                    assert (child.parent, child.parent_index, child.key) == (run, index, key)
                    runs.append(child)
        assert seen == {b: run for b, run in enumerate(self._run_of) if run is not None}
        assert num_seen == len(seen) == self._num_published, "a block is in two places"
        assert sum(num_paths for _, num_paths in self._deaths) == self._num_dead
        assert self._num_dead <= self._num_remembered


def _clear(items: list[int], start: int, stop: int) -> None:
    """Put nothing at start to stop - 1 of a list that ends with its last something."""
    if stop < len(items):
        items[start:stop] = [_NOTHING] * (stop - start)
    else:
        del items[start:]
        while items and items[-1] == _NOTHING:
            items.pop()


def _merge(run: _Run, start: int, block_ids: list[int]) -> None:
    """Add blocks from index `start` on where some paths may be held already."""
    held = run.block_ids
    for index, block_id in enumerate(block_ids, start):
        if index == len(held):
            held.append(block_id)
        elif held[index] == _NOTHING:
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
    while run.parent and not (run.block_ids or run.evicted_at or run.children):
        siblings = run.parent.children[run.parent_index]
        del siblings[run.key]
        if not siblings:
            del run.parent.children[run.parent_index]
        run = run.parent
