"""Continuous batching, step by step, against logs worked out by hand.

Blocks hold 2 tokens and the pool has 16 of them unless a test says otherwise. In a log, "a 4+3" is
a chunk of 3 tokens of sequence a from position 4 on. A sequence's last token is never fed back.
"""

import pytest


def test_budget_goes_to_running_then_to_waiting_in_order(new_world):
    """Budget 8: b gets the 3 that a leaves; then both go first, and c what is left."""
    world = new_world(max_num_batched_tokens=8)
    world.add("a", 5, 2)
    world.add("b", 4, 2)
    world.add("c", 2, 2)
    assert world.run() == ["a 0+5, b 0+3", "a 5+1, b 3+1, c 0+2", "b 4+1, c 2+1"]


def test_running_sequences_can_use_up_the_budget(new_world):
    """Budget 2: c waits, though a place is free, until a decode less is running."""
    world = new_world(max_num_batched_tokens=2)
    world.add("a", 1, 2)
    world.add("b", 1, 3)
    world.add("c", 1, 1)
    assert world.run() == ["a 0+1, b 0+1", "a 1+1, b 1+1", "b 2+1, c 0+1"]


def test_prompt_takes_what_decodes_leave_of_the_budget(new_world):
    """Budget 3: b's prompt gets the rest, step after step, while a goes on without a pause."""
    world = new_world(max_num_batched_tokens=3)
    world.add("a", 2, 4)
    world.add("b", 4, 1)
    assert world.run() == ["a 0+2, b 0+1", "a 2+1, b 1+2", "a 3+1, b 3+1", "a 4+1"]


def test_long_prompt_is_computed_in_chunks(new_world):
    """Only the chunk that reaches the end of the prompt yields a token."""
    world = new_world(max_num_batched_tokens=4)
    world.add("a", 10, 2)
    tokens = []
    for line in ("a 0+4", "a 4+4", "a 8+2", "a 10+1"):
        assert world.step() == line
        tokens.append(len(world.tokens("a")))
    assert tokens == [0, 0, 1, 2]


def test_prompt_waits_for_a_step_with_room_without_chunked_prefill(new_world):
    """b does not fit the 3 tokens that a leaves; c would, but does not overtake b."""
    world = new_world(enable_chunked_prefill=False, max_num_batched_tokens=8, max_model_len=8)
    world.add("a", 5, 2)
    world.add("b", 4, 1)
    world.add("c", 2, 1)
    assert world.run() == ["a 0+5", "a 5+1, b 0+4, c 0+2"]


def test_max_num_seqs_run_and_one_that_has_ended_leaves_at_once(new_world):
    """c takes the place of b in the step after b's last, while a goes on."""
    world = new_world(max_num_seqs=2)
    world.add("a", 3, 4)
    world.add("b", 3, 2)
    world.add("c", 3, 2)
    assert world.run() == ["a 0+3, b 0+3", "a 3+1, b 3+1", "a 4+1, c 0+3", "a 5+1, c 3+1"]
    assert world.finished == ["b", "a", "c"]


def test_later_arrival_joins_the_running_batch(new_world):
    world = new_world()
    world.add("a", 3, 3)
    assert world.step() == "a 0+3"
    world.add("b", 2, 1)
    assert world.run() == ["a 3+1, b 0+2", "a 4+1"]


def test_last_of_the_running_is_preempted_and_resumes_at_the_front(new_world):
    """Pool of 4 blocks. In the third step a needs a third block: b loses its two, keeps its output.

    c, one block, may not pass b: neither in the step of the preemption, nor in the next, in which
    one block is free and b, with 5 known tokens, needs three.
    """
    world = new_world(num_blocks=4, max_num_seqs=2)
    world.add("a", 3, 4)
    world.add("b", 3, 4)
    world.add("c", 1, 2)
    assert world.run() == [
        "a 0+3, b 0+3",
        "a 3+1, b 3+1",
        "a 4+1 | preempted b",
        "a 5+1",
        "b 0+5, c 0+1",
        "b 5+1, c 1+1",
    ]
    assert world.tokens("b") == [500, 501, 502, 503]


def test_preemption_goes_on_until_the_growth_fits(new_world):
    """Blocks of 1 token: a's second chunk needs 3, one is free; c goes, then b, who comes first."""
    world = new_world(block_size=1, num_blocks=6, long_prefill_token_threshold=3)
    world.add("a", 6, 1)
    world.add("b", 1, 2)
    world.add("c", 1, 2)
    assert world.run() == ["a 0+3, b 0+1, c 0+1", "a 3+3 | preempted c, b", "b 0+2, c 0+2"]


def test_nobody_is_admitted_in_a_step_that_preempts(new_world):
    """Blocks of 1 token: b has freed 3, a took 1, and 2 of the budget are left. b still waits."""
    world = new_world(block_size=1, num_blocks=6, max_num_batched_tokens=3, reserve_full_isl=False)
    world.add("a", 2, 3)
    world.add("b", 3, 2)
    assert world.run() == [
        "a 0+2, b 0+1",
        "a 2+1, b 1+2",
        "a 3+1 | preempted b",
        "b 0+3",
        "b 3+1",
    ]


def test_preempted_sequence_holds_nothing_but_its_output(new_world):
    world = new_world(num_blocks=3)
    world.add("a", 3, 2)
    seq = world.add("b", 2, 2)
    assert [world.step(), world.step()] == ["a 0+3, b 0+2", "a 3+1 | preempted b"]
    assert (seq.num_computed_tokens, seq.block_table.block_ids) == (0, [])
    assert seq.output_token_ids == [500]


def test_sequence_that_is_the_last_preempts_itself(new_world):
    """Pool of 3 blocks: a holds two; b needs a second and nobody stands behind it."""
    world = new_world(num_blocks=3)
    world.add("a", 3, 2)
    world.add("b", 2, 2)
    assert world.run() == ["a 0+3, b 0+2", "a 3+1 | preempted b", "b 0+3"]
    assert world.tokens("b") == [500, 501]


def test_preempted_sequence_finds_its_own_blocks_in_the_cache(new_world):
    """As above with prefix caching: a takes b's second block, the first is still there to hit."""
    world = new_world(num_blocks=4, enable_prefix_caching=True)
    world.add("a", 3, 4)
    seq = world.add("b", 3, 4)
    assert world.run() == [
        "a 0+3, b 0+3",
        "a 3+1, b 3+1",
        "a 4+1 | preempted b",
        "a 5+1",
        "b 2+3",
        "b 5+1",
    ]
    assert (seq.num_preemptions, seq.num_cached_tokens) == (1, 0)


def test_watermark_keeps_blocks_free_while_others_run(new_world):
    """Watermark 0.3 of 9 blocks and one: 3. With 5 free, b's 3 blocks do not fit, only 2 would."""
    world = new_world(block_size=1, num_blocks=9, watermark=0.3)
    world.add("a", 4, 2)
    world.add("b", 3, 1)
    assert world.run() == ["a 0+4", "a 4+1", "b 0+3"]


def test_watermark_lets_in_what_leaves_it_untouched(new_world):
    world = new_world(block_size=1, num_blocks=9, watermark=0.3)
    world.add("a", 4, 2)
    world.add("b", 2, 1)
    assert world.run() == ["a 0+4, b 0+2", "a 4+1"]


def test_watermark_is_no_matter_when_nobody_runs(new_world):
    world = new_world(block_size=1, num_blocks=9, watermark=0.9)
    world.add("a", 9, 1)
    assert world.run() == ["a 0+9"]


def test_watermark_is_no_matter_to_growth(new_world):
    world = new_world(block_size=1, num_blocks=9, watermark=0.9)
    world.add("a", 2, 8)
    assert len(world.run()) == 8


def test_whole_prompt_must_fit_with_reserve_full_isl(new_world):
    """Pool of 4 blocks, budget 4: b's 6 tokens need 3 blocks, a leaves 2."""
    world = new_world(num_blocks=4, max_num_batched_tokens=4)
    world.add("a", 3, 1)
    world.add("b", 6, 2)
    assert world.run() == ["a 0+3", "b 0+4", "b 4+2", "b 6+1"]


def test_only_the_chunk_must_fit_without_reserve_full_isl(new_world):
    """The same load: the one token of b that the budget has room for needs one block."""
    world = new_world(num_blocks=4, max_num_batched_tokens=4, reserve_full_isl=False)
    world.add("a", 3, 1)
    world.add("b", 6, 2)
    assert world.run() == ["a 0+3, b 0+1", "b 1+4", "b 5+1", "b 6+1"]


def test_long_prefill_threshold_caps_chunks_while_another_is_there(new_world):
    """Threshold 3: a's chunks are capped as long as b is in the system, then the rest comes."""
    world = new_world(long_prefill_token_threshold=3)
    world.add("a", 10, 1)
    world.add("b", 2, 2)
    assert world.run() == ["a 0+3, b 0+2", "a 3+3, b 2+1", "a 6+4"]


def test_long_prefill_threshold_does_not_concern_one_alone(new_world):
    world = new_world(long_prefill_token_threshold=3)
    world.add("a", 10, 1)
    assert world.run() == ["a 0+10"]


def test_before_0_31_the_threshold_binds_one_alone_too(new_world):
    world = new_world(long_prefill_token_threshold=3, vllm_version="0.30.0")
    world.add("a", 10, 1)
    assert world.run() == ["a 0+3", "a 3+3", "a 6+3", "a 9+1"]


@pytest.mark.parametrize(("version", "first"), [("0.12.0", "a 0+5"), ("0.11.0", "a 0+5, c 0+2")])
def test_before_0_12_a_whole_prompt_that_does_not_fit_is_stepped_over(new_world, version, first):
    """8 tokens a step: b's 6 do not fit beside a's 5, c's 2 do."""
    world = new_world(
        enable_chunked_prefill=False,
        max_num_batched_tokens=8,
        max_model_len=8,
        vllm_version=version,
    )
    world.add("a", 5, 1)
    world.add("b", 6, 1)
    world.add("c", 2, 1)
    assert world.run()[0] == first


def test_block_filled_in_this_step_is_shared_in_this_step(new_world):
    """a and b have 4 tokens in common: b computes only its fifth, on a's two blocks."""
    world = new_world(enable_prefix_caching=True)
    one = world.add("a", [1, 2, 3, 4, 5], 2)
    other = world.add("b", [1, 2, 3, 4, 6], 2)
    assert world.step() == "a 0+5, b 4+1"
    assert (one.block_table.block_ids, other.block_table.block_ids) == ([0, 1, 2], [0, 1, 3])
    assert (one.num_cached_tokens, other.num_cached_tokens) == (0, 4)


def test_only_what_a_chunk_fills_is_shared(new_world):
    """Threshold 3: a's first chunk fills one block, so b starts at 2; b's chunk fills a second."""
    world = new_world(enable_prefix_caching=True, long_prefill_token_threshold=3)
    world.add("a", [1, 2, 3, 4, 5, 6, 7], 1)
    world.add("b", [1, 2, 3, 4, 5, 6, 8], 1)
    world.add("c", [1, 2, 3, 4, 5, 6, 9], 1)
    assert world.run() == ["a 0+3, b 2+3, c 4+3", "a 3+3, b 5+2", "a 6+1"]


def test_next_turn_of_a_conversation_hits_prompt_and_answer(new_world):
    """3 prompt tokens and 2 of the answer were computed: two full blocks, 4 tokens, are hit."""
    world = new_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3], [4, 5, 6])
    world.run()
    world.add("b", [1, 2, 3, 4, 5, 6, 7], 1)
    assert world.run() == ["b 4+3"]


def test_fully_cached_prompt_computes_its_last_block_again(new_world):
    world = new_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3, 4], 1)
    world.add("b", [1, 2, 3, 4], 1)
    assert world.run() == ["a 0+4, b 2+2"]


def test_step_tells_its_shape(new_world):
    """In the second step a decodes with a context of 6, b and c prefill: their shape is summed."""
    world = new_world(max_num_batched_tokens=8)
    world.add("a", 5, 3)
    world.add("b", 4, 2)
    world.add("c", 2, 2)
    world.step()
    step = world.schedule()
    assert (step.index, step.num_decodes, step.decode_context_tokens) == (1, 1, 6)
    assert step.prefills == [(1, 3), (2, 0)]
    assert step.num_tokens == 4


def test_resumption_is_a_prefill(new_world):
    """b resumes with 2 tokens, the second its own output, and recomputes both at once."""
    world = new_world(block_size=1, num_blocks=3)
    world.add("a", 2, 2)
    world.add("b", 1, 2)
    assert [world.step(), world.step()] == ["a 0+2, b 0+1", "a 2+1 | preempted b"]
    step = world.schedule()
    assert (step.num_decodes, step.prefills) == (0, [(2, 0)])


def test_every_block_is_back_when_all_have_ended(new_world):
    for caching in (False, True):
        world = new_world(num_blocks=5, enable_prefix_caching=caching)
        for name in "abcdef":
            world.add(name, 3, 4)
        world.run()
        assert len(world.finished) == 6
        assert world.num_free_blocks == 5


# --- prompts first, and alone ---

V0 = {
    "mixed_batches": False,
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 64,
    "max_model_len": 64,
}


def test_prompts_alone_go_before_decodes(new_world):
    """a waits for the prompt of b, which comes meanwhile, and decodes beside it afterwards."""
    world = new_world(**V0)
    world.add("a", 4, 3)
    log = [world.step()]
    world.add("b", 6, 2)
    assert log + world.run() == ["a 0+4", "b 0+6", "a 4+1, b 6+1", "a 5+1"]


def test_prompts_alone_that_find_no_blocks_wait_while_others_decode(new_world):
    """b needs 13 of 12 free blocks until a has ended."""
    world = new_world(**V0)
    world.add("a", 8, 2)
    world.add("b", 26, 1)
    assert world.run() == ["a 0+8", "a 8+1", "b 0+26"]


def test_a_preempted_sequence_is_computed_again_alone(new_world):
    """Both fill 8 of 9 blocks; when a needs one more, and then b, b gives its own back."""
    world = new_world(**V0, num_blocks=9)
    world.add("a", 8, 4)
    world.add("b", 8, 3)
    log = world.run()
    assert log[:2] == ["a 0+8, b 0+8", "a 8+1 | preempted b"]
    assert log[-2:] == ["b 0+9", "b 9+1"]
