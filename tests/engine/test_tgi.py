"""When prompts pause the decodes as in the router of text-generation-inference, worked by hand."""

import pytest

from engine.config import ConfigError, EngineConfig

TGI = {
    "num_blocks": 128,  # far more than the budget of tokens
    "memory": "contiguous",
    "reservation": "limit",
    "mixed_batches": False,
    "enable_chunked_prefill": False,
    "max_batch_total_tokens": 64,
    "max_waiting_tokens": 4,
}


@pytest.fixture
def tgi_world(new_world):
    return lambda **settings: new_world(**(TGI | settings))


def steps(world, num_steps: int) -> list[str]:
    return [world.step() for _ in range(num_steps)]


def test_one_that_waits_is_computed_after_so_many_tokens(tgi_world):
    """b may pause a at once: 1 >= 1.2 x 1, rounded down, wait. c, one of the 2 it would take, comes
    when four tokens have been produced since b's prompt, the first of them with it."""
    world = tgi_world()
    world.add("a", 4, 9)
    log = steps(world, 1)
    world.add("b", 4, 9)
    log += steps(world, 1)
    world.add("c", 4, 9)
    log += steps(world, 4)
    assert log == [
        "a 0+4",
        "b 0+4",
        "a 4+1, b 4+1",
        "a 5+1, b 5+1",
        "a 6+1, b 6+1",
        "c 0+4",
    ]


def test_enough_that_wait_are_computed_at_once_but_for_one_decode(tgi_world):
    """Two run and two wait; those who run decode between two pauses. Then 4 run and 1 waits."""
    world = tgi_world()
    world.add("a", 4, 9)
    log = steps(world, 1)
    world.add("b", 4, 9)
    log += steps(world, 1)
    for name in "cd":
        world.add(name, 4, 2)
    log += steps(world, 2)
    world.add("e", 4, 2)
    log += steps(world, 4)
    assert log == [
        "a 0+4",
        "b 0+4",
        "a 4+1, b 4+1",
        "c 0+4, d 0+4",
        "a 5+1, b 5+1, c 4+1, d 4+1",  # the last of c and d: 2 run then
        "a 6+1, b 6+1",
        "a 7+1, b 7+1",
        "e 0+4",
    ]


def test_requests_keep_within_the_budget_with_all_that_they_may_get(tgi_world):
    """Each counts 4 + 16: three of them fit into 64, the fourth waits until one of them ends."""
    world = tgi_world()
    for name in "abcd":
        world.add(name, 4, 16)
    log = world.run()
    assert log[0] == "a 0+4, b 0+4, c 0+4"
    assert log[15:17] == ["a 18+1, b 18+1, c 18+1", "d 0+4"]


def test_ratio_asks_for_as_many_that_fit(tgi_world):
    """Two wait, as 2 x 1 asks for, but the second of them does not fit beside a: the first waits
    for four tokens."""
    world = tgi_world(waiting_served_ratio=2)
    world.add("a", 4, 16)
    log = steps(world, 1)
    for name in "bc":
        world.add(name, 8, 20)
    log += steps(world, 4)
    assert log == ["a 0+4", "a 4+1", "a 5+1", "a 6+1", "b 0+8"]


def test_prompts_of_one_step_keep_within_its_tokens(tgi_world):
    """Only two prompts fit into a step; the third waits one decode, for 1.2 x 2 are not there."""
    world = tgi_world(max_num_batched_tokens=32, max_batch_total_tokens=100, max_waiting_tokens=1)
    for name in "abc":
        world.add(name, 14, 4)
    assert steps(world, 3) == ["a 0+14, b 0+14", "c 0+14", "a 14+1, b 14+1, c 14+1"]


def test_whoever_runs_when_all_others_are_gone_owes_no_decode(tgi_world):
    """b joined a; both are cancelled before the decode that was due."""
    world = tgi_world()
    world.add("a", 4, 9)
    log = steps(world, 1)
    world.add("b", 4, 9)
    log += steps(world, 1)
    world.cancel("a")
    world.cancel("b")
    world.add("c", 4, 1)
    assert log + steps(world, 1) == ["a 0+4", "b 0+4", "c 0+4"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batching": "static"}, "which needs batching continuous, not 'static'"),
        ({"mixed_batches": True}, "which needs mixed_batches False, not True"),
        ({"memory": "paged", "reservation": "none"}, "which needs reservation max or limit"),
        ({"max_model_len": 65}, r"got 64, expected >= max_model_len \(65\), or some"),
        ({"waiting_served_ratio": -1.0}, "waiting_served_ratio: got -1.0, expected from 0"),
        ({"max_waiting_tokens": 0}, "max_waiting_tokens: got 0, expected from 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**{**TGI, "max_model_len": 32, **settings})
