"""The engine from outside: what it refuses, what it gives back, and tokens as they come."""

import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.request import Request, RequestError, TokenPrompt
from engine.sequence import Status
from engine.step import Step
from engine.tokenizer import EOS


class EchoRunner:
    """Answers every prompt with the prompt, then EOS."""

    def run(self, step: Step) -> list[int]:
        tokens = []
        for chunk in step.chunks:
            if chunk.samples:
                index = len(chunk.seq.output_token_ids)
                tokens += chunk.seq.request.prompt.token_ids(index, index + 1) or [EOS]
        return tokens


def echo_engine(**settings: object) -> Engine:
    small: dict[str, object] = {"block_size": 2, "num_blocks": 16, "max_model_len": 32}
    return Engine(EngineConfig(**(small | settings)), EchoRunner())


def drain(engine: Engine, request_id: str) -> list[int]:
    return [output.token_id for output in engine.stream(request_id)]


# --- refusals ---


def test_prompt_longer_than_the_model_is_refused_with_both_numbers(new_world):
    world = new_world(max_model_len=8)
    with pytest.raises(RequestError, match=r"request a: .* prompt of 9 .*max_model_len 8"):
        world.add("a", 9, 1)


def test_prompt_that_leaves_no_room_for_output_is_refused(new_world):
    world = new_world(max_model_len=8)
    with pytest.raises(RequestError, match=r"prompt of 8 .*max_model_len 8"):
        world.add("a", 8, 1)
    world.add("b", 7, 1)
    assert world.run() == ["b 0+7"]


def test_request_that_can_never_fit_is_refused_with_all_numbers(new_world):
    """5 + 5 tokens, the last of which needs no slot: 5 blocks of 2, in a pool of 4."""
    world = new_world(num_blocks=4)
    with pytest.raises(RequestError, match=r"a: 5 prompt .* 5 new .* 5 blocks.* has 4"):
        world.add("a", 5, 5)


@pytest.mark.parametrize("batching", ["static", "continuous"])
def test_request_that_just_fits_is_served(new_world, batching):
    """5 + 4 tokens, the last of which needs no slot, fill a pool of 4 blocks."""
    world = new_world(num_blocks=4, batching=batching, batch_size=1)
    world.add("a", 5, 4)
    world.run()
    assert world.finished == ["a"]


def test_output_is_counted_up_to_the_models_length_only(new_world):
    """100 new tokens are asked for, 3 are possible, and those fit."""
    world = new_world(num_blocks=4, max_model_len=8)
    world.add("a", 5, 100)
    world.run()
    assert len(world.tokens("a")) == 3


def test_refused_request_leaves_no_trace(new_world):
    """Neither does it block those behind it, nor is its id in use."""
    world = new_world(num_blocks=4)
    with pytest.raises(RequestError):
        world.add("a", 9, 1)
    assert not world.engine.has_work
    world.add("b", 2, 1)
    world.add("a", 2, 1)
    assert world.run() == ["b 0+2, a 0+2"]


def test_id_in_use_is_refused_until_its_request_has_ended(new_world):
    world = new_world()
    world.add("a", 2, 1)
    with pytest.raises(RequestError, match="request a: the id is in use"):
        world.add("a", 3, 1)
    assert world.run() == ["a 0+2"]
    world.add("a", 3, 1)
    assert world.run() == ["a 0+3"]


def test_empty_prompt_and_no_output_are_refused():
    with pytest.raises(RequestError, match="request a: the prompt is empty"):
        Request("a", TokenPrompt([]), 1)
    with pytest.raises(RequestError, match="request a: max_new_tokens: got 0, expected >= 1"):
        Request("a", TokenPrompt([1]), 0)


# --- how requests end ---


def test_finish_reasons(new_world):
    """By its stop token, by its own limit, by the model's length, by a stop token at the limit."""
    world = new_world(max_model_len=8)
    world.add("stop", 2, [5, -1, 6])
    world.add("limit", 2, [5, 6])
    world.add("model", 6, [5, 6, 7])
    world.add("both", 2, [5, -1])
    world.run()
    reasons = {o.request_id: o.finish_reason for o in world.outputs if o.finished}
    assert reasons == {"stop": "stop", "limit": "length", "model": "length", "both": "stop"}
    lengths = {name: len(world.tokens(name)) for name in reasons}
    assert lengths == {"stop": 2, "limit": 2, "model": 2, "both": 2}


def test_only_the_last_token_says_finished(new_world):
    world = new_world()
    world.add("a", 2, 3)
    world.run()
    assert [(o.finished, o.finish_reason) for o in world.outputs] == [
        (False, None),
        (False, None),
        (True, "length"),
    ]


def test_sequence_tells_its_end(new_world):
    world = new_world()
    seq, gone = world.add("a", 2, 1), world.add("b", 2, 1)
    world.cancel("b")
    world.run()
    assert (seq.status, seq.finish_reason) == (Status.FINISHED, "length")
    assert (gone.status, gone.finish_reason) == (Status.FINISHED, "cancelled")


def test_work_ends_with_the_last_request(new_world):
    world = new_world()
    assert not world.engine.has_work
    world.add("a", 2, 1)
    assert world.engine.has_work
    world.run()
    assert not world.engine.has_work


def test_step_without_work_yields_nothing():
    assert echo_engine().step() == []


# --- cancelling ---


def test_cancel_of_a_waiting_request(new_world):
    world = new_world(max_num_seqs=1)
    world.add("a", 2, 2)
    world.add("b", 2, 2)
    world.step()
    assert world.cancel("b")
    assert world.run() == ["a 2+1"]


def test_cancel_of_a_running_request_returns_its_blocks_at_once(new_world):
    world = new_world()
    world.add("a", 5, 9)
    world.add("b", 2, 2)
    world.step()
    assert world.num_free_blocks == 12
    assert world.cancel("a")
    assert world.num_free_blocks == 15
    assert world.run() == ["b 2+1"]
    assert world.num_free_blocks == 16


def test_cancel_of_a_preempted_request(new_world):
    world = new_world(num_blocks=3)
    world.add("a", 3, 2)
    world.add("b", 2, 2)
    assert [world.step(), world.step()] == ["a 0+3, b 0+2", "a 3+1 | preempted b"]
    assert world.cancel("b")
    assert (world.step(), world.num_free_blocks) == ("", 3)


def test_cancel_between_schedule_and_commit(new_world):
    """The step's token for a is dropped, b gets its own, every block comes back."""
    world = new_world()
    world.add("a", 5, 9)
    world.add("b", 2, 2)
    step = world.schedule()
    tokens = world.runner.run(step)
    assert world.cancel("a")
    assert [output.request_id for output in world.commit(step, tokens)] == ["b"]
    world.run()
    assert world.tokens("a") == []
    assert world.num_free_blocks == 16


def test_id_reused_in_flight_does_not_get_the_cancelled_requests_token(new_world):
    world = new_world()
    world.add("a", 2, [5])
    step = world.schedule()
    tokens = world.runner.run(step)
    world.cancel("a")
    world.add("a", 3, [6])
    assert world.commit(step, tokens) == []
    assert world.run() == ["a 0+3"]
    assert world.tokens("a") == [6]


def test_cancel_of_a_sharer_leaves_the_others_blocks(new_world):
    world = new_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3, 4, 5], 3)
    world.add("b", [1, 2, 3, 4, 6], 3)
    world.step()
    world.cancel("a")
    assert world.usage() == {"live": 5, "tail": 1, "free": 26}
    assert world.run() == ["b 5+1", "b 6+1"]


def test_cancel_of_an_unknown_or_ended_request_says_so(new_world):
    world = new_world()
    world.add("a", 2, 1)
    world.run()
    assert not world.cancel("a")
    assert not world.cancel("b")


# --- streams ---


def test_streaming_one_advances_the_others_and_loses_nothing():
    """a's 5 tokens come first; meanwhile b has ended, and its stream still gives all 3."""
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2, 3, 4]), 9))
    engine.add_request(Request("b", TokenPrompt([7, 8]), 9))
    one, other = engine.stream("a"), engine.stream("b")
    assert [output.token_id for output in one] == [1, 2, 3, 4, EOS]
    assert not engine.has_work
    assert [output.token_id for output in other] == [7, 8, EOS]


def test_streams_can_be_read_in_turns():
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2, 3]), 9))
    engine.add_request(Request("b", TokenPrompt([7, 8, 9]), 9))
    streams = [engine.stream("a"), engine.stream("b")]
    tokens = [next(streams[i]).token_id for i in (0, 1, 1, 0, 1, 0, 0, 1)]
    assert tokens == [1, 7, 8, 2, 9, 3, EOS, EOS]


def test_stream_begins_with_the_next_token():
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2, 3]), 9))
    engine.step()
    assert drain(engine, "a") == [2, 3, EOS]


def test_cancelled_stream_ends_after_what_has_come():
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2, 3]), 9))
    stream = engine.stream("a")
    engine.step()
    engine.step()
    engine.cancel("a")
    assert [output.token_id for output in stream] == [1, 2]


def test_closed_stream_lets_the_request_go_on():
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2, 3]), 9))
    stream = engine.stream("a")
    next(stream)
    stream.close()
    assert drain(engine, "a") == [2, 3, EOS]


def test_stream_of_nobody_is_an_error():
    engine = echo_engine()
    with pytest.raises(RequestError, match="request a: no unfinished request"):
        engine.stream("a")


def test_two_streams_of_a_request_both_yield_all_of_it():
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2]), 9))
    first, second = engine.stream("a"), engine.stream("a")
    assert list(first) == list(second)


def test_a_step_that_was_never_committed_stops_the_engine():
    """As when the runner fails: the cache holds blocks that were never computed."""
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2]), 9))
    engine.schedule()
    with pytest.raises(RuntimeError, match="step 0 has not been committed"):
        engine.step()


def test_step_of_a_static_batch_does_not_wait_for_company():
    """Who steps by hand waits for nobody else; otherwise a stream would never end."""
    engine = echo_engine(batching="static", batch_size=8)
    engine.add_request(Request("a", TokenPrompt([1, 2]), 9))
    assert [output.token_id for output in engine.step()] == [1]
    assert drain(engine, "a") == [2, EOS]


def test_stream_outlives_the_reuse_of_its_id():
    """a ends while b is streamed, and its id is used again: the old stream is the old request's."""
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2]), 9))
    engine.add_request(Request("b", TokenPrompt([7, 8, 9]), 9))
    old = engine.stream("a")
    assert drain(engine, "b") == [7, 8, 9, EOS]
    engine.add_request(Request("a", TokenPrompt([5]), 9))
    assert drain(engine, "a") == [5, EOS]
    assert [output.token_id for output in old] == [1, 2, EOS]


# --- text ---


def test_generate_gives_texts_in_the_order_of_the_prompts():
    """Printable, EOS left out, whichever ends first, more prompts than places."""
    engine = echo_engine(max_num_seqs=2)
    assert engine.generate(["long one", "b\n", "é", "x"]) == ["long one", "b\\n", "é", "x"]


def test_generate_stops_at_max_new_tokens():
    """Two tokens of "aé" are the a and half of the é, whose broken byte is shown."""
    assert echo_engine().generate(["abc", "aé"], 2) == ["ab", "a\\xc3"]


def test_generate_leaves_nothing_behind():
    engine = echo_engine(enable_prefix_caching=True)
    engine.generate(["abc", "abd"])
    assert not engine.has_work
    engine.check()
    assert engine.kv.num_free_blocks == 16


@pytest.mark.parametrize("misfit", ["", "x" * 40, "\ud800"])
def test_generate_takes_all_prompts_or_none(misfit):
    """An empty one, one too long, and one that is no text."""
    engine = echo_engine()
    with pytest.raises(ValueError, match=r"empty|max_model_len|surrogates"):
        engine.generate(["abc", misfit])
    assert not engine.has_work
    assert engine.generate(["abc"]) == ["abc"]


def test_generate_beside_other_requests():
    """Requests that were there before advance too, and keep their tokens for their stream."""
    engine = echo_engine()
    engine.add_request(Request("a", TokenPrompt([1, 2]), 9))
    stream = engine.stream("a")
    assert engine.generate(["xyz"]) == ["xyz"]
    assert [output.token_id for output in stream] == [1, 2, EOS]


def test_outputs_carry_printable_text():
    engine = echo_engine()
    engine.add_request(Request(1, TokenPrompt(list("hé\x1b".encode())), 9))
    outputs = list(engine.stream(1))
    assert [output.text for output in outputs] == ["h", "", "é", "\\x1b", ""]


# --- what must never pass ---


def test_runner_with_too_few_tokens_is_an_error(new_world):
    world = new_world()
    world.add("a", 2, 2)
    step = world.schedule()
    with pytest.raises(ValueError, match="zip"):
        world.engine.commit(step, [])


def test_check_finds_a_lost_sequence(new_world):
    world = new_world()
    world.add("a", 2, 2)
    world.engine.scheduler.waiting.pop()
    with pytest.raises(AssertionError):
        world.engine.check()


def test_check_finds_a_lost_block(new_world):
    world = new_world()
    seq = world.add("a", 2, 2)
    world.step()
    seq.block_table.block_ids.pop()
    with pytest.raises(AssertionError):
        world.engine.check()
