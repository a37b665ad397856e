"""Asynchronous scheduling: two steps in flight, against logs worked out by hand.

Blocks hold 2 tokens and the pool has 16 of them unless a test says otherwise. A line of the log is
a step as it is scheduled, and after "=>" whose tokens were then taken, from the step before it;
"!" marks a last token. Line k schedules step k and takes the results of step k - 1.
"""

import pytest

from engine import (
    ConfigError,
    Engine,
    EngineConfig,
    Request,
    SamplingParams,
    TokenOutput,
    TokenPrompt,
    ToyLMRunner,
    Transformer,
    TransformerConfig,
)

STOP = -1  # ends a scripted output


@pytest.fixture
def async_world(new_world):
    return lambda **settings: new_world(async_scheduling=True, **settings)


# --- when things happen ---


def test_first_token_comes_at_the_end_of_the_second_step_after_the_arrival(async_world, new_world):
    """b comes while step 1 is in flight, joins step 2 and has its token when that is taken."""
    world = async_world()
    world.add("a", 3, 4)
    log = [world.advance(), world.advance()]
    world.add("b", 2, 1)
    log += world.run_async()
    assert log == ["a 0+3", "a 3+1 => a", "a 4+1, b 0+2 => a", "a 5+1 => a, b!", " => a!"]

    world = new_world()
    world.add("a", 3, 4)
    assert [world.step(), world.step()] == ["a 0+3", "a 3+1"]
    world.add("b", 2, 1)
    assert world.step() == "a 4+1, b 0+2"
    assert world.finished == ["b"]


def test_one_alone_takes_as_many_steps_as_without_and_one_turn_more(async_world, new_world):
    """The first turn has nothing to take; after that each brings a token."""
    world = async_world()
    world.add("a", 3, 3)
    assert world.run_async() == ["a 0+3", "a 3+1 => a", "a 4+1 => a", " => a!"]
    world = new_world()
    world.add("a", 3, 3)
    assert world.run() == ["a 0+3", "a 3+1", "a 4+1"]


def test_blocks_of_a_finished_request_come_back_one_step_later(async_world, new_world):
    """Pool of 2 blocks: b must wait for a's. Step 2, the one after a's last, cannot have it yet."""
    world = async_world(num_blocks=2)
    world.add("a", 3, 2)
    world.add("b", 3, 1)
    assert world.run_async() == ["a 0+3", "a 3+1 => a", " => a!", "b 0+3", " => b!"]

    world = new_world(num_blocks=2)
    world.add("a", 3, 2)
    world.add("b", 3, 1)
    assert world.run() == ["a 0+3", "a 3+1", "b 0+3"]


def test_chunks_that_do_not_sample_bring_nothing(async_world):
    """Budget 4: two chunks of the prompt, then one that ends it; its token is taken in turn 3."""
    world = async_world(max_num_batched_tokens=4)
    world.add("a", 10, 2)
    assert world.run_async() == ["a 0+4", "a 4+4 => -", "a 8+2 => -", "a 10+1 => a", " => a!"]


def test_end_that_only_a_token_reveals_comes_after_one_step_too_many(async_world):
    """The second token ends a while step 2 computes its third: nothing comes of that one.

    Step 2 took a third block for it; all are back when step 1 has been taken.
    """
    world = async_world()
    seq = world.add("a", 3, [500, STOP, 0, 0])
    free = []
    log = []
    for _ in range(4):
        log.append(world.advance())
        free.append(world.num_free_blocks)
    assert log == ["a 0+3", "a 3+1 => a", "a 4+1 => a!", " => -"]
    assert free == [14, 14, 16, 16]
    assert (world.tokens("a"), seq.finish_reason) == ([500, STOP], "stop")


def test_runner_does_not_see_who_has_ended_meanwhile(async_world):
    """b's first token is its last: of step 1 only a is left to compute, yet its shape stays."""
    world = async_world()
    world.add("a", 3, 3)
    world.add("b", 2, [STOP, 0, 0])
    assert [world.advance(), world.advance()] == ["a 0+3, b 0+2", "a 3+1, b 2+1 => a, b!"]
    (step,) = world.in_flight
    assert (step.num_tokens, step.num_decodes) == (2, 2)
    assert world.engine.run(step) == [501]
    assert [chunk.seq.request.request_id for chunk in step.chunks] == ["a"]
    assert (step.num_tokens, step.num_decodes) == (2, 2)


# --- who is passed over ---


def test_sequence_whose_placeholders_reach_its_limit_is_passed_over(async_world):
    """In step 2 a's second and last token is still in flight: b computes without it."""
    world = async_world()
    world.add("a", 2, 2)
    world.add("b", 2, 4)
    assert world.run_async() == [
        "a 0+2, b 0+2",
        "a 2+1, b 2+1 => a, b",
        "b 3+1 => a!, b",
        "b 4+1 => b",
        " => b!",
    ]


def test_limit_of_the_model_is_a_limit_as_well(async_world):
    """max_model_len 5 leaves a prompt of 3 tokens two more, and both come."""
    world = async_world(max_model_len=5)
    seq = world.add("a", 3, 9)
    assert world.run_async() == ["a 0+3", "a 3+1 => a", " => a!"]
    assert seq.finish_reason == "length"


def test_one_that_is_passed_over_keeps_its_place_and_its_blocks(async_world):
    """a holds 2 of 3 blocks while its only token is in flight: b's second block is not there."""
    world = async_world(num_blocks=3, max_num_seqs=2)
    world.add("a", 4, 1)
    world.add("b", 3, 1)
    world.add("c", 1, 1)
    assert world.advance() == "a 0+4"
    assert world.advance() == " => a!"
    assert world.run_async() == ["b 0+3, c 0+1", " => b!, c!"]


# --- preempted with tokens in flight ---


def test_token_in_flight_is_delivered_to_a_preempted_sequence_while_it_waits(async_world):
    """Pool of 4 blocks: in step 2 a's fifth position takes b's blocks; b's token of step 1 comes.

    b resumes with it, 5 tokens in 3 blocks, when a has ended.
    """
    world = async_world(num_blocks=4)
    world.add("a", 3, 4)
    seq = world.add("b", 3, 4)
    log = [world.advance(), world.advance(), world.advance()]
    assert log == ["a 0+3, b 0+3", "a 3+1, b 3+1 => a, b", "a 4+1 | preempted b => a, b"]
    assert (seq.num_stale, seq.num_placeholders, seq.num_computed_tokens) == (0, 0, 0)
    assert seq.output_token_ids == [500, 501]
    assert world.run_async() == ["a 5+1 => a", " => a!", "b 0+5", "b 5+1 => b", " => b!"]
    assert world.tokens("b") == [500, 501, 502, 503]


@pytest.mark.parametrize(
    ("output", "reason"), [([500, STOP, 0], "stop"), ([500, 501], "length")], ids=["stop", "length"]
)
def test_token_in_flight_may_finish_a_preempted_sequence(async_world, output, reason):
    """As above, but the token that b is still owed is its last: it ends without resuming."""
    world = async_world(num_blocks=4)
    world.add("a", 3, 4)
    seq = world.add("b", 3, output)
    assert world.run_async() == [
        "a 0+3, b 0+3",
        "a 3+1, b 3+1 => a, b",
        "a 4+1 | preempted b => a, b!",
        "a 5+1 => a",
        " => a!",
    ]
    assert (seq.num_preemptions, seq.finish_reason) == (1, reason)
    assert world.num_free_blocks == 4


def test_token_in_flight_is_stale_until_it_is_taken(async_world):
    """Between scheduling step 2 and taking step 1 it counts as stale, not as a placeholder."""
    world = async_world(num_blocks=4)
    world.add("a", 3, 4)
    seq = world.add("b", 3, 4)
    world.advance()
    world.advance()
    assert (seq.num_stale, seq.num_placeholders) == (0, 1)
    world.schedule()
    assert (seq.num_stale, seq.num_placeholders) == (1, 0)


def stepped_over(world) -> list[str]:
    """p's only token is in flight and a, the last, finds no block: it preempts itself.

    Nothing was scheduled, so one step alone is in flight and the next may be scheduled at once. a
    still waits for the token of step 0.
    """
    world.add("p", 4, 1)
    world.add("a", 4, 3)
    steps = [world.schedule(), world.schedule()]
    assert [len(step.chunks) for step in steps] == [2, 0]
    assert [seq.request.request_id for seq in steps[1].preempted] == ["a"]
    world.add("c", 2, 2)
    world.add("d", 1, 1)
    steps.append(world.schedule())
    world.commit(steps[0], world.engine.run(steps[0]))
    world.in_flight.append(steps[2])
    return [f"{chunk.seq.request.request_id} {chunk.num_tokens}" for chunk in steps[2].chunks]


def test_one_that_waits_for_tokens_is_stepped_over_in_the_queue(async_world):
    """Pool of 4 blocks: c and d are admitted before a, into the blocks that it gave back."""
    world = async_world(num_blocks=4)
    assert stepped_over(world) == ["c 2", "d 1"]
    assert world.tokens("a") == [500]


def test_one_that_was_stepped_over_keeps_its_place_at_the_front(async_world):
    """c alone may run beside p: d, behind a, waits until a, 5 tokens in 3 blocks, has gone in."""
    world = async_world(num_blocks=4, max_num_seqs=2)
    assert stepped_over(world) == ["c 2"]
    assert [seq.request.request_id for seq in world.engine.scheduler.waiting] == ["a", "d"]
    assert world.run_async() == [
        "c 2+1 => c",
        " => c!",
        "a 0+5, d 0+1",
        "a 5+1 => a, d!",
        " => a!",
    ]


# --- what is shared, and when ---


@pytest.mark.parametrize(("arrive_step", "num_cached"), [(1, 2), (2, 4)])
def test_block_of_generated_tokens_is_published_when_they_are_known(
    async_world, arrive_step, num_cached
):
    """Step 1 fills a's second block with a token that is known only when step 0 has been taken."""
    world = async_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3], [4, 5, 6, 7])
    for _ in range(arrive_step):
        world.advance()
    seq = world.add("c", [1, 2, 3, 4, 9], 1)
    world.advance()
    assert seq.num_cached_tokens == num_cached


@pytest.mark.parametrize(("arrive_step", "num_cached"), [(2, 2), (3, 4)])
def test_block_that_the_last_step_filled_is_published_when_that_is_taken(
    async_world, arrive_step, num_cached
):
    """a is not scheduled any more after step 1, which filled its second block: c of step 2 misses
    it, but once the results of step 1 are in it is there."""
    world = async_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3], [4, 5])
    for _ in range(arrive_step):
        world.advance()
    seq = world.add("c", [1, 2, 3, 4, 9], 1)
    world.advance()
    assert seq.num_cached_tokens == num_cached


def test_block_that_a_dropped_chunk_would_have_filled_is_not_published(async_world):
    """a's first token ends it; step 1, scheduled before that was known, never computes it."""
    world = async_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3], [STOP, 0, 0])
    assert world.run_async() == ["a 0+3", "a 3+1 => a!", " => -"]
    seq = world.add("c", [1, 2, 3, STOP, 9], 1)
    world.run_async()
    assert seq.num_cached_tokens == 2


def test_prompt_is_shared_in_the_step_that_computes_it(async_world):
    world = async_world(enable_prefix_caching=True)
    world.add("a", [1, 2, 3, 4, 5], 2)
    world.add("b", [1, 2, 3, 4, 6], 2)
    assert world.run_async() == ["a 0+5, b 4+1", "a 5+1, b 5+1 => a, b", " => a!, b!"]


def test_ledger_counts_positions_of_tokens_in_flight_as_live(async_world):
    """3 prompt tokens and the first placeholder fill 2 blocks; when a ends, all is free."""
    world = async_world()
    world.add("a", 3, 2)
    ledgers = []
    for _ in range(3):
        world.advance()
        ledgers.append(world.usage())
    assert ledgers == [
        {"live": 3, "tail": 1, "free": 28},
        {"live": 4, "free": 28},
        {"free": 32},
    ]


# --- what is refused ---


def test_third_step_is_not_scheduled_while_two_are_in_flight(async_world):
    world = async_world()
    world.add("a", 3, 9)
    first = world.schedule()
    world.schedule()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="step 0 has not been committed"):
            world.engine.schedule()
    world.commit(first, world.engine.run(first))
    assert len(world.schedule().chunks) == 1


def test_second_step_is_not_scheduled_in_flight_without_asynchronous_scheduling(new_world):
    world = new_world()
    world.add("a", 3, 9)
    world.schedule()
    with pytest.raises(RuntimeError, match="step 0 has not been committed"):
        world.engine.schedule()


def test_steps_are_committed_in_their_order(async_world):
    """Step 1 before step 0 is refused and changes nothing; so is a step that has been taken."""
    world = async_world()
    world.add("a", 3, 4)
    first, second = world.schedule(), world.schedule()
    with pytest.raises(RuntimeError, match="step 1 is not the oldest in flight"):
        world.engine.commit(second, [501])
    assert world.tokens("a") == []
    world.commit(first, [500])
    with pytest.raises(RuntimeError, match="step 0 is not the oldest in flight"):
        world.engine.commit(first, [500])
    world.commit(second, [501])
    assert world.tokens("a") == [500, 501]


def test_step_without_chunks_is_not_in_flight(async_world):
    world = async_world()
    for _ in range(4):
        assert world.schedule().chunks == []
    world.add("a", 3, 1)
    step = world.schedule()
    world.commit(step, world.engine.run(step))
    assert world.tokens("a") == [500]


def test_static_batching_cannot_be_asynchronous():
    with pytest.raises(
        ConfigError, match="async_scheduling: got True, which needs batching continuous"
    ):
        EngineConfig(batching="static", async_scheduling=True)


# --- cancelling ---


def test_cancelled_with_tokens_in_flight_gets_no_more_of_them(async_world):
    """a is cancelled after the first turn; its id is free at once and no old token reaches it."""
    world = async_world()
    world.add("a", 3, [1, 2, 3])
    assert world.advance() == "a 0+3"
    assert world.cancel("a")
    assert world.num_free_blocks == 16
    world.add("a", 2, [7, 8])
    assert world.run_async() == ["a 0+2 => -", "a 2+1 => a", " => a!"]
    assert world.tokens("a") == [7, 8]


def test_cancelled_while_it_waits_for_a_token_gets_no_more(async_world):
    """b, preempted in step 2, is cancelled before its token of step 1 is taken."""
    world = async_world(num_blocks=4)
    world.add("a", 3, 4)
    world.add("b", 3, 4)
    steps = [world.schedule(), world.schedule()]
    world.commit(steps[0], world.engine.run(steps[0]))
    tokens = world.engine.run(steps[1])
    steps.append(world.schedule())
    assert len(steps[2].preempted) == 1
    assert world.cancel("b")
    outputs = world.commit(steps[1], tokens)
    assert [output.request_id for output in outputs] == ["a"]
    assert world.tokens("b") == [500]


# --- the live loop, which computes every token ---

MODEL = Transformer(TransformerConfig())
GREEDY = SamplingParams(ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.9, top_k=50, top_p=0.95, seed=3, ignore_eos=True)
ENDING = SamplingParams(temperature=3.0, seed=11)  # hot enough to draw EOS here and there
HEADS = ["", "once upon a time, ", "in the same way as all the others before it, "]
PROMPTS = [HEADS[i % 3] + "abcdefghijkl"[: 1 + i] for i in range(10)]


def toy_engine(**settings: object) -> Engine:
    small: dict[str, object] = {"block_size": 4, "num_blocks": 400, "max_model_len": 128}
    config = EngineConfig(**(small | settings))
    return Engine(config, ToyLMRunner(MODEL, config))


class Served:
    """What a live engine said, request by request, and how often it preempted and hit."""

    def __init__(self, sampling: SamplingParams, **settings: object) -> None:
        engine = toy_engine(**settings)
        seqs = [
            engine.add_request(Request(i, TokenPrompt(list(prompt.encode())), 8 + 3 * i, sampling))
            for i, prompt in enumerate(PROMPTS)
        ]
        outputs: dict[int, list[TokenOutput]] = {i: [] for i in range(len(PROMPTS))}
        while engine.has_work:
            for output in engine.step():
                outputs[output.request_id].append(output)
            engine.check()
        assert engine.kv.num_free_blocks == engine.config.num_blocks
        self.outputs = list(outputs.values())
        self.num_preemptions = sum(seq.num_preemptions for seq in seqs)
        self.num_cached_tokens = sum(seq.num_cached_tokens or 0 for seq in seqs)
        self.num_stopped = sum(seq.finish_reason == "stop" for seq in seqs)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED, ENDING], ids=["greedy", "sampled", "ending"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"enable_prefix_caching": True},
        {"num_blocks": 28},
        {"num_blocks": 28, "enable_prefix_caching": True, "max_num_batched_tokens": 16},
    ],
    ids=["roomy", "sharing", "tight", "tight, sharing, in chunks"],
)
def test_live_tokens_are_those_of_synchronous_running(sampling, settings):
    served = Served(sampling, async_scheduling=True, **settings)
    assert served.outputs == Served(sampling).outputs
    assert (served.num_preemptions > 0) == ("num_blocks" in settings)
    assert (served.num_cached_tokens > 0) == ("enable_prefix_caching" in settings)
    assert (served.num_stopped > 0) == (sampling is ENDING)


def test_live_step_returns_the_tokens_of_the_step_before():
    engine = toy_engine(async_scheduling=True)
    engine.add_request(Request("a", TokenPrompt([1, 2, 3]), 3, GREEDY))
    assert [len(engine.step()) for _ in range(6)] == [0, 1, 1, 1, 0, 0]


def test_live_engine_goes_on_after_an_idle_time():
    """What was in flight for a request that ended early is cleared away by the next one's steps."""
    expected = toy_engine().generate(["hello", "world"], 6, ENDING)
    engine = toy_engine(async_scheduling=True)
    for _ in range(2):
        assert [engine.generate([text], 6, ENDING)[0] for text in ("hello", "world")] == expected
    assert engine.kv.num_free_blocks == 400


def test_stream_and_generate_say_the_same_as_synchronous_running():
    expected = toy_engine().generate(PROMPTS, 12, SAMPLED)
    engine = toy_engine(async_scheduling=True, num_blocks=20, enable_prefix_caching=True)
    assert engine.generate(PROMPTS, 12, SAMPLED) == expected

    engine = toy_engine(async_scheduling=True)
    for i, prompt in enumerate(PROMPTS):
        engine.add_request(Request(i, TokenPrompt(list(prompt.encode())), 12, SAMPLED))
    streams = [engine.stream(i) for i in range(len(PROMPTS))]
    assert ["".join(output.text for output in stream) for stream in streams] == expected


def test_stream_ends_with_the_request_that_is_cancelled():
    engine = toy_engine(async_scheduling=True)
    engine.add_request(Request("a", TokenPrompt([1, 2, 3]), 9, GREEDY))
    stream = engine.stream("a")
    tokens = [next(stream).token_id, next(stream).token_id]
    assert engine.cancel("a")
    assert list(stream) == []
    assert len(tokens) == 2
    assert engine.step() == []
    engine.check()


class FailingRunner:
    """Fails in one call; computes nothing."""

    def __init__(self, failing_call: int) -> None:
        self.failing_call = failing_call
        self.num_calls = 0

    def run(self, step):
        self.num_calls += 1
        if self.num_calls == self.failing_call:
            raise OSError("the device is gone")
        return [7 for chunk in step.chunks if chunk.samples]


@pytest.mark.parametrize("failing_call", [1, 2, 3])
def test_engine_is_done_for_after_its_runner_has_failed(failing_call):
    """No step that follows one that was never computed may be run."""
    config = EngineConfig(block_size=2, num_blocks=16, max_model_len=32, async_scheduling=True)
    runner = FailingRunner(failing_call)
    engine = Engine(config, runner, with_text=False)
    engine.add_request(Request("a", TokenPrompt([1, 2, 3]), 9, stop_token_id=STOP))
    for _ in range(failing_call - 1):
        engine.step()
    with pytest.raises(OSError, match="the device is gone"):
        engine.step()
    for _ in range(3):
        with pytest.raises(RuntimeError):
            engine.step()
    assert runner.num_calls == failing_call
