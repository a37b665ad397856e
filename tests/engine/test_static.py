"""Static batching, step by step, against logs worked out by hand.

Blocks hold 2 tokens and the pool has 16 of them unless a test says otherwise. In a log, "a 4+3" is
a chunk of 3 tokens of sequence a from position 4 on.
"""

import pytest

from engine.config import ConfigError, EngineConfig


@pytest.fixture
def static_world(new_world):
    """Makes a World with static batching, batches of two unless told otherwise."""

    def make(**settings: object):
        return new_world(**{"batching": "static", "batch_size": 2} | settings)

    return make


def test_batch_waits_until_it_is_full(static_world):
    world = static_world()
    world.add("a", 3, 1)
    assert world.step() == ""
    world.add("b", 2, 1)
    assert world.step() == "a 0+3, b 0+2"


def test_closing_starts_a_batch_that_is_not_full(static_world):
    world = static_world(batch_size=3)
    world.add("a", 3, 1)
    world.add("b", 3, 1)
    world.engine.close_batch()
    assert world.step() == "a 0+3, b 0+3"


def test_closing_holds_for_one_batch(static_world):
    world = static_world()
    world.add("a", 3, 1)
    world.engine.close_batch()
    assert world.run() == ["a 0+3"]
    world.add("b", 3, 1)
    assert world.step() == ""


def test_batch_runs_to_its_longest(static_world):
    """a ends first; c and d, though there from the start, wait until b has ended too."""
    world = static_world()
    world.add("a", 3, 1)
    world.add("b", 2, 3)
    world.add("c", 1, 1)
    world.add("d", 1, 2)
    assert world.run() == ["a 0+3, b 0+2", "b 2+1", "b 3+1", "c 0+1, d 0+1", "d 1+1"]
    assert world.finished == ["a", "b", "c", "d"]


def test_prompts_are_computed_whole_beyond_the_token_budget(static_world):
    world = static_world(max_num_batched_tokens=4)
    world.add("a", 9, 1)
    world.add("b", 9, 1)
    assert world.run() == ["a 0+9, b 0+9"]


def test_row_that_has_ended_keeps_its_memory_until_its_batch_has(static_world):
    """a reserved 4 tokens (2 blocks), b 6 (3 blocks): when a stops early its blocks serve nobody.

    The pool has 32 slots. After the first step a has ended with its first token.
    """
    world = static_world()
    world.add("a", 3, [-1, 0])
    world.add("b", 3, 4)
    step = world.schedule()
    assert world.usage() == {"live": 6, "tail": 2, "reserved": 2, "free": 22}
    world.commit(step)
    assert world.usage() == {"live": 3, "tail": 1, "reserved": 2, "over_reserved": 4, "free": 22}
    world.step()
    assert world.usage() == {"live": 4, "reserved": 2, "over_reserved": 4, "free": 22}
    world.run()
    assert world.usage() == {"free": 32}
    assert world.engine.scheduler.holders == []


def test_batch_is_smaller_when_the_pool_is(static_world):
    """5 blocks: a and b reserve 2 each for 4 tokens, c does not fit and comes next, before d."""
    world = static_world(num_blocks=5, batch_size=4)
    for name in "abcd":
        world.add(name, 3, 2)
    assert world.run()[0] == "a 0+3, b 0+3"
    world.engine.close_batch()
    assert world.run() == ["c 0+3, d 0+3", "c 3+1, d 3+1"]


def test_last_token_needs_no_memory(static_world):
    """2 blocks for 3 prompt tokens and 2 new ones: the second is never fed back."""
    world = static_world(num_blocks=2, batch_size=1)
    world.add("a", 3, 2)
    assert world.run() == ["a 0+3", "a 3+1"]


def test_rows_of_a_batch_share_prefixes(static_world):
    world = static_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3, 4, 5], 2)
    seq = world.add("b", [1, 2, 3, 4, 6], 1)
    assert world.run() == ["a 0+5, b 4+1", "a 5+1"]
    assert seq.num_cached_tokens == 4
    assert world.usage() == {"cached": 6, "free": 26}


def test_cancelled_row_returns_its_memory_at_once(static_world):
    world = static_world()
    world.add("a", 3, 4)
    world.add("b", 3, 4)
    world.step()
    assert world.num_free_blocks == 10
    assert world.cancel("a")
    assert world.num_free_blocks == 13
    assert world.run() == ["b 3+1", "b 4+1", "b 5+1"]


def test_batch_ends_when_its_last_row_is_cancelled(static_world):
    """a has ended and keeps its memory for b's sake; with b cancelled all of it comes back."""
    world = static_world()
    world.add("a", 3, 1)
    world.add("b", 3, 4)
    world.step()
    world.cancel("b")
    assert world.usage() == {"free": 32}
    world.add("c", 1, 1)
    world.add("d", 1, 1)
    assert world.step() == "c 0+1, d 0+1"


def test_row_cancelled_in_flight_gets_no_token(static_world):
    world = static_world()
    world.add("a", 3, 2)
    world.add("b", 3, 2)
    step = world.schedule()
    tokens = world.runner.run(step)
    world.cancel("a")
    assert [output.request_id for output in world.commit(step, tokens)] == ["b"]
    assert world.run() == ["b 3+1"]
    assert world.num_free_blocks == 16


def test_cancelled_while_collecting_is_not_counted(static_world):
    world = static_world()
    world.add("a", 3, 1)
    world.cancel("a")
    world.add("b", 3, 1)
    assert world.step() == ""
    world.add("c", 3, 1)
    assert world.step() == "b 0+3, c 0+3"


@pytest.mark.parametrize("caching", [False, True])
def test_every_block_is_back_when_all_have_ended(static_world, caching):
    world = static_world(num_blocks=7, batch_size=3, enable_prefix_caching=caching)
    for i in range(9):
        world.add(f"r{i}", [1, 2, 3 + i % 2], [9] * (1 + i % 3) + [-1])
    log = []
    while world.engine.has_work:
        world.engine.close_batch()
        log += world.run()
    assert len(world.finished) == 9
    assert world.num_free_blocks == 7


# --- rows that have ended and are computed nevertheless ---


def shapes(world, num_steps: int) -> list[tuple[int, int, int]]:
    """Decodes, what they attend to, and how many of them have ended, of steps after the first."""
    world.commit(world.schedule())
    found = []
    for _ in range(num_steps):
        step = world.schedule()
        found.append((step.num_decodes, step.decode_context_tokens, step.num_padded))
        world.commit(step)
    return found


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        # a has ended with its first token: b attends to 4, 5 and 6 tokens, then the batch is over.
        ("none", [(1, 4, 0), (1, 5, 0), (1, 6, 0), (0, 0, 0)]),
        # So does a, whose first token is fed next, though nobody waits for what comes out.
        ("batch", [(2, 8, 1), (2, 10, 1), (2, 12, 1), (0, 0, 0)]),
        # b may get 6 tokens: a first one, and five steps more.
        ("limit", [(2, 8, 1), (2, 10, 1), (2, 12, 1), (2, 14, 2), (2, 16, 2), (0, 0, 0)]),
    ],
)
def test_rows_that_have_ended_are_computed_as_padding_says(static_world, padding, expected):
    world = static_world(padding=padding)
    world.add("a", 3, [-1, 0])
    world.add("b", 3, [1, 1, 1, -1, 0, 0])
    assert shapes(world, len(expected)) == expected
    assert world.usage() == {"free": 32}


def test_next_batch_waits_for_rows_that_have_ended(static_world):
    """a may get 4 tokens and ends with its first: b comes after three steps of nothing else."""
    world = static_world(padding="limit", batch_size=1)
    world.add("a", 3, [-1, 0, 0, 0])
    world.add("b", 2, 1)
    assert [world.step() for _ in range(5)] == ["a 0+3", "", "", "", "b 0+2"]


def test_padding_is_for_static_batches():
    with pytest.raises(ConfigError, match="padding: got 'batch', which needs batching static"):
        EngineConfig(padding="batch")
