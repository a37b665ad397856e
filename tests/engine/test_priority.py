"""The priority policy, step by step, against logs worked out by hand.

A lower number goes first, of equals the earlier arrival; the worst of the running is preempted.
Blocks hold 2 tokens and the pool has 16 of them unless a test says otherwise.
"""

import random
from collections import Counter

import pytest

from engine import (
    Chunk,
    ConfigError,
    Engine,
    EngineConfig,
    Request,
    SamplingParams,
    Sequence,
    Step,
    TokenPrompt,
    ToyLMRunner,
    Transformer,
    TransformerConfig,
)


@pytest.fixture
def priority_world(new_world):
    return lambda **settings: new_world(policy="priority", **settings)


# --- admission ---


def test_admission_goes_by_priority_then_by_arrival(priority_world):
    """One runs at a time: d with -1, b and c with 0 in order of arrival, then a and e with 1."""
    world = priority_world(max_num_seqs=1)
    for name, priority in zip("abcde", (1, 0, 0, -1, 1), strict=True):
        world.add(name, 1, 1, priority=priority)
    assert world.run() == ["d 0+1", "b 0+1", "c 0+1", "a 0+1", "e 0+1"]


def test_equal_priorities_are_first_come_first_served(priority_world, new_world):
    logs = []
    for make in (priority_world, new_world):
        world = make(num_blocks=5, max_num_seqs=3)
        for name in "abcdef":
            world.add(name, 3, 4)
        logs.append(world.run())
    assert logs[0] == logs[1]
    assert any("preempted" in line for line in logs[0])


def test_later_arrival_overtakes_those_that_wait_but_not_those_that_run(priority_world):
    """a runs to its end although c, which came last, is better than a and b."""
    world = priority_world(max_num_seqs=1)
    world.add("a", 2, 3, priority=2)
    world.add("b", 2, 1, priority=1)
    log = [world.step()]
    world.add("c", 2, 1, priority=0)
    assert log + world.run() == ["b 0+2", "c 0+2", "a 0+2", "a 2+1", "a 3+1"]


def test_waiting_never_preempts_and_the_best_that_does_not_fit_stops_admission(priority_world):
    """Pool of 4 blocks, a holds 2: b, with 5 tokens, needs 3. c would fit but is not as good."""
    world = priority_world(num_blocks=4)
    world.add("a", 3, 2, priority=9)
    log = [world.step()]
    world.add("c", 1, 1, priority=5)
    world.add("b", 5, 1, priority=1)
    assert log + world.run() == ["a 0+3", "a 3+1", "b 0+5, c 0+1"]


def test_budget_goes_to_running_in_the_order_of_their_admission(priority_world):
    """Budget 3: b is better than a, but a was there first and is served first."""
    world = priority_world(max_num_batched_tokens=3)
    world.add("a", 1, 3, priority=9)
    log = [world.step()]
    world.add("b", 5, 1, priority=0)
    assert log + world.run() == ["a 0+1", "a 1+1, b 0+2", "a 2+1, b 2+2", "b 4+1"]


# --- preemption ---


def test_worst_of_the_running_is_preempted_not_the_last(priority_world):
    """Pool of 4 blocks. In the third step c's fifth token needs a block: b, before it, gives its 2.

    b had its place in that step already; its chunk is taken out again. It keeps its 2 tokens.
    """
    world = priority_world(num_blocks=4)
    seq = world.add("b", 2, 6, priority=9)
    log = [world.step()]
    world.add("c", 4, 3, priority=1)
    log += [world.step(), world.step()]
    assert log == ["b 0+2", "b 2+1, c 0+4", "c 4+1 | preempted b"]
    assert (seq.output_token_ids, seq.num_computed_tokens) == ([500, 501], 0)
    assert world.run() == ["c 5+1", "b 0+4", "b 4+1", "b 5+1", "b 6+1"]
    assert world.tokens("b") == [500, 501, 502, 503, 504, 505]


def test_victim_gives_its_budget_back(priority_world):
    """Budget 4, pool of 4 blocks, in the third step b 1, c 1 and 2 left for d's prompt.

    c's third token takes the blocks of b, and d gets b's share as well: 3.
    """
    world = priority_world(num_blocks=4, max_num_batched_tokens=4, reserve_full_isl=False)
    world.add("b", 2, 4, priority=9)
    log = [world.step()]
    world.add("c", 2, 2, priority=1)
    world.add("d", 7, 1, priority=1)
    assert log + world.run() == [
        "b 0+2",
        "b 2+1, c 0+2, d 0+1",
        "c 2+1, d 1+3 | preempted b",
        "d 4+3",
        "b 0+4",
        "b 4+1",
    ]


def test_of_equals_the_later_arrival_is_the_victim(priority_world):
    """Pool of 6 blocks: a and b are admitted after c, which is better; then c grows. b goes."""
    world = priority_world(num_blocks=6)
    world.add("a", 3, 2, priority=5)
    world.add("b", 3, 2, priority=5)
    world.add("c", 4, 2, priority=0)
    assert world.run() == ["c 0+4, a 0+3, b 0+3", "c 4+1, a 3+1 | preempted b", "b 0+4"]


def test_worst_preempts_itself_and_those_behind_it_wait_a_step(priority_world):
    """Pool of 4 blocks: b, first in order but worst, needs a third. c could run: one step later.

    Nothing at all runs in the step of the preemption, as in vLLM.
    """
    world = priority_world(num_blocks=4)
    world.add("b", 2, 5, priority=9)
    log = [world.step()]
    world.add("c", 3, 4, priority=1)
    assert log + world.run() == [
        "b 0+2",
        "b 2+1, c 0+3",
        "b 3+1, c 3+1",
        " | preempted b",
        "c 4+1",
        "c 5+1",
        "b 0+5",
        "b 5+1",
    ]


def test_preemption_goes_on_from_the_worst_until_the_growth_fits(priority_world):
    """Blocks of 1 token, pool of 8: a's second chunk needs 3, one is free. d gives 1, then b 2.

    c, better than both though the second in order, stays and finds the block that is left.
    """
    world = priority_world(block_size=1, num_blocks=8, long_prefill_token_threshold=3)
    world.add("a", 6, 1, priority=0)
    world.add("b", 2, 2, priority=7)
    world.add("c", 1, 3, priority=2)
    world.add("d", 1, 2, priority=9)
    assert world.run() == [
        "a 0+3, c 0+1, b 0+2, d 0+1",
        "a 3+3, c 1+1 | preempted d, b",
        "c 2+1, b 0+3, d 0+2",
    ]


def test_preempted_sequence_goes_back_to_its_rank(priority_world):
    """One place frees at a time; b is preempted among x (better) and y (worse, came earlier)."""
    world = priority_world(num_blocks=5, max_num_seqs=2)
    world.add("y", 1, 1, priority=8)
    world.add("a", 4, 3, priority=0)
    world.add("b", 3, 3, priority=5)
    log = [world.step(), world.step()]
    world.add("x", 1, 2, priority=3)
    assert log == ["a 0+4, b 0+3", "a 4+1, b 3+1"]
    assert world.step() == "a 5+1 | preempted b"
    waiting = [seq.request.request_id for seq in world.engine.scheduler.waiting]
    assert waiting == ["x", "b", "y"]


# --- with prefix caching: nothing that was not computed is shared ---


def test_blocks_that_the_victim_was_about_to_fill_are_not_shared(priority_world):
    """Pool of 7 blocks. The third step's chunk of v, positions 8 to 10, fills its fifth block.

    c's third token takes v's chunk and blocks away; c itself uses the tail. v resumes with the 8
    tokens that were computed; its fifth block was never full.
    """
    world = world_of_a_victim(priority_world)
    assert world.run() == ["v 8+4"]


def test_later_request_does_not_hit_what_the_victim_was_about_to_fill(priority_world):
    """w, of the same prompt but better than v, hits the 8 tokens that were computed, too.

    v then hits what w computes in the same step: 3 more tokens, 11, are 5 full blocks.
    """
    world = world_of_a_victim(priority_world)
    seq = world.add("w", VICTIMS_PROMPT, 1, priority=0)
    assert world.run() == ["w 8+3, v 10+2", "w 11+1"]
    assert seq.num_cached_tokens == 8


VICTIMS_PROMPT = list(range(1, 13))


def world_of_a_victim(priority_world):
    """After the third step, in which v lost its chunk; c has ended."""
    world = priority_world(
        num_blocks=7,
        enable_prefix_caching=True,
        max_num_batched_tokens=5,
        long_prefill_token_threshold=3,
        reserve_full_isl=False,
    )
    world.add("v", VICTIMS_PROMPT, 1, priority=9)
    log = [world.step()]
    world.add("c", 2, 2, priority=1)
    log += [world.step(), world.step()]
    assert log == ["v 0+5", "v 5+3, c 0+2", "c 2+1 | preempted v"]
    assert world.finished == ["c"]
    return world


def test_who_is_admitted_shares_what_the_running_fill_in_the_same_step(priority_world):
    """Nobody is preempted: v's second chunk, positions 3 to 5, fills its second and third block.

    x, admitted in that step, hits the first two.
    """
    world = priority_world(
        enable_prefix_caching=True, max_num_batched_tokens=8, long_prefill_token_threshold=3
    )
    world.add("v", [1, 2, 3, 4, 5, 6, 7], 1)
    world.add("c", 3, 2)
    log = [world.step()]
    world.add("x", [1, 2, 3, 4, 9], 1)
    assert log + world.run() == ["v 0+3, c 0+3", "v 3+3, c 3+1, x 4+1", "v 6+1"]


def test_step_without_its_victim_has_the_shape_of_the_rest(priority_world):
    """Pool of 5 blocks: d's chunk takes those of b, whose decode is taken out of the step again.

    c decodes with a context of 3, d prefills 3 tokens after 2.
    """
    world = priority_world(num_blocks=5, max_num_batched_tokens=5, reserve_full_isl=False)
    world.add("b", 2, 6, priority=9)
    world.step()
    world.add("c", 2, 3, priority=1)
    world.add("d", 8, 1, priority=1)
    assert world.step() == "b 2+1, c 0+2, d 0+2"
    step = world.schedule()
    assert [seq.request.request_id for seq in step.preempted] == ["b"]
    assert [chunk.seq.request.request_id for chunk in step.chunks] == ["c", "d"]
    assert (step.num_tokens, step.num_decodes, step.decode_context_tokens) == (4, 1, 3)
    assert step.prefills == [(3, 2)]


def test_chunk_that_is_taken_out_leaves_the_others_in_their_order():
    """A prefill from between two others, then a decode; at last nothing is left of the step."""
    seqs = [
        Sequence(Request(i, TokenPrompt(list(range(size))), 9), 2, 32)
        for i, size in enumerate((3, 5, 4, 1))
    ]
    seqs[3].num_output_tokens = 1
    step = Step(0)
    samples = [
        step.add(seq, start, n)
        for seq, start, n in zip(seqs, (0, 2, 1, 1), (3, 2, 3, 1), strict=True)
    ]
    assert samples == [True, False, True, True]
    shapes = []
    for seq in (seqs[1], seqs[3], seqs[3], seqs[0], seqs[2]):
        chunk = step.remove(seq)
        assert chunk is None or chunk.seq is seq
        shapes.append(
            (step.num_tokens, step.num_decodes, step.decode_context_tokens, step.prefills[:])
        )
    assert shapes == [
        (7, 1, 2, [(3, 0), (3, 1)]),
        (6, 0, 0, [(3, 0), (3, 1)]),
        (6, 0, 0, [(3, 0), (3, 1)]),
        (3, 0, 0, [(3, 1)]),
        (0, 0, 0, []),
    ]
    assert step.chunks == []


# --- with asynchronous scheduling ---


def test_of_a_victim_in_this_step_only_the_step_in_flight_brings_a_token(priority_world):
    """Turn 2 takes b's chunk out of step 2 again; its token of step 1 comes all the same."""
    world = priority_world(num_blocks=4, async_scheduling=True)
    seq = world.add("b", 2, 6, priority=9)
    log = [world.advance()]
    world.add("c", 4, 3, priority=1)
    log += [world.advance(), world.advance()]
    assert log == ["b 0+2", "b 2+1, c 0+4 => b", "c 4+1 | preempted b => b, c"]
    assert (seq.num_stale, seq.num_placeholders, seq.output_token_ids) == (0, 0, [500, 501])
    assert world.run_async() == [
        "c 5+1 => c",
        " => c!",
        "b 0+4",
        "b 4+1 => b",
        "b 5+1 => b",
        "b 6+1 => b",
        " => b!",
    ]
    assert world.tokens("b") == [500, 501, 502, 503, 504, 505]


def test_policy_is_one_of_two():
    with pytest.raises(ConfigError, match="policy: got 'best', expected fcfs or priority"):
        EngineConfig(policy="best")


# --- the tokens do not depend on it ---

MODEL = Transformer(TransformerConfig())
SAMPLED = SamplingParams(temperature=0.8, top_k=30, seed=2, ignore_eos=True)


class Served:
    """Twelve requests of three conversations come over time; what each said, and what happened."""

    def __init__(self, seed: int, **settings: object) -> None:
        rng = random.Random(seed)
        small: dict[str, object] = {"block_size": 4, "num_blocks": 400, "max_model_len": 96}
        config = EngineConfig(enable_prefix_caching=True, **(small | settings))
        engine = Engine(config, ToyLMRunner(MODEL, config))
        self.counts: Counter[str] = Counter()
        heads = [rng.choices(range(256), k=size) for size in (9, 17, 30)]
        waiting = [
            Request(
                i,
                TokenPrompt(heads[i % 3] + rng.choices(range(256), k=3 + 2 * i)),
                6 + 2 * i,
                SAMPLED,
                priority=rng.randint(0, 3),
            )
            for i in range(12)
        ]
        seqs = [engine.add_request(waiting.pop(0)) for _ in range(3)]
        while engine.has_work or waiting:
            if waiting and rng.random() < 0.3:
                seqs.append(engine.add_request(waiting.pop(0)))
            engine.step()
            engine.check()
        assert engine.kv.num_free_blocks == config.num_blocks
        self.tokens = [seq.output_token_ids for seq in seqs]
        self.counts["preempted"] = sum(seq.num_preemptions for seq in seqs)
        self.counts["hits"] = sum(seq.num_cached_tokens > 0 for seq in seqs)


@pytest.fixture
def lost_chunks(monkeypatch) -> list[Chunk]:
    """Chunks that were taken out of their step and would have completed a block."""
    lost: list[Chunk] = []
    remove = Step.remove

    def watched(step: Step, seq: Sequence) -> Chunk | None:
        chunk = remove(step, seq)
        if chunk:
            num_known = min(chunk.start + chunk.num_tokens, seq.num_tokens)
            block_size = seq.block_table.block_size
            if num_known // block_size > chunk.start // block_size:
                lost.append(chunk)
        return chunk

    monkeypatch.setattr(Step, "remove", watched)
    return lost


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_tokens_depend_neither_on_the_policy_nor_on_the_pool(async_scheduling, lost_chunks):
    """A model that computes shows any block that was shared without ever being filled."""
    counts: Counter[str] = Counter()
    for seed in range(8):
        roomy = Served(seed)
        tight = Served(
            seed,
            policy="priority",
            num_blocks=21,
            max_num_batched_tokens=24,
            long_prefill_token_threshold=5,
            reserve_full_isl=False,
            async_scheduling=async_scheduling,
        )
        assert tight.tokens == roomy.tokens
        counts += tight.counts
    assert counts["preempted"] > 20
    assert counts["hits"] > 20
    assert len(lost_chunks) > 0
