"""The prefix trie against a dict of whole paths."""

import random
import weakref
from collections.abc import Hashable

import pytest

from engine.prefix_trie import PrefixTrie

Path = tuple[Hashable, ...]


class NaiveCache:
    """Blocks by the whole path of keys that leads to them, in the order of publication."""

    def __init__(self) -> None:
        self.blocks_at: dict[Path, list[int]] = {}
        self.path_of: dict[int, Path] = {}

    def insert(self, block_id: int, key: Hashable, after: int | None) -> None:
        path = (*self.path_of[after], key) if after is not None else (key,)
        self.path_of[block_id] = path
        self.blocks_at.setdefault(path, []).append(block_id)

    def remove(self, block_id: int) -> None:
        self.blocks_at[self.path_of.pop(block_id)].remove(block_id)

    def match(self, keys: list[Hashable]) -> list[int]:
        found: list[int] = []
        for stop in range(1, len(keys) + 1):
            blocks = self.blocks_at.get(tuple(keys[:stop]))
            if not blocks:
                break
            found.append(blocks[0])
        return found


def publish(trie: PrefixTrie, blocks: dict[int, Hashable]) -> None:
    """One sequence's blocks with their keys, from its head."""
    after = None
    for block_id, key in blocks.items():
        trie.insert(block_id, key, after)
        after = block_id


@pytest.mark.parametrize("seed", range(20))
def test_random_walk_matches_like_a_dict_of_paths(seed):
    """Two keys make many equal paths; blocks are evicted anywhere, middles included."""
    rng = random.Random(seed)
    trie, naive = PrefixTrie(), NaiveCache()
    for block_id in range(300):
        published = sorted(naive.path_of)
        after = rng.choice([None, *published])
        key = rng.choice("ab")
        trie.insert(block_id, key, after)
        naive.insert(block_id, key, after)
        trie.check()
        while naive.path_of and rng.random() < 0.48:
            evicted = rng.choice(sorted(naive.path_of))
            trie.remove(evicted)
            naive.remove(evicted)
            trie.check()
        assert len(trie) == len(naive.path_of)
        assert all((b in trie) == (b in naive.path_of) for b in range(block_id + 1))
        for _ in range(5):
            keys: list[Hashable] = rng.choices("ab", k=rng.randint(0, 6))
            assert trie.match(keys) == naive.match(keys)


def test_first_published_wins_until_it_is_evicted():
    trie = PrefixTrie()
    publish(trie, {7: "x"})
    publish(trie, {3: "x"})
    assert trie.match(["x"]) == [7]
    trie.remove(7)
    assert trie.match(["x"]) == [3]


def test_published_again_is_published_last():
    trie = PrefixTrie()
    publish(trie, {1: "x"})
    publish(trie, {2: "x"})
    trie.remove(1)
    publish(trie, {1: "x"})
    assert trie.match(["x"]) == [2]


def test_continuations_of_an_evicted_middle_are_hit_once_it_is_back():
    """a-b-c loses b: only a is hit; b comes back in another block and c is hit again."""
    trie = PrefixTrie()
    publish(trie, {0: "a", 1: "b", 2: "c"})
    trie.remove(1)
    assert trie.match("abc") == [0]
    trie.insert(9, "b", 0)
    assert trie.match("abc") == [0, 9, 2]


def test_same_key_under_another_parent_is_other_content():
    trie = PrefixTrie()
    publish(trie, {0: "a", 1: "x"})
    publish(trie, {2: "b"})
    assert trie.match("bx") == [2]


def test_keys_of_equal_hash_are_not_mixed_up():
    """CPython hashes (-1,) and (-2,) alike; they are different content all the same."""
    assert hash((-1,)) == hash((-2,))
    trie = PrefixTrie()
    publish(trie, {0: (-1,)})
    assert trie.match([(-2,)]) == []


def test_match_changes_nothing():
    trie = PrefixTrie()
    publish(trie, {0: "a", 1: "b"})
    assert trie.match("abcd") == trie.match("abcd") == [0, 1]
    trie.check()
    assert len(trie) == 2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_dead_paths_are_let_go(order):
    """In whatever order the blocks of a path are evicted, nothing keeps its keys afterwards."""

    class Key:
        pass

    trie = PrefixTrie()
    keys = [Key() for _ in range(3)]
    alive = [weakref.ref(key) for key in keys]
    publish(trie, dict(enumerate(keys)))
    keys.clear()
    for block_id in order:
        trie.remove(block_id)
    assert [ref() for ref in alive] == [None, None, None]
    assert len(trie) == 0


def test_path_is_kept_while_something_continues_it():
    """a-b and a-c without the block of a: evicting b leaves a-c alone."""
    trie = PrefixTrie()
    publish(trie, {0: "a", 1: "b"})
    trie.insert(2, "c", 0)
    trie.remove(0)
    trie.remove(1)
    trie.check()
    publish(trie, {5: "a"})
    assert trie.match("ac") == [5, 2]
    assert trie.match("ab") == [5]


def test_check_finds_a_dead_path():
    trie = PrefixTrie()
    publish(trie, {0: "a"})
    del trie._node_of[0].block_ids[0]
    with pytest.raises(AssertionError, match="dead path"):
        trie.check()


def test_check_finds_a_block_that_no_path_has():
    trie = PrefixTrie()
    publish(trie, {0: "a"})
    trie._node_of[1] = trie._node_of[0]
    with pytest.raises(AssertionError):
        trie.check()
