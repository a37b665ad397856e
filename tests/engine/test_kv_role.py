"""Prompts and outputs on engines of their own: K/V handed on, and K/V given."""

import pytest

from engine.config import ConfigError, EngineConfig
from engine.runners import ToyLMRunner
from engine.transformer import Transformer, TransformerConfig


def test_producer_ends_with_the_first_token(new_world):
    """Of b, too, though it may get three; all memory is back."""
    world = new_world(kv_role="kv_producer")
    world.add("a", 5, 1)
    world.add("b", 4, 3)
    assert world.run() == ["a 0+5, b 0+4"]
    assert [(o.request_id, o.finish_reason) for o in world.outputs] == [
        ("a", "length"),
        ("b", "length"),
    ]
    assert world.num_free_blocks == 16


def test_consumer_computes_the_last_token_of_a_prompt_alone(new_world):
    """It needs the memory of all five, and is a decode of a context of five."""
    world = new_world(kv_role="kv_consumer")
    world.add("a", 5, 2)
    step = world.schedule()
    assert (step.num_tokens, step.num_decodes, step.decode_context_tokens) == (1, 1, 5)
    assert step.prefills == []
    assert world.usage() == {"live": 5, "tail": 1, "free": 26}
    world.commit(step)
    assert world.run() == ["a 5+1"]
    assert world.tokens("a") == [500, 501]


def test_prompt_of_one_token_is_computed(new_world):
    world = new_world(kv_role="kv_consumer")
    world.add("a", 1, 1)
    assert world.schedule().prefills == [(1, 0)]


def test_budget_of_a_consumer_is_not_spent_on_prompts(new_world):
    world = new_world(kv_role="kv_consumer", max_num_batched_tokens=2)
    for name in "abc":
        world.add(name, 8, 1)
    assert world.run() == ["a 7+1, b 7+1", "c 7+1"]


def test_consumer_waits_for_the_blocks_of_the_whole_prompt(new_world):
    world = new_world(kv_role="kv_consumer", num_blocks=4)
    world.add("a", 5, 2)
    world.add("b", 3, 1)
    assert world.run() == ["a 4+1", "a 5+1", "b 2+1"]


def test_preempted_consumer_computes_what_it_was_given(new_world):
    """Pool of 3 blocks: a needs a second for its output, and b has lost its prompt then."""
    world = new_world(kv_role="kv_consumer", num_blocks=3)
    world.add("a", 3, 3)
    world.add("b", 2, 2)
    assert world.run() == ["a 2+1, b 1+1", "a 3+1 | preempted b", "a 4+1", "b 0+3"]
    assert world.tokens("b") == [500, 501]


def test_consumer_goes_on_with_the_tokens_of_an_engine_for_all(new_world):
    """The same requests; a prompt's steps are spared."""
    settings = {"max_num_batched_tokens": 4}
    alone, consumer = new_world(**settings), new_world(kv_role="kv_consumer", **settings)
    for world in (alone, consumer):
        world.add("a", 9, 3)
        world.add("b", 2, 2)
    assert (len(alone.run()), len(consumer.run())) == (5, 3)
    assert [alone.tokens(name) for name in "ab"] == [consumer.tokens(name) for name in "ab"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kv_role": "both"},
            "kv_role: got 'both', expected kv_both or kv_producer or kv_consumer",
        ),
        (
            {"kv_role": "kv_consumer", "enable_prefix_caching": True},
            "kv_role: got 'kv_consumer', which needs enable_prefix_caching False, not True",
        ),
        (
            {"kv_role": "kv_consumer", "batching": "static"},
            "kv_role: got 'kv_consumer', which needs batching continuous, not 'static'",
        ),
    ],
)
def test_roles_that_cannot_be_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**settings)


def test_toy_lm_is_given_nothing():
    transformer = Transformer(TransformerConfig())
    with pytest.raises(ConfigError, match="kv_role: got 'kv_consumer', expected kv_both or"):
        ToyLMRunner(transformer, EngineConfig(kv_role="kv_consumer"))
