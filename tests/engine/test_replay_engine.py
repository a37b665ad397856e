"""The engine that is told the lengths against the one that hands out every token, side by side."""

import random
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.eviction import EVICTION
from engine.replay_engine import Progress, ReplayEngine
from engine.request import Request, RequestError, TokenOutput
from engine.runners import ReplayRunner
from engine.sequence import Sequence
from engine.step import Step
from tests.engine.kinds import KINDS
from workloads.content import AnswerTokens, Segment, SegmentPrompt

# The ways to run that a walk can take; the other settings are drawn.
SEEDS = range(60)
NUM_TURNS_UNDER_LOAD = 50
FIRST_ANSWER = 10_000  # content id
MOST_TURNS = 3000


def random_settings(rng: random.Random) -> dict[str, object]:
    """Short models, and pools of two thirds of a full sequence up to three."""
    block_size = rng.randint(1, 8)
    max_model_len = rng.choice([rng.randint(8, 60), 100])
    chunked = rng.random() < 0.7
    return {
        "block_size": block_size,
        "num_blocks": max(1, rng.randint(max_model_len * 2 // 3, 3 * max_model_len) // block_size),
        "max_model_len": max_model_len,
        "max_num_seqs": rng.randint(1, 8),
        "batch_size": rng.randint(1, 6),
        "max_num_batched_tokens": rng.randint(1, rng.choice([5, 40]))
        + (0 if chunked else max_model_len),
        "enable_chunked_prefill": chunked,
        "enable_prefix_caching": rng.random() < 0.6,
        "long_prefill_token_threshold": rng.choice([0, rng.randint(1, 8)]),
        "watermark": rng.choice([0.0, 0.0, 0.1, 0.4]),
        "reserve_full_isl": rng.random() < 0.6,
        "eviction": rng.choice(EVICTION),
    }


class InFlight(NamedTuple):
    """A step as each of the two engines has scheduled it, and its tokens."""

    stepwise: Step
    replay: Step
    token_ids: list[int]


class Walk:
    """Both engines under the same random requests and cancellations, compared at every turn."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = rng = random.Random(seed)
        self.config = config = EngineConfig(**(random_settings(rng) | KINDS[kind]))
        self.answers: dict[int, AnswerTokens] = {}
        runner = ReplayRunner(self.answers)
        self.stepwise = Engine(config, runner, with_text=False, output_length=self.length)
        self.replay = ReplayEngine(config, self.length)
        self.in_flight: InFlight | None = None
        self.unfinished: list[int] = []
        self.talks: list[tuple[list[Segment], Segment]] = []  # prompts and their answers
        self.quoted: dict[int, tuple[int, int]] = {}  # who is quoted after how long a prompt
        self.counts: Counter[str] = Counter()
        self.looks = rng.choice([1.0, 0.1])  # how often `check` does

    def length(self, request_id: int) -> int:
        return len(self.answers[request_id])

    # --- what happens ---

    def turn(self, *, disturbed: bool) -> None:
        """Some steps at once, where the one engine can do that, or one step of both."""
        if not disturbed or self.rng.random() < 0.5:
            for engine in (self.stepwise, self.replay):
                engine.close_batch()
        num_ahead = self.replay.steps_ahead()
        if not num_ahead or self.rng.random() < 0.2:
            self.step(disturbed=disturbed)
            return
        self.advance(self.rng.randint(1, num_ahead))
        if disturbed:
            self.disturb()

    def disturb(self) -> None:
        """What clients may do at any time but between `schedule` and `run`."""
        while self.rng.random() < 0.3:
            self.add()
        if self.unfinished and self.rng.random() < 0.08:
            self.cancel()

    def add(self) -> None:
        """A new request to both, or a refusal by both."""
        rng = self.rng
        request_id = self.counts["added"]
        self.counts["added"] += 1
        segments = self.random_segments(request_id)
        answer = (FIRST_ANSWER + request_id, rng.randint(1, 30))
        self.answers[request_id] = AnswerTokens(*answer)
        request = Request(
            request_id,
            SegmentPrompt(segments, answer[0]),
            rng.randint(1, 30),
            priority=rng.randint(0, 3),
        )
        refusals = [self.refusal(engine, request) for engine in (self.stepwise, self.replay)]
        assert refusals[0] == refusals[1]
        if refusals[0] is None:
            self.talks.append((segments, answer))
            self.unfinished.append(request_id)
        self.check()

    def random_segments(self, request_id: int) -> list[Segment]:
        """A shared opening or a talk so far, perhaps still going on, then something new."""
        rng = self.rng
        segments: list[Segment] = []
        draw = rng.random()
        if draw < 0.3:
            segments.append((rng.randint(0, 2), rng.randint(1, 12)))
        elif draw < 0.8 and self.talks:
            prompt, (answer_id, num_tokens) = rng.choice(self.talks[-6:])
            segments += [*prompt, (answer_id, rng.randint(1, num_tokens))]
            num_before = sum(num_tokens for _, num_tokens in prompt)
            self.quoted[request_id] = (answer_id - FIRST_ANSWER, num_before)
        if rng.random() < 0.7 or not segments:
            segments.append((1000 + request_id, rng.randint(1, 14)))
        return segments

    def refusal(self, engine: Engine | ReplayEngine, request: Request) -> str | None:
        try:
            engine.add_request(request)
        except RequestError as error:
            return str(error)
        return None

    def cancel(self) -> None:
        request_id = self.unfinished.pop(self.rng.randrange(len(self.unfinished)))
        assert self.stepwise.cancel(request_id)
        assert self.replay.cancel(request_id)
        self.counts["cancelled"] += 1
        self.counts["cancelled in flight"] += bool(self.in_flight)
        self.check()

    def step(self, *, disturbed: bool) -> None:
        """As the live loop does it: the step before is committed while this one is in flight."""
        stepwise, replay = self.stepwise.schedule(), self.replay.schedule()
        self.check()
        self.check_steps(stepwise, replay)
        self.commit()  # of the step before, with asynchronous scheduling
        if stepwise.num_tokens:
            self.in_flight = InFlight(stepwise, replay, self.stepwise.run(stepwise))
        if disturbed:
            self.disturb()
        if not self.config.async_scheduling:
            self.commit()

    def commit(self) -> None:
        """Take the tokens of the step in flight, if any."""
        if self.in_flight:
            stepwise, replay, token_ids = self.in_flight
            outputs, progress = (
                self.stepwise.commit(stepwise, token_ids),
                self.replay.commit(replay),
            )
            self.in_flight = None
            self.check()
            self.check_progress(outputs, progress)

    def advance(self, num_steps: int) -> None:
        """So many steps at once, of which only the last may end anybody, and one by one."""
        num_seqs, context_tokens = self.replay.rows_ahead
        usage = self.stepwise.usage()
        begun, ended = self.replay.advance(num_steps)
        for number in range(num_steps):
            step = self.stepwise.schedule()
            assert not step.preempted
            assert not step.admitted
            assert (step.num_tokens, step.num_decodes) == (num_seqs, num_seqs)
            assert step.decode_context_tokens == context_tokens + number * num_seqs
            assert begun[number] == num_begun(self.stepwise, step)
            outputs = self.pass_on(step)
            finished = [output.request_id for output in outputs if output.finished]
            assert number == num_steps - 1 or not finished
        assert finished == ids(ended)
        self.finish(outputs, ended)
        self.check()
        self.counts["steps at once"] += num_steps if num_steps > 1 else 0
        self.counts["blocks begun at once"] += sum(begun) if num_steps > 1 else 0
        self.counts["evicted at once"] += self.stepwise.usage().cached < usage.cached

    def pass_on(self, step: Step) -> list[TokenOutput]:
        """What the stepwise engine hands out with a step: its tokens, or those of the last."""
        token_ids = self.stepwise.run(step) if not self.in_flight else []
        if not self.in_flight:
            return self.stepwise.commit(step, token_ids)
        outputs = self.stepwise.commit(self.in_flight.stepwise, self.in_flight.token_ids)
        self.in_flight = InFlight(step, self.replay.in_flight, self.stepwise.run(step))
        return outputs

    # --- what must hold ---

    def check(self) -> None:
        """What both hold is the same to the block, and the books balance.

        Looking at tables brings what was put off up to date; so half of the walks seldom look.
        """
        assert outline(self.stepwise) == outline(self.replay)
        if self.rng.random() < self.looks:
            self.stepwise.check()
            self.replay.check()
            assert tables(self.stepwise) == tables(self.replay)

    def check_steps(self, stepwise: Step, replay: Step) -> None:
        """Both steps have the same shape, and the same sequences came and went."""
        assert shape(stepwise) == shape(replay)
        assert ids(stepwise.preempted) == ids(replay.preempted)
        assert admissions(stepwise) == admissions(replay)
        counts = self.counts
        counts["preempted"] += len(stepwise.preempted)
        for seq, num_cached in stepwise.admitted:
            counts["hits"] += num_cached > 0
            whose, num_before = self.quoted.get(int(seq.request.request_id), (-1, 0))
            if num_cached > num_before:
                counts["hits of an answer"] += whose >= 0
                counts["hits of an answer under way"] += whose in self.unfinished
        admitted = [seq for seq, _ in replay.admitted]
        num_alone = sum(chunk.is_decode and chunk.seq not in admitted for chunk in replay.chunks)
        counts["one by one"] += num_alone > 0
        counts["together"] += replay.num_decodes > num_alone + 1
        counts["left"] += len(replay.left)

    def check_progress(self, outputs: list[TokenOutput], progress: Progress) -> None:
        """As many tokens were taken, and the same requests ended, in the same order."""
        assert len(outputs) == len(progress.sampled) + progress.num_decoded
        self.finish(outputs, progress.ended)

    def finish(self, outputs: list[TokenOutput], ended: list[Sequence]) -> None:
        finished = [(o.request_id, o.finish_reason) for o in outputs if o.finished]
        assert finished == [(seq.request.request_id, seq.finish_reason) for seq in ended]
        for request_id, reason in finished:
            self.unfinished.remove(int(request_id))
            self.counts[f"finished: {reason}"] += 1


def ids(seqs: list[Sequence]) -> list[int | str]:
    return [seq.request.request_id for seq in seqs]


def shape(step: Step) -> tuple[object, ...]:
    prefills = sorted(step.prefills)
    return step.num_tokens, step.num_decodes, step.decode_context_tokens, prefills


def admissions(step: Step) -> list[tuple[object, ...]]:
    return [
        (
            seq.request.request_id,
            num_cached,
            seq.num_cached_tokens,
            seq.prefix_misses,
            seq.num_lost_tokens,
        )
        for seq, num_cached in step.admitted
    ]


def outline(engine: Engine | ReplayEngine) -> tuple[object, ...]:
    """Who runs, who waits, the ledger, what sharing saves, the free queue."""
    scheduler, allocator = engine.scheduler, engine.kv._allocator
    if engine.config.memory == "contiguous":
        free: tuple[object, ...] = tuple(map(sorted, allocator._holes))
    else:
        free = (list(allocator._empty), list(allocator._cached))
    books = (engine.usage(), engine.kv.num_saved_slots, free)
    return ids(list(scheduler.running)), ids(list(scheduler.waiting)), *books


def tables(engine: Engine | ReplayEngine) -> list[tuple[object, ...]]:
    """Of each running sequence, how many tokens it has on which blocks."""
    tables = [seq.block_table for seq in engine.scheduler.running]
    return [(table.num_tokens, *table.block_ids) for table in tables]


def num_begun(engine: Engine, step: Step) -> int:
    """Blocks of which a step of decodes fills the first slot."""
    return sum(chunk.start % engine.config.block_size == 0 for chunk in step.chunks)


@cache
def walk(seed: int, kind: str) -> Walk:
    """Turns under load, then as many as the rest needs."""
    it = Walk(seed, kind)
    for _ in range(NUM_TURNS_UNDER_LOAD):
        it.turn(disturbed=True)
    for _ in range(MOST_TURNS):
        if not it.unfinished and not it.in_flight:
            break
        it.turn(disturbed=False)
    return it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_decisions_are_those_of_the_engine_that_takes_every_step(seed, kind):
    """To the block and to the step; everything is checked on the way."""
    it = walk(seed, kind)
    assert not it.unfinished
    assert not it.stepwise.has_work
    assert not it.replay.has_work


EVENTS = (
    "cancelled",
    "hits",
    "hits of an answer",
    "together",
    "finished: stop",
    "finished: length",
)
CONTINUOUS_EVENTS = (*EVENTS, "hits of an answer under way", "preempted", "one by one", "left")
AT_ONCE = ("steps at once", "blocks begun at once")
CONTIGUOUS_EVENTS = ("cancelled", "together", "finished: stop", "finished: length", *AT_ONCE)


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("continuous", (*CONTINUOUS_EVENTS, *AT_ONCE, "evicted at once")),
        ("static", (*EVENTS, *AT_ONCE)),
        ("async", (*CONTINUOUS_EVENTS, "cancelled in flight")),
        ("priority", (*CONTINUOUS_EVENTS, *AT_ONCE, "evicted at once")),
        ("async priority", (*CONTINUOUS_EVENTS, "cancelled in flight")),
        ("contiguous", CONTIGUOUS_EVENTS),
        ("static contiguous", CONTIGUOUS_EVENTS),
        ("static padded", (*EVENTS, *AT_ONCE)),
        ("static to the limit", (*EVENTS, *AT_ONCE)),
        ("priority contiguous", CONTIGUOUS_EVENTS),
    ],
)
def test_walks_meet_everything_they_are_for(kind, events):
    counts = sum((walk(seed, kind).counts for seed in SEEDS), Counter())
    assert {event: counts[event] for event in events if counts[event] < 5} == {}


# --- by hand: blocks of 2 tokens ---


def engine_with(*lengths: tuple[int, int], **settings: object) -> ReplayEngine:
    """An engine with a request of so many (prompt, output) tokens each, after its first step.

    Requests that come later get one token.
    """
    small: dict[str, object] = {"block_size": 2, "num_blocks": 16, "max_model_len": 32}
    outputs: dict[object, int] = {number: length for number, (_, length) in enumerate(lengths)}
    config = EngineConfig(**(small | settings))
    engine = ReplayEngine(config, lambda request_id: outputs.get(request_id, 1))
    for number, (num_prompt, num_output) in enumerate(lengths):
        prompt = SegmentPrompt([(number, num_prompt)], 100 + number)
        engine.add_request(Request(number, prompt, num_output))
    engine.close_batch()
    engine.commit(engine.schedule())
    engine.check()
    return engine


def test_steps_ahead_reach_to_the_next_end():
    """Outputs of 6 and 4, one token of each there: the third step ahead ends the second request.

    They feed positions 3 and 4, 4 and 5, 5 and 6, then 6, then 7; even ones begin a block.
    """
    engine = engine_with((3, 6), (4, 4))
    assert (engine.steps_ahead(), engine.num_decodes, engine.rows_ahead) == (3, 2, (2, 9))
    begun, ended = engine.advance(3)
    assert (begun, ids(ended)) == ([1, 1, 1], [1])
    assert (engine.steps_ahead(), engine.num_decodes, engine.rows_ahead) == (2, 1, (1, 7))
    begun, ended = engine.advance(2)
    assert (begun, ids(ended)) == ([1, 0], [0])
    assert (engine.steps_ahead(), engine.has_work) == (0, False)


def test_steps_can_be_taken_a_few_at_a_time():
    engine = engine_with((3, 6), (4, 4))
    taken = [engine.advance(num_steps) for num_steps in (1, 1, 1, 2)]
    assert [(begun, ids(ended)) for begun, ended in taken] == [
        ([1], []),
        ([1], []),
        ([1], [1]),
        ([1, 0], [0]),
    ]


def test_steps_ahead_stop_before_the_pool_is_short():
    """The same in 6 blocks, of which 4 are held: the third block to begin is not there."""
    engine = engine_with((3, 6), (4, 4), num_blocks=6)
    assert engine.steps_ahead() == 2
    engine.advance(2)
    assert engine.steps_ahead() == 0
    assert ids(engine.schedule().preempted) == [1]


def test_request_that_might_be_admitted_leaves_no_steps_ahead():
    """A newcomer; one for which there is no place, however, changes nothing until somebody ends."""
    engine = engine_with((3, 6), (4, 4), max_num_seqs=2)
    engine.add_request(Request("new", SegmentPrompt([(9, 1)], 109), 1))
    assert engine.steps_ahead() == 0
    engine.commit(engine.schedule())
    assert engine.steps_ahead() == 2


def test_queue_whose_head_is_cancelled_may_move_on():
    """The head, of 4 blocks, does not fit and stops the one behind it, which needs a block."""
    engine = engine_with((3, 6), (4, 4), num_blocks=7)
    engine.add_request(Request("head", SegmentPrompt([(8, 7)], 108), 1))
    engine.add_request(Request("next", SegmentPrompt([(9, 1)], 109), 1))
    engine.commit(engine.schedule())
    assert engine.steps_ahead() == 2
    engine.cancel("head")
    assert engine.steps_ahead() == 0
    assert [seq.request.request_id for seq, _ in engine.schedule().admitted] == ["next"]


def test_step_in_flight_leaves_no_steps_ahead():
    engine = engine_with((3, 6), (4, 4))
    step = engine.schedule()
    assert engine.steps_ahead() == 0
    engine.commit(step)
    assert engine.steps_ahead() == 2


def test_nothing_runs_with_no_steps_ahead():
    assert engine_with((3, 1)).steps_ahead() == 0
    assert engine_with().steps_ahead() == 0


def test_of_equal_blocks_filled_in_one_step_the_first_in_order_is_shared():
    """Budget 4: in the second step request 0 feeds its first token and so fills block 1.

    Request 1, whose prompt quotes that token, fills its block 2 with the same in the same step.
    """
    config = EngineConfig(
        block_size=2, num_blocks=16, enable_prefix_caching=True, max_num_batched_tokens=4
    )
    engine = ReplayEngine(config, lambda _: 9)
    quote = [(0, 3), (100, 1)]
    engine.add_request(Request(0, SegmentPrompt([(0, 3)], 100), 9))
    seq = engine.add_request(Request(1, SegmentPrompt([*quote, (1, 3)], 101), 9))
    engine.commit(engine.schedule())
    engine.commit(engine.schedule())
    assert seq.block_table.block_ids[:2] == [0, 2]
    probe = Sequence(Request("probe", SegmentPrompt([*quote, (2, 3)], 102), 9), 2, 32)
    assert engine.kv.cached_prefix(probe) == [0, 1]


def test_static_rows_go_ahead_whoever_waits():
    """A batch of 2 of 3: until the first row ends, then until the second does."""
    engine = engine_with((3, 6), (4, 4), (1, 1), batching="static", batch_size=2)
    assert engine.steps_ahead() == 3
    assert ids(engine.advance(3)[1]) == [1]
    assert engine.steps_ahead() == 2
    assert ids(engine.advance(2)[1]) == [0]
    assert engine.steps_ahead() == 0


def test_output_longer_than_its_limit_is_cut():
    engine = ReplayEngine(EngineConfig(block_size=2, num_blocks=16), lambda _: 99)
    engine.add_request(Request("cut", SegmentPrompt([(0, 3)], 1), 4))
    engine.commit(engine.schedule())
    assert engine.steps_ahead() == 3
    _, (seq,) = engine.advance(3)
    assert (seq.finish_reason, seq.num_output_tokens, seq.num_computed_tokens) == ("length", 4, 0)


def test_steps_must_be_committed_in_order():
    engine = ReplayEngine(EngineConfig(async_scheduling=True), lambda _: 9)
    engine.add_request(Request("a", SegmentPrompt([(0, 3)], 1), 9))
    first, second = engine.schedule(), engine.schedule()
    with pytest.raises(RuntimeError, match="step 0 has not been committed"):
        engine.schedule()
    with pytest.raises(RuntimeError, match="step 1 is not the oldest in flight"):
        engine.commit(second)
    assert ids(engine.commit(first).sampled) == ["a"]
    assert engine.commit(second).num_decoded == 1
