"""Who has the longest prefix in the cache is admitted first, by hand; blocks of 2 tokens."""

import pytest

from engine import longest_prefix
from engine.config import ConfigError, EngineConfig

LPM = {"policy": "lpm", "enable_prefix_caching": True}


@pytest.fixture
def warm_world(new_world):
    """A world for one at a time, whose cache holds 1 to 6."""
    world = new_world(**LPM, max_num_seqs=1)
    world.add("a", [1, 2, 3, 4, 5, 6], 1)
    assert world.run() == ["a 0+6"]
    return world


def test_longest_prefix_goes_first_and_of_equals_the_first_to_come(warm_world):
    warm_world.add("none", [7, 7, 7, 7, 7], 1)
    warm_world.add("two", [1, 2, 7, 7, 7], 1)
    warm_world.add("four", [1, 2, 3, 4, 7], 1)
    warm_world.add("too", [1, 2, 8, 8, 8], 1)
    assert warm_world.run() == ["four 4+1", "two 2+3", "too 2+3", "none 0+5"]


def test_order_is_that_of_the_cache_at_each_step(warm_world):
    """What b computes, c can share, and is before d then."""
    warm_world.add("b", [1, 2, 3, 4, 8, 8, 8], 1)
    warm_world.add("d", [1, 2, 3, 4, 9, 9, 9], 1)
    warm_world.add("c", [1, 2, 3, 4, 8, 8, 9], 1)
    assert warm_world.run() == ["b 4+3", "c 6+1", "d 4+3"]


def test_long_queue_is_left_as_it_is(warm_world, monkeypatch):
    monkeypatch.setattr(longest_prefix, "MOST_MATCHED", 2)
    for name, prompt in (("b", [7, 7, 7]), ("c", [8, 8, 8]), ("d", [1, 2, 3])):
        warm_world.add(name, prompt, 1)
    assert warm_world.run() == ["b 0+3", "d 2+1", "c 0+3"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs", ["a 4+1", "a 5+1, b 6+2", "a 6+1", "a 7+1"]),
        ("lpm", ["a 4+1", "a 5+1", "a 6+1", "a 7+1", "b 6+2"]),
    ],
)
def test_short_of_memory_nobody_is_looked_up_until_something_changes(new_world, policy, expected):
    """b finds 4 of its 8 tokens and one free block of the two it needs; when a has filled another
    block, what b finds is enough. vLLM looks again at each step, SGLang when somebody has ended."""
    world = new_world(policy=policy, enable_prefix_caching=True, num_blocks=4)
    world.add("a", [1, 2, 3, 4], [5, 6, 7, 8, 9])
    world.step()
    world.add("b", [1, 2, 3, 4, 5, 6, 0, 0], 1)
    assert world.run() == expected


@pytest.mark.parametrize("settings", [{"enable_prefix_caching": False}, {"batching": "static"}])
def test_longest_prefix_needs_a_cache_and_a_queue(settings):
    with pytest.raises(ConfigError, match=r"policy: got 'lpm', which needs (enable|batch)"):
        EngineConfig(**(LPM | settings))
