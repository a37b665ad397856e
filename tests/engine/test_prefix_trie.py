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


@pytest.fixture
def trie() -> PrefixTrie:
    return PrefixTrie(10)


# --- at random ---


def paths(runs: list[BlockRun], before: Path = ()) -> list[Path]:
    """The path to each block of `runs`, which continue the path `before`."""
    blocks = [(key, start + i) for key, start, num_blocks in runs for i in range(num_blocks)]
    return [(*before, *blocks[: number + 1]) for number in range(len(blocks))]


class TrieModel:
    """The simplest trie: a dict of whole paths, block by block, and all evictions ever."""

    def __init__(self, num_remembered: int) -> None:
        self.now = 0
        self.num_remembered = num_remembered
        self.path_of: dict[int, Path] = {}  # of the blocks published, the first one first
        # (path, step), oldest first; None: another block holds the path still
        self.evictions: list[tuple[Path | None, int]] = []
        self.num_cleared: dict[Path, int] = {}  # evictions there were when it came back last

    def insert(self, block_ids: list[int], runs: list[BlockRun], after: int | None) -> None:
        before = self.path_of[after] if after is not None else ()
        for block_id, path in zip(block_ids, paths(runs, before), strict=True):
            self.path_of[block_id] = path
            self.num_cleared[path] = len(self.evictions)

    def remove(self, block_ids: list[int]) -> None:
        for block_id in block_ids:
            path = self.path_of.pop(block_id)
            is_gone = path not in self.path_of.values()
            self.evictions.append((path if is_gone else None, self.now))

    def withdraw(self, block_ids: list[int]) -> None:
        for block_id in block_ids:
            del self.path_of[block_id]

    def match(self, runs: list[BlockRun]) -> list[int]:
        first_at = {path: block_id for block_id, path in reversed(self.path_of.items())}
        found: list[int] = []
        for path in paths(runs):
            if path not in first_at:
                break
            found.append(first_at[path])
        return found

    def remembered(self) -> dict[Path, int]:
        """Step of the last eviction of each path that is gone, as far as it is remembered."""
        first = max(len(self.evictions) - self.num_remembered, 0)
        return {
            path: step
            for number, (path, step) in enumerate(self.evictions)
            if path is not None and number >= max(first, self.num_cleared[path])
        }

    def missed(self, runs: list[BlockRun], num_hits: int) -> tuple[int, list[int]]:
        remembered = self.remembered()
        needed = {*self.path_of.values(), *remembered}
        known = {path[:stop] for path in needed for stop in range(len(path) + 1)}
        step: int | None = None
        steps = []
        for path in paths(runs):
            step = remembered.get(path, step) if path in known else None
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

    After each operation all answers are compared.
    """

    def __init__(self, seed: int, num_remembered: int) -> None:
        self.rng = rng = random.Random(seed)
        self.trie = PrefixTrie(NUM_BLOCKS, num_remembered)
        self.model = TrieModel(num_remembered)
        self.counts: Counter[str] = Counter()
        self.tables: list[list[int]] = []  # blocks of what was published at once, head first
        for step in range(150):
            self.trie.now = self.model.now = step
            rng.choice([self.publish, self.publish, self.evict_tails, self.evict, self.withdraw])()
            self.compare()

    def publish(self) -> None:
        runs = random_runs(self.rng)
        table = self.model.match(runs)
        num_blocks = sum(num for _, _, num in runs)
        table = table[: self.rng.randint(0, len(table))]  # a short one makes duplicates
        free = [b for b in range(NUM_BLOCKS) if b not in self.model.path_of]
        self.rng.shuffle(free)
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

    def remove(self, block_ids: list[int]) -> None:
        block_ids = [b for b in dict.fromkeys(block_ids) if b in self.model.path_of]
        self.trie.remove(block_ids)
        self.model.remove(block_ids)

    def evict_tails(self) -> None:
        """One sequence after the other, its tail before its head, the last not wholly."""
        tables = self.rng.sample(self.tables, min(2, len(self.tables)))
        block_ids = [b for table in tables for b in reversed(table)]
        self.remove(block_ids[: self.rng.randint(0, len(block_ids))])

    def some(self) -> list[int]:
        published = list(self.model.path_of)
        return self.rng.sample(published, self.rng.randint(0, min(5, len(published))))

    def evict(self) -> None:
        self.remove(self.some())

    def withdraw(self) -> None:
        block_ids = self.some()[:2]
        self.trie.withdraw(block_ids)
        self.model.withdraw(block_ids)

    def compare(self) -> None:
        trie, model = self.trie, self.model
        trie.check()
        assert len(trie) == len(model.path_of)
        assert [b in trie for b in range(NUM_BLOCKS)] == [
            b in model.path_of for b in range(NUM_BLOCKS)
        ]
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
    assert min(counts["hits"], counts["unseen"], counts["duplicates"]) > 20
    assert counts["evicted"] > min(num_remembered, 20) or num_remembered == counts["evicted"] == 0


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
    trie.now = 1
    trie.remove([2, 1])
    assert (trie.match(runs), trie.missed(runs, 1)) == ([0], (2, [1, 1]))
    trie.now = 2
    trie.insert([7], [("a", 1, 1)], 0)
    assert (trie.match(runs), trie.missed(runs, 2)) == ([0, 7], (2, [1]))
    trie.check()


def test_evictions_of_a_run_are_forgotten_one_by_one():
    """Of the four that go together the last two are remembered: a1, then a0."""
    trie = PrefixTrie(4, num_remembered=2)
    trie.insert([0, 1, 2, 3], [("a", 0, 4)], None)
    trie.remove([3, 2, 1, 0])
    trie.check()
    assert trie.missed([("a", 0, 4)], 0) == (2, [0, 0])


def test_a_path_that_went_again_is_remembered_when_its_first_eviction_is_forgotten():
    """Steps 1 to 3 evict a2 a1 a0, a0 again, b2 b1 b0: the first three of these are forgotten."""
    trie = PrefixTrie(4, num_remembered=4)
    runs = [("a", 0, 3)]
    trie.insert([0, 1, 2], runs, None)
    trie.now = 1
    trie.remove([2, 1, 0])
    trie.insert([3], [("a", 0, 1)], None)
    trie.now = 2
    trie.remove([3])
    assert trie.missed(runs, 0) == (0, [2, 1, 1])
    trie.insert([0, 1, 2], [("b", 0, 3)], None)
    trie.now = 3
    trie.remove([2, 1, 0])
    trie.check()
    assert trie.missed(runs, 0) == (2, [2])


def test_a_path_that_went_twice_in_a_step_is_remembered_for_the_last_time():
    """a, b and a again go: the last two evictions are those of b and a."""
    trie = PrefixTrie(4, num_remembered=2)
    publish(trie, {0: "a"})
    trie.remove([0])
    publish(trie, {0: "a"})
    publish(trie, {1: "b"})
    trie.remove([1, 0])
    assert trie.missed(singles("a"), 0) == (0, [0])
    assert trie.missed(singles("b"), 0) == (0, [0])


def test_first_published_wins_until_it_is_evicted(trie):
    publish(trie, {7: "x"})
    publish(trie, {3: "x"})
    assert trie.match(singles(["x"])) == [7]
    trie.remove([7])
    assert trie.match(singles(["x"])) == [3]


def test_published_again_is_published_last(trie):
    publish(trie, {1: "x"})
    publish(trie, {2: "x"})
    trie.remove([1])
    publish(trie, {1: "x"})
    assert trie.match(singles(["x"])) == [2]


def test_continuations_of_an_evicted_middle_are_hit_once_it_is_back(trie):
    """a-b-c loses b: only a is hit; b comes back in another block and c is hit again."""
    publish(trie, {0: "a", 1: "b", 2: "c"})
    trie.remove([1])
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
        trie.remove([block_id])
    assert [ref() for ref in alive] == [None, None, None]
    assert len(trie) == 0


def test_path_is_kept_while_something_continues_it(trie):
    """a-b and a-c without the block of a: evicting b leaves a-c alone."""
    publish(trie, {0: "a", 1: "b"})
    trie.insert([2], singles("c"), 0)
    trie.remove([0])
    trie.remove([1])
    trie.check()
    publish(trie, {5: "a"})
    assert trie.match(singles("ac")) == [5, 2]
    assert trie.match(singles("ab")) == [5]


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
