"""Several outputs of one prompt: forked tables, copied tails, and the tokens of separate runs."""

import math
import random
from typing import Any

import numpy as np
import pytest

from engine import (
    Engine,
    EngineConfig,
    Request,
    RequestError,
    SamplingParams,
    TokenPrompt,
    ToyLMRunner,
    Transformer,
    TransformerConfig,
)
from engine.replay_engine import ReplayEngine
from engine.request import RequestId
from engine.runners import ReplayRunner
from engine.sequence import Sequence
from engine.step import Step
from engine.tokenizer import EOS, decode, printable
from workloads.content import AnswerTokens, SegmentPrompt

MODEL = Transformer(TransformerConfig())
SMALL: dict[str, Any] = {"block_size": 4, "num_blocks": 200, "max_model_len": 96}
PROMPTS = [[(7 * i + 3 * j) % 256 for j in range(5 + 6 * i)] for i in range(5)]


def sampling(n: int, seed: int = 11) -> SamplingParams:
    return SamplingParams(n=n, temperature=0.9, top_k=50, seed=seed)


def toy_outputs(
    requests: list[tuple[list[int], SamplingParams]], **settings: Any
) -> tuple[list[list[int]], int]:
    """Outputs of every request, one after the other, and how often anybody was preempted."""
    config = EngineConfig(**(SMALL | settings))
    engine = Engine(config, ToyLMRunner(MODEL, config))
    seqs = [
        engine.add_request(Request(i, TokenPrompt(prompt), 24, params))
        for i, (prompt, params) in enumerate(requests)
    ]
    while engine.has_work:
        engine.step()
        engine.check()
    outputs = [output for seq in seqs for output in seq.outputs]
    assert engine.kv.num_free_blocks == config.num_blocks
    return [seq.output_token_ids for seq in outputs], sum(seq.num_preemptions for seq in outputs)


WAYS: dict[str, dict[str, Any]] = {
    "continuous": {},
    "single slots": {"block_size": 1, "num_blocks": 800},
    "odd blocks": {"block_size": 3},
    "large blocks": {"block_size": 16},
    "chunks": {"max_num_batched_tokens": 7},
    "prefix caching": {"enable_prefix_caching": True},
    "async": {"async_scheduling": True},
    "async prefix caching": {"async_scheduling": True, "enable_prefix_caching": True},
    "prefill first": {
        "mixed_batches": False,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 200,
    },
    "contiguous": {"memory": "contiguous", "reservation": "limit", "num_blocks": 300},
    "tight": {"num_blocks": 26},
    "tight prefix caching": {"num_blocks": 26, "enable_prefix_caching": True},
    "tight async": {"num_blocks": 26, "async_scheduling": True},
    "tight swap": {"num_blocks": 26, "preemption": "swap"},
    "tight swap in chunks": {"num_blocks": 26, "preemption": "swap", "max_num_batched_tokens": 7},
    "tight swap with little room": {"num_blocks": 26, "preemption": "swap", "num_cpu_blocks": 9},
}


@pytest.mark.parametrize("way", WAYS)
def test_outputs_are_those_of_separate_runs(way):
    """Output i of a request is that of a request of its own whose seed is higher by i."""
    alone, _ = toy_outputs([(p, sampling(1, 11 + i)) for p in PROMPTS for i in range(3)])
    together, num_preemptions = toy_outputs([(p, sampling(3)) for p in PROMPTS], **WAYS[way])
    assert together == alone
    assert bool(num_preemptions) == way.startswith("tight")


def test_texts_of_several_outputs_stand_together():
    config = EngineConfig(**SMALL)
    texts = Engine(config, ToyLMRunner(MODEL, config)).generate(["ab", "xyz"], 8, sampling(2))
    alone = [
        Engine(config, ToyLMRunner(MODEL, config)).generate([prompt], 8, sampling(1, seed))
        for prompt in ("ab", "xyz")
        for seed in (11, 12)
    ]
    assert [[text] for text in texts] == alone


def beams(n: int) -> SamplingParams:
    return SamplingParams(n=n, beam_search=True, ignore_eos=True)


def dense_beams(prompt: list[int], width: int, num_tokens: int) -> list[list[int]]:
    """The oracle: whole forward passes, and every continuation of every beam weighed."""
    found: list[tuple[float, list[int]]] = [(0.0, [])]
    for _ in range(num_tokens):
        longer = []
        for score, written in found:
            logits = MODEL.dense_forward(prompt + written)[-1].astype(np.float64)
            logits[EOS] = -np.inf
            chances = np.exp(logits - logits.max())
            for token in np.argsort(-chances)[: width + 1].tolist():
                chance = float(chances[token] / chances.sum())
                longer.append((score + math.log(chance), [*written, token]))
        found = sorted(longer, key=lambda beam: -beam[0])[:width]
    return [written for _, written in found]


BEAM_WAYS = {
    way: settings | ({"num_blocks": 26} if way.startswith("tight") else {})
    for way, settings in WAYS.items()
    if not settings.get("async_scheduling")
}


@pytest.mark.parametrize("way", BEAM_WAYS)
def test_beams_are_those_of_a_dense_search(way):
    found, num_preemptions = toy_outputs([(p, beams(3)) for p in PROMPTS], **BEAM_WAYS[way])
    assert found == [beam for p in PROMPTS for beam in dense_beams(p, 3, 24)]
    assert bool(num_preemptions) == way.startswith("tight")


def test_beams_that_are_cancelled_while_a_step_runs_get_no_tokens():
    config = EngineConfig(**SMALL)
    engine = Engine(config, ToyLMRunner(MODEL, config))
    engine.add_request(Request("r", TokenPrompt(PROMPTS[0]), 6, beams(2)))
    engine.step()
    step = engine.schedule()
    token_ids = engine.run(step)
    assert engine.cancel("r")
    assert engine.commit(step, token_ids) == []
    engine.check()
    assert engine.kv.num_free_blocks == config.num_blocks


def test_text_of_beams_comes_at_their_end():
    config = EngineConfig(**SMALL)
    engine = Engine(config, ToyLMRunner(MODEL, config))
    seq = engine.add_request(Request("r", TokenPrompt(PROMPTS[0]), 6, beams(2)))
    outputs = list(engine.stream("r"))
    assert [output.text for output in outputs[:-2]] == [""] * 10
    expected = [printable(decode(output.output_token_ids)) for output in seq.outputs]
    assert [output.text for output in outputs[-2:]] == expected


def test_beams_go_on_from_their_parents():
    """Blocks of four, a prompt of six: beams 0 and 1 go on from beam 1, then all from beam 0.

    Beam 1 keeps its tail or copies it for whoever comes second; what beam 0 had is free again.
    """
    chosen = {1: [1, 1, 2], 2: [0, 0, 0]}
    config = EngineConfig(**SMALL)
    runner = ReplayRunner(
        {(0, index): AnswerTokens(900, 9) for index in range(3)}, lambda _, n, __: chosen[n]
    )
    engine = Engine(config, runner, with_text=False)
    seq = engine.add_request(Request(0, SegmentPrompt([(1, 6)], 900), 9, beams(3)))

    def step() -> Step:
        step = engine.schedule()
        engine.commit(step, engine.run(step))
        engine.check()
        return step

    step()
    assert tables(seq) == [[0, 1]] * 3
    assert step().moves.within == [
        (1, 2),
        (1, 3),
    ]  # the last has block 1 to itself; then beam 0 goes
    assert tables(seq) == [[0, 3], [0, 3], [0, 1]]
    assert (engine.usage().live, engine.usage().tail) == (4 + 2 * 3, 2)
    assert step().moves.within == [(3, 2)]
    assert tables(seq) == [[0, 2]] * 3
    assert (engine.usage().live, engine.usage().tail) == (8, 0)
    chosen[3] = [0, 1, 2]
    assert step().moves.within == []
    assert tables(seq) == [[0, 2, block] for block in (1, 3, 4)]


def test_contiguous_beams_take_runs_over_or_copy_them():
    """As above: one of two heirs takes the run, the other copies it, but not the shared block."""
    chosen = {1: [1, 1, 2]}
    config = EngineConfig(**SMALL | {"memory": "contiguous", "reservation": "limit"})
    runner = ReplayRunner(
        {(0, index): AnswerTokens(900, 9) for index in range(3)}, lambda _, n, __: chosen[n]
    )
    engine = Engine(config, runner, with_text=False)
    seq = engine.add_request(Request(0, SegmentPrompt([(1, 6)], 900), 9, beams(3)))
    for _ in range(2):
        step = engine.schedule()
        before = tables(seq)
        engine.commit(step, engine.run(step))
        engine.check()
    assert tables(seq) == [before[1], before[0], before[2]]
    assert engine.schedule().moves.within == [(before[1][1], before[0][1])]


def replaying(n: int, lengths: dict[int, int], **settings: Any) -> Engine:
    config = EngineConfig(**(SMALL | settings))
    outputs: dict[Any, AnswerTokens] = {}
    for number, length in lengths.items():
        for index in range(n):
            outputs[(number, index) if n > 1 else number] = AnswerTokens(900 + index, length)
    return Engine(config, ReplayRunner(outputs), with_text=False)


def tables(seq: Sequence) -> list[list[int]]:
    return [output.block_table.block_ids for output in seq.outputs]


def test_tail_is_shared_until_it_is_written():
    """Six tokens in blocks of four: block 0 stays shared, block 1 is copied twice of three times.

    Who writes it last has it to itself by then.
    """
    engine = replaying(3, {0: 9})
    seq = engine.add_request(
        Request(0, SegmentPrompt([(1, 6)], 900), 9, SamplingParams(n=3, ignore_eos=True))
    )
    step = engine.schedule()
    assert [chunk[1:] for chunk in step.chunks] == [(0, 6, True), (6, 0, True), (6, 0, True)]
    assert tables(seq) == [[0, 1]] * 3
    assert (engine.usage().live, engine.usage().tail) == (6, 2)
    assert len(engine.commit(step, engine.run(step))) == 3
    step = engine.schedule()
    assert tables(seq) == [[0, 2], [0, 3], [0, 1]]
    assert step.moves.within == [(1, 2), (1, 3)]
    assert (engine.usage().live, engine.usage().tail) == (4 + 3 * 3, 3)
    engine.check()


def test_full_blocks_need_no_copy():
    engine = replaying(2, {0: 9})
    seq = engine.add_request(
        Request(0, SegmentPrompt([(1, 8)], 900), 9, SamplingParams(n=2, ignore_eos=True))
    )
    for _ in range(2):
        step = engine.schedule()
        engine.commit(step, engine.run(step))
    assert step.moves.within == []
    assert tables(seq) == [[0, 1, 2], [0, 1, 3]]


def test_contiguous_runs_are_reserved_for_all_outputs_at_once():
    """3 x 4 blocks of the pool of 12; the second request waits, and the prompt is copied twice."""
    settings = {"memory": "contiguous", "reservation": "limit", "num_blocks": 12}
    engine = replaying(3, {0: 8, 1: 8}, **settings)
    params = SamplingParams(n=3, ignore_eos=True)
    first, second = (
        engine.add_request(Request(i, SegmentPrompt([(i, 5)], 900), 8, params)) for i in range(2)
    )
    step = engine.schedule()
    assert tables(first) == [[8, 9, 10, 11], [0, 1, 2, 3], [4, 5, 6, 7]]
    assert tables(second) == [[]] * 3
    assert step.moves.within == []  # nothing is computed yet
    engine.commit(step, engine.run(step))
    assert engine.schedule().moves.within == [(8, 0), (9, 1), (8, 4), (9, 5)]
    assert engine.usage().live == 3 * 6
    engine.check()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"batching": "static"}, "2 outputs need batching continuous"),
        ({"policy": "priority"}, "2 outputs need policy fcfs, not priority"),
        (
            {"policy": "lpm", "enable_prefix_caching": True},
            "2 outputs need policy fcfs, not lpm",
        ),
        (
            {"reservation": "limit"},
            "2 outputs need reservation none with paged memory, not limit",
        ),
        (
            {
                "memory": "contiguous",
                "reservation": "limit",
                "mixed_batches": False,
                "enable_chunked_prefill": False,
                "max_batch_total_tokens": 4096,
                "max_num_batched_tokens": 4096,
            },
            "2 outputs need max_batch_total_tokens 0",
        ),
        ({"max_num_seqs": 1}, "2 outputs are 2 sequences, max_num_seqs is 1"),
        (
            {"memory": "contiguous", "reservation": "max", "num_blocks": 40},
            "5 prompt .* need 2 runs of 32 blocks, the pool of 40 has room for 1",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(settings, expected):
    engine = replaying(2, {0: 8}, **settings)
    with pytest.raises(RequestError, match=expected):
        engine.add_request(Request(0, SegmentPrompt([(1, 5)], 900), 8, SamplingParams(n=2)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_num_batched_tokens": 1}, "2 beams need max_num_batched_tokens >= 2"),
        ({"async_scheduling": True}, "2 beams need .* async_scheduling false"),
        ({"num_blocks": 5}, "5 prompt .* need 5 blocks, the pool has 3"),
    ],
)
def test_beams_that_cannot_be_served_are_refused(settings, expected):
    """12 slots are 3 blocks, of which one is full of prompt: 1 + 2 x 2."""
    engine = replaying(
        2, {0: 8}, **settings | ({"num_blocks": 3} if "num_blocks" in settings else {})
    )
    with pytest.raises(RequestError, match=expected):
        engine.add_request(Request(0, SegmentPrompt([(1, 5)], 900), 8, beams(2)))


@pytest.mark.parametrize("changed", [{"n": 1}, {"ignore_eos": False}, {"temperature": 0.5}])
def test_beam_search_needs_its_settings(changed):
    settings = {"n": 2, "beam_search": True, "ignore_eos": True} | changed
    with pytest.raises(RequestError, match="beam_search: expected n >= 2, ignore_eos and"):
        SamplingParams(**settings)


KINDS: dict[str, dict[str, Any]] = {
    "continuous": {},
    "async": {"async_scheduling": True},
    "prefill first": {
        "mixed_batches": False,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 130,
    },
    "swap": {"preemption": "swap", "enable_prefix_caching": False},
    "prefill first swap": {
        "mixed_batches": False,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 130,
        "preemption": "swap",
        "num_cpu_blocks": 10,
        "enable_prefix_caching": False,
    },
    "short chunks swap": {
        "preemption": "swap",
        "num_cpu_blocks": 3,
        "long_prefill_token_threshold": 3,
        "reserve_full_isl": False,
        "enable_prefix_caching": False,
    },
    "contiguous": {
        "memory": "contiguous",
        "reservation": "exact",
        "enable_prefix_caching": False,
    },
    "async contiguous": {
        "memory": "contiguous",
        "reservation": "pow2",
        "enable_prefix_caching": False,
        "async_scheduling": True,
    },
}


def random_parents(number: RequestId, num_written: int, width: int) -> list[int]:
    rng = random.Random(f"{number} {num_written}")
    return [rng.randrange(width) if rng.random() < 0.7 else i for i in range(width)]


class Pair:
    """The engine that hands out every token and the one that counts them, side by side."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = rng = random.Random(seed)
        block_size = rng.randint(1, 8)
        settings: dict[str, Any] = {
            "block_size": block_size,
            "num_blocks": rng.randint(50, 130) // block_size,
            "max_model_len": 50,
            "max_num_seqs": rng.randint(3, 12),
            "max_num_batched_tokens": rng.randint(3, 60),
            "enable_prefix_caching": rng.random() < 0.5,
        }
        self.config = EngineConfig(**(settings | KINDS[kind]))
        self.answers: dict[Any, AnswerTokens] = {}
        self.lengths: dict[int, int] = {}
        self.stepwise = Engine(
            self.config,
            ReplayRunner(self.answers, random_parents),
            with_text=False,
            output_length=self.lengths.__getitem__,
        )
        self.replay = ReplayEngine(self.config, self.lengths.__getitem__, random_parents)
        self.in_flight: Any = None
        self.num_preemptions = self.num_copies = self.num_ahead = 0

    def add(self, number: int) -> None:
        """A request of one to four outputs, to both."""
        rng = self.rng
        n, length = rng.randint(1, 4), rng.randint(1, 20)
        answer_id = 1000 + 10 * number
        for index in range(n):
            output_id = (number, index) if n > 1 else number
            self.answers[output_id] = AnswerTokens(answer_id + index, length)
        self.lengths[number] = length
        segments = [(rng.randint(0, 2), rng.randint(1, 12)), (100 + number, rng.randint(1, 12))]
        is_beam = n > 1 and rng.random() < 0.4
        params = SamplingParams(n=n, beam_search=is_beam, ignore_eos=True)
        request = Request(number, SegmentPrompt(segments, answer_id), rng.randint(1, 24), params)
        refusals = []
        for engine in (self.stepwise, self.replay):
            try:
                engine.add_request(request)
            except RequestError as error:
                refusals.append(str(error))
        assert len(refusals) in (0, 2)
        assert len(set(refusals)) < 2

    def cancel(self) -> None:
        numbers = list(self.stepwise._sequences)
        if numbers:
            number = self.rng.choice(numbers)
            assert self.stepwise.cancel(number)
            assert self.replay.cancel(number)

    def turn(self) -> None:
        num_ahead = self.replay.steps_ahead()
        if num_ahead and self.rng.random() < 0.8:
            self.advance(self.rng.randint(1, num_ahead))
        else:
            self.step()
        self.compare()

    def advance(self, num_steps: int) -> None:
        self.num_ahead += num_steps
        self.replay.advance(num_steps)
        for _ in range(num_steps):
            step = self.stepwise.schedule()
            if self.config.async_scheduling:
                self.stepwise.commit(*self.in_flight[:2])
                self.in_flight = (step, self.stepwise.run(step), None)
            else:
                self.stepwise.commit(step, self.stepwise.run(step))
        if self.config.async_scheduling:
            self.in_flight = (*self.in_flight[:2], self.replay.in_flight)

    def step(self) -> None:
        step, replayed = self.stepwise.schedule(), self.replay.schedule()
        self.num_preemptions += len(step.preempted)
        self.num_copies += len(step.moves.within)
        assert step.moves == replayed.moves
        assert (step.num_tokens, step.num_decodes) == (replayed.num_tokens, replayed.num_decodes)
        assert step.decode_context_tokens == replayed.decode_context_tokens
        assert step.prefills == replayed.prefills
        if self.config.async_scheduling:
            self.commit()
        if step.num_tokens:
            self.in_flight = (step, self.stepwise.run(step), replayed)
        if not self.config.async_scheduling:
            self.commit()

    def commit(self) -> None:
        if self.in_flight:
            step, token_ids, replayed = self.in_flight
            self.in_flight = None
            outputs = self.stepwise.commit(step, token_ids)
            progress = self.replay.commit(replayed)
            assert len(outputs) == len(progress.sampled) + progress.num_decoded
            assert sum(output.finished for output in outputs) == len(progress.ended)

    def compare(self) -> None:
        for engine in (self.stepwise, self.replay):
            engine.check()
            assert sum(engine.usage()) == self.config.num_slots
            assert engine.kv.num_saved_slots == num_saved_slots(engine)
        assert self.stepwise.usage() == self.replay.usage()
        for queue in ("running", "waiting"):
            queues = [
                [(s.output_id, s.block_table.block_ids) for s in getattr(engine.scheduler, queue)]
                for engine in (self.stepwise, self.replay)
            ]
            assert queues[0] == queues[1]


def num_saved_slots(engine: Engine | ReplayEngine) -> int:
    """Slots of all tables, counted one by one, less those of different blocks."""
    held = [b for seq in engine.scheduler.holders for b in seq.block_table.block_ids]
    return (len(held) - len(set(held))) * engine.config.block_size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_random_walk_of_both_engines(seed, kind):
    """Every block table is the same at every step, whoever has how many outputs."""
    walk(seed, kind)


def walk(seed: int, kind: str) -> Pair:
    pair = Pair(seed, kind)
    for number in range(30):
        pair.add(number)
        if pair.rng.random() < 0.1:
            pair.cancel()
        for _ in range(pair.rng.randint(0, 6)):
            pair.turn()
    num_turns = 0
    while pair.stepwise.has_work:
        pair.turn()
        num_turns += 1
        assert num_turns < 3000, "it does not end"
    pair.commit()
    assert not pair.replay.has_work
    assert pair.replay.kv.num_free_blocks == pair.config.num_blocks
    return pair


def test_walks_meet_what_they_are_for():
    pairs = [walk(seed, "continuous") for seed in range(15)]
    assert sum(pair.num_preemptions for pair in pairs) > 20
    assert sum(pair.num_copies for pair in pairs) > 100
    assert sum(pair.num_ahead for pair in pairs) > 100
