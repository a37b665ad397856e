"""The prefix trie, worked by hand and against whole paths."""

import random
import weakref
from collections import Counter
from collections.abc import Hashable

import pytest

from engine.prefix_trie import PrefixTrie
from engine.request import BlockRun

Path = tuple[tuple[Hashable, int], ...]  # (key, index) of each block


def singles(keys) -> list[BlockRun]:
    """A run for each key."""
    return [(key, 0, 1) for key in keys]


def publish(trie: PrefixTrie, blocks: dict[int, Hashable]) -> None:
    """One sequence's blocks with their keys, from its head."""
    trie.insert(list(blocks), singles(blocks.values()), None)


def evict(trie: PrefixTrie, block_ids: list[int], step: int = 0) -> None:
    """All of them in one step."""
    trie.remove(block_ids, [step] * len(block_ids))


@pytest.fixture
def trie() -> PrefixTrie:
    return PrefixTrie(10)


class Deferred:
    """Somebody who goes on after block `last`, and publishes only when asked for.

    put_off: blocks that are full but not published, and their runs. num_asked: how often it was.
    is_put_off: whether the trie agreed to ask, the last time.
    """

    def __init__(self, trie: PrefixTrie, last: int) -> None:
        self.trie = trie
        self.last = last
        self.put_off: list[int] = []
        self.runs: list[BlockRun] = []
        self.num_asked = 0
        self.is_put_off = trie.defer(last, self.catch_up)

    def fill(self, block_ids: list[int], runs: list[BlockRun]) -> None:
        self.put_off = self.put_off + block_ids
        self.runs = self.runs + runs

    def publish(self) -> None:
        if self.put_off:
            self.trie.insert(self.put_off, self.runs, self.last)
            self.last = self.put_off[-1]
            self.put_off, self.runs = [], []

    def catch_up(self) -> None:
        self.num_asked += 1
        self.publish()
        self.is_put_off = self.trie.defer(self.last, self.catch_up)


# --- at random ---


def paths(runs: list[BlockRun], before: Path = ()) -> list[Path]:
    """The path to each block of `runs`, which continue the path `before`."""
    blocks = [(key, start + i) for key, start, num_blocks in runs for i in range(num_blocks)]
    return [(*before, *blocks[: number + 1]) for number in range(len(blocks))]


def run_of(path: Path) -> Path:
    """A run is known by the path to its first block."""
    _, index = path[-1]
    return path[: len(path) - index]


class TrieModel:
    """The simplest trie: dicts of whole paths, block by block.

    path_of: of the blocks published, the first one first. evicted_at: of the paths that are gone,
    while they are remembered. deaths: (run, paths remembered then), oldest first.
    """

    def __init__(self, num_remembered: int) -> None:
        self.num_remembered = num_remembered
        self.path_of: dict[int, Path] = {}
        self.evicted_at: dict[Path, int] = {}
        self.deaths: list[tuple[Path, int]] = []

    def insert(self, block_ids: list[int], runs: list[BlockRun], after: int | None) -> None:
        before = self.path_of[after] if after is not None else ()
        for block_id, path in zip(block_ids, paths(runs, before), strict=True):
            self.path_of[block_id] = path
            self.evicted_at.pop(path, None)

    def is_alive(self, run: Path) -> bool:
        return run in map(run_of, self.path_of.values())

    def remove(self, block_ids: list[int], steps: list[int]) -> None:
        for block_id, step in zip(block_ids, steps, strict=True):
            path = self.path_of.pop(block_id)
            if path in self.path_of.values():
                continue
            self.evicted_at[path] = step
            run = run_of(path)
            if not self.is_alive(run):
                self.deaths.append((run, [*map(run_of, self.evicted_at)].count(run)))
        while sum(num_paths for _, num_paths in self.deaths) > self.num_remembered:
            run, _ = self.deaths.pop(0)
            if not self.is_alive(run) and run not in dict(self.deaths):
                self.evicted_at = {p: at for p, at in self.evicted_at.items() if run_of(p) != run}

    def match(self, runs: list[BlockRun]) -> list[int]:
        first_at = {path: block_id for block_id, path in reversed(self.path_of.items())}
        found: list[int] = []
        for path in paths(runs):
            if path not in first_at:
                break
            found.append(first_at[path])
        return found

    def missed(self, runs: list[BlockRun], num_hits: int) -> tuple[int, list[int]]:
        needed = {*self.path_of.values(), *self.evicted_at}
        known = {path[:stop] for path in needed for stop in range(len(path) + 1)}
        step: int | None = None
        steps = []
        for path in paths(runs):
            step = self.evicted_at.get(path, step) if path in known else None
            steps.append(step)
        missed = steps[num_hits:]
        return missed.count(None), [step for step in missed if step is not None]


NUM_BLOCKS = 40


def random_runs(rng: random.Random) -> list[BlockRun]:
    """A few of few contents, so that beginnings often agree; some runs hold one block."""
    return [
        (key, 0, 1 if key == "single" else rng.randint(1, 6))
        for key in rng.choices(["single", "a", "b"], k=rng.randint(1, 4))
    ]


def cut(runs: list[BlockRun], first: int, stop: int) -> list[BlockRun]:
    """Runs of blocks first to stop - 1 of `runs`."""
    parts = []
    for key, start, num_blocks in runs:
        begin, end = max(first, 0), min(stop, num_blocks)
        if begin < end:
            parts.append((key, start + begin, end - begin))
        first, stop = first - num_blocks, stop - num_blocks
    return parts


class Walk:
    """Sequences publish in pieces, often what is there already; blocks go in every order.

    Some put off what they publish, which the model does not: nobody can tell, but by counting.
    After each operation all answers are compared.
    """

    def __init__(self, seed: int, num_remembered: int) -> None:
        self.rng = rng = random.Random(seed)
        self.trie = PrefixTrie(NUM_BLOCKS, num_remembered)
        self.model = TrieModel(num_remembered)
        self.counts: Counter[str] = Counter()
        self.tables: list[list[int]] = []  # blocks of what was published at once, head first
        self.deferred: list[Deferred] = []
        operations = [self.publish, self.publish, self.evict_tails, self.evict]
        operations += [self.defer, self.defer, self.fill, self.fill_and_evict, self.resume]
        for self.turn in range(200):
            rng.choice(operations)()
            self.drop_refused()
            self.compare()

    def publish(self) -> None:
        runs = random_runs(self.rng)
        table = self.trie.match(runs)
        assert table == self.model.match(runs)
        num_blocks = sum(num for _, _, num in runs)
        table = table[: self.rng.randint(0, len(table))]  # a short one makes duplicates
        free = self.free()
        if len(free) < num_blocks:
            return
        while (first := len(table)) < num_blocks:
            stop = self.rng.randint(first + 1, num_blocks)
            new = [free.pop() for _ in range(stop - first)]
            after = table[-1] if table else None
            self.trie.insert(new, cut(runs, first, stop), after)
            self.model.insert(new, cut(runs, first, stop), after)
            table += new
            self.compare()
        self.tables.append(table)

    def free(self) -> list[int]:
        """Blocks that hold nothing, in any order."""
        free = [b for b in range(NUM_BLOCKS) if b not in self.model.path_of]
        self.rng.shuffle(free)
        return free

    def defer(self) -> None:
        put_off = [block_id for deferred in self.deferred for block_id in deferred.put_off]
        published = sorted(self.model.path_of.keys() - put_off)
        for last in self.rng.sample(published, len(published)):
            deferred = Deferred(self.trie, last)
            if deferred.is_put_off:
                self.deferred.append(deferred)
                break

    def fill(self) -> None:
        """Somebody goes on, of which only the model is told now."""
        free = self.free()[: self.rng.randint(1, 3)]
        if not self.deferred or not free:
            return
        deferred = self.rng.choice(self.deferred)
        after = [deferred.last, *deferred.put_off][-1]
        key, index = self.model.path_of[after][-1]
        num_blocks = self.rng.randint(0, len(free))
        other = self.rng.choice(["single", "a", "b"])
        runs = [(key, index + 1, num_blocks), (other, 0, len(free) - num_blocks)]
        runs = [run for run in runs if run[2]]
        self.model.insert(free, runs, after)
        deferred.fill(free, runs)
        self.counts["put off"] += len(free)

    def fill_and_evict(self) -> None:
        """Before anybody asks."""
        self.fill()
        self.evict_tails()

    def resume(self) -> None:
        if self.deferred:
            deferred = self.deferred.pop(self.rng.randrange(len(self.deferred)))
            self.trie.resume(deferred.last)
            deferred.publish()

    def drop_refused(self) -> None:
        """Those that were asked and could not put off more."""
        self.deferred = [deferred for deferred in self.deferred if deferred.is_put_off]

    def remove(self, block_ids: list[int]) -> None:
        """Evict those of them that are published, but for what is put off and the block before."""
        held = [block_id for d in self.deferred for block_id in (d.last, *d.put_off)]
        evicted = self.model.path_of.keys() - held
        block_ids = [block_id for block_id in dict.fromkeys(block_ids) if block_id in evicted]
        steps = sorted(self.rng.choices(range(self.turn, self.turn + 2), k=len(block_ids)))
        self.trie.remove(block_ids, steps)
        self.model.remove(block_ids, steps)

    def evict_tails(self) -> None:
        """One sequence after the other, its tail before its head, the last not wholly."""
        tables = self.rng.sample(self.tables, min(2, len(self.tables)))
        block_ids = [b for table in tables for b in reversed(table)]
        self.remove(block_ids[: self.rng.randint(0, len(block_ids))])

    def evict(self) -> None:
        published = list(self.model.path_of)
        self.remove(self.rng.sample(published, self.rng.randint(0, min(5, len(published)))))

    def compare(self) -> None:
        trie, model = self.trie, self.model
        trie.check()
        put_off = [block_id for deferred in self.deferred for block_id in deferred.put_off]
        published = model.path_of.keys() - put_off
        assert len(trie) == len(published)
        assert {block_id for block_id in range(NUM_BLOCKS) if block_id in trie} == published
        paths = list(model.path_of.values())
        self.counts["duplicates"] += len(paths) - len(set(paths))
        for _ in range(3):
            runs = random_runs(self.rng)
            hits = model.match(runs)
            assert trie.match(runs) == hits
            for num_hits in {0, len(hits)}:
                unseen, evicted_at = model.missed(runs, num_hits)
                assert trie.missed(runs, num_hits) == (unseen, evicted_at)
            self.counts["hits"] += len(hits)
            self.counts["evicted"] += len(evicted_at)
            self.counts["unseen"] += unseen


@pytest.mark.parametrize("num_remembered", [0, 1, 2, 7, 40, 1000])
@pytest.mark.parametrize("seed", range(6))
def test_random_walk_answers_like_whole_paths(seed, num_remembered):
    counts = Walk(seed, num_remembered).counts
    assert min(counts["hits"], counts["unseen"], counts["duplicates"], counts["evicted"]) > 10
    assert counts["put off"] > 20


# --- worked by hand ---


def test_a_run_is_matched_as_far_as_it_goes(trie):
    """Blocks 5, 3, 4 hold a0 a1 a2, block 9 holds b0 after a1."""
    trie.insert([5, 3, 4], [("a", 0, 3)], None)
    trie.insert([9], [("b", 0, 1)], 3)
    assert trie.match([("a", 0, 5)]) == [5, 3, 4]
    assert trie.match([("a", 0, 2), ("b", 0, 2)]) == [5, 3, 9]
    assert trie.match([("a", 0, 1), ("b", 0, 1)]) == [5]
    assert trie.match([("b", 0, 1)]) == []


def test_a_run_that_is_cut_goes_on(trie):
    trie.insert([0, 1], [("a", 0, 2)], None)
    trie.insert([2, 3], [("a", 2, 1), ("b", 0, 1)], 1)
    assert trie.match([("a", 0, 3), ("b", 0, 1)]) == [0, 1, 2, 3]


def test_the_same_content_from_its_start_again_is_a_run_of_its_own(trie):
    """a0 a1 a0 a1 is not a0 a1 a2 a3."""
    trie.insert([0, 1, 2, 3], [("a", 0, 2), ("a", 0, 2)], None)
    assert trie.match([("a", 0, 4)]) == [0, 1]
    assert trie.match([("a", 0, 2), ("a", 0, 4)]) == [0, 1, 2, 3]


def test_tail_of_a_run_is_evicted_and_back():
    """a2 and a1 go in step 1, a1 is back in step 2: a2 and what was never there are missed."""
    trie = PrefixTrie(10, num_remembered=10)
    runs = [("a", 0, 5)]
    trie.insert([0, 1, 2], [("a", 0, 3)], None)
    evict(trie, [2, 1], 1)
    assert (trie.match(runs), trie.missed(runs, 1)) == ([0], (2, [1, 1]))
    trie.insert([7], [("a", 1, 1)], 0)
    assert (trie.match(runs), trie.missed(runs, 2)) == ([0, 7], (2, [1]))
    trie.check()


def test_evictions_of_a_run_are_remembered_while_it_has_a_block_left():
    """Of a0 a1 a2 a3 three go. None may be remembered of dead runs, but this one is not dead."""
    trie = PrefixTrie(4, num_remembered=0)
    runs = [("a", 0, 5)]
    trie.insert([0, 1, 2, 3], [("a", 0, 4)], None)
    for step, block_id in ((1, 3), (2, 2), (3, 0)):
        evict(trie, [block_id], step)
    trie.check()
    assert trie.missed(runs, 0) == (1, [3, 3, 2, 1])  # a1 is there: missed for what goes before
    evict(trie, [1], step)
    trie.check()
    assert trie.missed(runs, 0) == (5, [])


def test_blocks_that_go_at_once_may_go_in_different_steps():
    """The end of one run, the middle of another and then its end."""
    trie = PrefixTrie(10)
    trie.insert([0, 1, 2, 3], [("a", 0, 4)], None)
    trie.insert([5, 6, 7, 8], [("b", 0, 4)], None)
    trie.remove([3, 2, 1, 6, 8, 7], [1, 1, 2, 3, 4, 7])
    trie.check()
    assert trie.missed([("a", 0, 4)], 1) == (0, [2, 1, 1])
    assert trie.missed([("b", 0, 4)], 1) == (0, [3, 7, 4])


def test_dead_runs_are_forgotten_as_a_whole_oldest_first():
    """a, of 2 paths, dies in step 1, b, of 3, in step 2: 5 in all. c, of 1, is one too many."""
    trie = PrefixTrie(10, num_remembered=5)
    for step, (key, num_blocks) in enumerate({"a": 2, "b": 3, "c": 1}.items(), 1):
        trie.insert(list(range(num_blocks)), [(key, 0, num_blocks)], None)
        assert trie.missed([("a", 0, 3)], 0) == ((1, [1, 1]) if step > 1 else (3, []))
        evict(trie, list(range(num_blocks))[::-1], step)
        trie.check()
    assert trie.missed([("a", 0, 3)], 0) == (3, [])
    assert trie.missed([("b", 0, 3)], 0) == (0, [2, 2, 2])
    assert trie.missed([("c", 0, 3)], 0) == (2, [3])


def test_dead_run_larger_than_the_memory_is_forgotten_at_once_and_all_before_it():
    trie = PrefixTrie(10, num_remembered=2)
    publish(trie, {0: "b"})
    evict(trie, [0])
    trie.insert([0, 1, 2], [("a", 0, 3)], None)
    evict(trie, [2, 1])
    assert trie.missed([("a", 0, 3)], 1) == (0, [0, 0])
    assert trie.missed(singles("b"), 0) == (0, [0])
    evict(trie, [0])
    trie.check()
    assert trie.missed([("a", 0, 3)], 0) == (3, [])
    assert trie.missed(singles("b"), 0) == (1, [])


def test_run_that_lives_again_is_not_forgotten_by_its_earlier_death():
    """a0 a1 a2 die in step 1 (3 paths of 4), a0 lives again, b0 b1 die in step 2: 5 are too many.

    The death of a is passed over: what a lost in step 1 stays. It dies again in step 3, and of its
    3 paths, with the 2 of b, the latter must go.
    """
    trie = PrefixTrie(4, num_remembered=4)
    runs = [("a", 0, 3)]
    trie.insert([0, 1, 2], runs, None)
    evict(trie, [2, 1, 0], 1)
    trie.insert([3], [("a", 0, 1)], None)
    trie.insert([0, 1], [("b", 0, 2)], None)
    evict(trie, [1, 0], 2)
    trie.check()
    assert trie.missed(runs, 1) == (0, [1, 1])
    assert trie.missed([("b", 0, 2)], 0) == (0, [2, 2])
    evict(trie, [3], 3)
    trie.check()
    assert trie.missed(runs, 0) == (0, [3, 1, 1])
    assert trie.missed([("b", 0, 2)], 0) == (2, [])


def test_earlier_death_of_a_run_that_lives_again_counts_until_its_turn_comes():
    """Room for 2 paths: x dies, a dies, a lives and dies again: the two last are both a's."""
    trie = PrefixTrie(4, num_remembered=2)
    for step, key in enumerate("xaa", 1):
        publish(trie, {0: key})
        evict(trie, [0], step)
    trie.check()
    assert trie.missed(singles("a"), 0) == (0, [3])
    assert trie.missed(singles("x"), 0) == (1, [])


def test_runs_of_one_block_are_remembered_one_by_one():
    """Four go one after the other, tail first; the last two are remembered: b, then a."""
    trie = PrefixTrie(4, num_remembered=2)
    publish(trie, dict(enumerate("abcd")))
    evict(trie, [3, 2, 1, 0])
    trie.check()
    assert trie.missed(singles("abcd"), 0) == (2, [0, 0])


def test_eviction_of_one_of_two_blocks_that_hold_a_path_is_none():
    """It takes no place in the memory, either: x is remembered beside a."""
    trie = PrefixTrie(4, num_remembered=2)
    publish(trie, {3: "x"})
    evict(trie, [3])
    publish(trie, {0: "a"})
    publish(trie, {1: "a"})
    evict(trie, [0], 1)
    assert trie.missed(singles("a"), 0) == (1, [])
    evict(trie, [1], 2)
    trie.check()
    assert trie.missed(singles("a"), 0) == (0, [2])
    assert trie.missed(singles("x"), 0) == (0, [0])


def test_first_published_wins_until_it_is_evicted(trie):
    publish(trie, {7: "x"})
    publish(trie, {3: "x"})
    assert trie.match(singles(["x"])) == [7]
    evict(trie, [7])
    assert trie.match(singles(["x"])) == [3]


def test_published_again_is_published_last(trie):
    publish(trie, {1: "x"})
    publish(trie, {2: "x"})
    evict(trie, [1])
    publish(trie, {1: "x"})
    assert trie.match(singles(["x"])) == [2]


def test_continuations_of_an_evicted_middle_are_hit_once_it_is_back(trie):
    """a-b-c loses b: only a is hit; b comes back in another block and c is hit again."""
    publish(trie, {0: "a", 1: "b", 2: "c"})
    evict(trie, [1])
    assert trie.match(singles("abc")) == [0]
    trie.insert([9], singles("b"), 0)
    assert trie.match(singles("abc")) == [0, 9, 2]


def test_same_key_under_another_parent_is_other_content(trie):
    publish(trie, {0: "a", 1: "x"})
    publish(trie, {2: "b"})
    assert trie.match(singles("bx")) == [2]


def test_keys_of_equal_hash_are_not_mixed_up(trie):
    """CPython hashes (-1,) and (-2,) alike; they are different content all the same."""
    assert hash((-1,)) == hash((-2,))
    publish(trie, {0: (-1,)})
    assert trie.match(singles([(-2,)])) == []


def test_match_changes_nothing(trie):
    publish(trie, {0: "a", 1: "b"})
    assert trie.match(singles("abcd")) == trie.match(singles("abcd")) == [0, 1]
    trie.check()
    assert len(trie) == 2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_dead_paths_are_let_go(trie, order):
    """In whatever order the blocks of a path are evicted, nothing keeps its keys afterwards."""

    class Key:
        pass

    keys = [Key() for _ in range(3)]
    alive = [weakref.ref(key) for key in keys]
    publish(trie, dict(enumerate(keys)))
    keys.clear()
    for block_id in order:
        evict(trie, [block_id])
    assert [ref() for ref in alive] == [None, None, None]
    assert len(trie) == 0


def test_path_is_kept_while_something_continues_it(trie):
    """a-b and a-c without the block of a: evicting b leaves a-c alone."""
    publish(trie, {0: "a", 1: "b"})
    trie.insert([2], singles("c"), 0)
    evict(trie, [0])
    evict(trie, [1])
    trie.check()
    publish(trie, {5: "a"})
    assert trie.match(singles("ac")) == [5, 2]
    assert trie.match(singles("ab")) == [5]


# --- what is put off ---


@pytest.fixture
def deferred(trie) -> Deferred:
    """a0 a1 are in blocks 0 and 1; a2 and a3, in 2 and 3, are full but put off."""
    trie.insert([0, 1], [("a", 0, 2)], None)
    deferred = Deferred(trie, 1)
    assert deferred.is_put_off
    deferred.fill([2, 3], [("a", 2, 2)])
    return deferred


def test_what_is_put_off_is_not_published_for_others(trie, deferred):
    publish(trie, {7: "b"})
    assert trie.match(singles("b")) == [7]
    assert trie.missed(singles("b"), 1) == (0, [])
    evict(trie, [7])
    trie.check()
    assert (len(trie), 2 in trie, deferred.num_asked) == (2, False, 0)


def test_match_finds_what_is_put_off_again_and_again(trie, deferred):
    runs = [("a", 0, 9)]
    assert trie.match(runs) == [0, 1, 2, 3]
    assert deferred.is_put_off
    deferred.fill([8], [("a", 4, 1)])
    assert trie.match(runs) == trie.match(runs) == [0, 1, 2, 3, 8]
    trie.check()
    assert (len(trie), deferred.num_asked) == (5, 3)


def test_match_finds_runs_that_are_put_off(trie, deferred):
    """After a3 a run begins, and after that another."""
    deferred.fill([8, 9, 7], [("b", 0, 2), ("c", 0, 1)])
    runs = [("a", 0, 4), ("b", 0, 2), ("c", 0, 2)]
    assert trie.match(runs) == [0, 1, 2, 3, 8, 9, 7]
    deferred.fill([5], [("c", 1, 1)])
    assert trie.match(runs[:2]) == [0, 1, 2, 3, 8, 9]
    assert 5 not in trie
    assert trie.match(runs) == [0, 1, 2, 3, 8, 9, 7, 5]
    trie.check()


def test_misses_are_told_from_what_is_put_off():
    """a0 is evicted in step 1: a1 to a3 are missed for that, a4 was never seen."""
    trie = PrefixTrie(10)
    trie.insert([0, 1, 2], [("a", 0, 3)], None)
    evict(trie, [0], 1)
    Deferred(trie, 2).fill([3], [("a", 3, 1)])
    assert trie.missed([("a", 0, 5)], 0) == (1, [1, 1, 1, 1])
    assert 3 in trie


def test_what_is_put_off_comes_before_what_another_publishes_of_the_run(trie, deferred):
    """Block 9 holds a2 as well, but came later, and 8 goes on after a3."""
    trie.insert([9], [("a", 2, 1)], 1)
    assert deferred.last == 3
    trie.insert([8], [("a", 4, 1)], 3)
    assert trie.match([("a", 0, 9)]) == [0, 1, 2, 3, 8]
    evict(trie, [2])
    assert trie.match([("a", 0, 9)]) == [0, 1, 9, 3, 8]
    trie.check()


def test_what_is_put_off_comes_before_another_run_that_begins_there(trie):
    """a0 in 0, then b0: in 1, put off, and later in 2. Nobody can put off b1 with two b0."""
    trie.insert([0], [("a", 0, 1)], None)
    deferred = Deferred(trie, 0)
    deferred.fill([1], [("b", 0, 1)])
    trie.insert([2], [("b", 0, 1)], 0)
    assert trie.match([("a", 0, 1), ("b", 0, 1)]) == [0, 1]
    trie.check()
    assert not Deferred(trie, 1).is_put_off


def test_what_is_put_off_is_published_before_a_block_of_the_run_is_evicted(trie, deferred):
    """a1 goes in step 1. a2 and a3 are missed for that, and hit when it is back."""
    runs = [("a", 0, 4)]
    trie.insert([9], [("a", 1, 1)], 0)
    deferred.fill([8], [("a", 4, 1)])
    evict(trie, [1, 9], 1)
    trie.check()
    assert (len(trie), trie.missed(runs, 1)) == (4, (0, [1, 1, 1]))
    trie.insert([7], [("a", 1, 1)], 0)
    assert trie.match(runs) == [0, 7, 2, 3]


def test_content_that_is_put_off_and_held_by_another_is_no_eviction_when_that_goes():
    """b0 follows a0: in block 2 and, filled later and put off, in 1. b1, in 3, is evicted before 2.

    As long as b0 is in a block, that of b1 is remembered, though there is no room for dead runs.
    """
    trie = PrefixTrie(10, num_remembered=0)
    trie.insert([0], [("a", 0, 1)], None)
    deferred = Deferred(trie, 0)
    trie.insert([2, 3], [("b", 0, 2)], 0)
    deferred.fill([1], [("b", 0, 1)])
    if not deferred.is_put_off:
        deferred.publish()
    evict(trie, [3, 2], 1)
    runs = [("a", 0, 1), ("b", 0, 2)]
    assert trie.match(runs) == [0, 1]
    assert trie.missed(runs, 2) == (0, [1])


def test_nothing_is_put_off_any_more_after_resume(trie, deferred):
    trie.resume(1)
    assert trie.match([("a", 0, 4)]) == [0, 1]
    deferred.publish()
    assert trie.match([("a", 0, 4)]) == [0, 1, 2, 3]
    assert deferred.num_asked == 0
    assert Deferred(trie, 3).is_put_off


def test_of_a_run_only_one_is_put_off(trie, deferred):
    assert not Deferred(trie, 1).is_put_off
    assert trie.match([("a", 0, 4)]) == [0, 1, 2, 3]
    assert not Deferred(trie, 3).is_put_off


def test_only_where_nothing_follows_it_can_be_put_off(trie):
    """a1 and b0 both follow a0, and nothing follows them."""
    trie.insert([0, 1], [("a", 0, 2)], None)
    trie.insert([2], [("b", 0, 1)], 0)
    assert not Deferred(trie, 0).is_put_off
    assert Deferred(trie, 1).is_put_off
    assert Deferred(trie, 2).is_put_off


def test_not_where_another_run_follows(trie):
    trie.insert([0, 1, 2], [("a", 0, 2), ("b", 0, 1)], None)
    assert not Deferred(trie, 1).is_put_off


def test_run_with_two_blocks_for_a_path_is_not_put_off(trie):
    """Not even after the other path; but as soon as one of the two is evicted."""
    trie.insert([0, 1], [("a", 0, 2)], None)
    trie.insert([2], [("a", 0, 1)], None)
    assert not Deferred(trie, 1).is_put_off
    evict(trie, [0])
    assert Deferred(trie, 1).is_put_off


# --- check ---


def test_check_finds_a_dead_path(trie):
    publish(trie, {0: "a"})
    del trie._run_of[0].block_ids[0]
    with pytest.raises(AssertionError, match="dead path"):
        trie.check()


def test_check_finds_a_block_that_no_path_has(trie):
    publish(trie, {0: "a"})
    trie._run_of[1] = trie._run_of[0]
    with pytest.raises(AssertionError):
        trie.check()
