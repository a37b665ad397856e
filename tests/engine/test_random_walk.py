"""Long random walks over settings and workloads; the books and the promises hold at every step.

The runner below stands for a model. What it stores in a slot is the whole token prefix, so that a
wrong, stale or overwritten block shows as a wrong prefix; its next token depends on all of it.
"""

import random
import zlib
from collections import Counter

import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.eviction import EVICTION
from engine.request import Request, RequestError, TokenOutput, TokenPrompt
from engine.sequence import Sequence
from engine.step import Step
from tests.engine.kinds import KINDS

STOP = -1
ALPHABET = (0, 1, 2)  # few tokens, so that prompts often agree by chance as well

# The ways to run that a walk can take; the other settings are drawn.


def next_token(prefix: list[int]) -> int:
    """A token that depends on every token of the prefix; about one in twenty ends the text."""
    draw = zlib.crc32(bytes(prefix))
    return STOP if draw % 20 == 0 else ALPHABET[draw // 20 % len(ALPHABET)]


def reference_output(prompt: list[int], max_new_tokens: int, max_model_len: int) -> list[int]:
    """What a request must produce, computed alone."""
    output: list[int] = []
    while len(output) < max_new_tokens and len(prompt) + len(output) < max_model_len:
        output.append(next_token(prompt + output))
        if output[-1] == STOP:
            break
    return output


def copy(
    source: dict[tuple[int, int], list[int]],
    target: dict[tuple[int, int], list[int]],
    blocks: list[tuple[int, int]],
) -> None:
    """Copy whole blocks, (from, to) of each."""
    for taken, given in blocks:
        for block_id, offset in list(source):
            if block_id == taken:
                target[given, offset] = source[taken, offset]


class PrefixRunner:
    """Keeps the prefix that ends at each slot, and reads it back through the block tables."""

    def __init__(self) -> None:
        self.pool: dict[tuple[int, int], list[int]] = {}
        self.host: dict[tuple[int, int], list[int]] = {}

    def run(self, step: Step) -> list[int]:
        copy(self.pool, self.host, step.moves.out)
        copy(self.host, self.pool, step.moves.back)
        copy(self.pool, self.pool, step.moves.within)
        for chunk in step.chunks:
            is_given = 0 < chunk.start == chunk.seq.num_given_tokens
            start = 0 if is_given else chunk.start
            self._write(chunk.seq, start, chunk.start + chunk.num_tokens)
        for seq, start, num_tokens, _ in step.chunks:
            known = seq.token_ids(0, start + num_tokens)
            for position in range(start + num_tokens):
                assert self._read(seq, position) == known[: position + 1], "the wrong K/V is read"
        return [
            next_token(self._read(seq, start + num_tokens - 1))
            for seq, start, num_tokens, samples in step.chunks
            if samples
        ]

    def _read(self, seq: Sequence, position: int) -> list[int]:
        return self.pool[seq.block_table.locate(position)]

    def _write(self, seq: Sequence, start: int, stop: int) -> None:
        for position, token in zip(range(start, stop), seq.token_ids(start, stop), strict=True):
            before = self._read(seq, position - 1) if position else []
            self.pool[seq.block_table.locate(position)] = [*before, token]


def random_settings(rng: random.Random) -> dict[str, object]:
    """Short models, and pools of two thirds of a full sequence up to two."""
    block_size = rng.randint(1, 16)
    max_model_len = rng.randint(8, 60)
    chunked = rng.random() < 0.7
    return {
        "block_size": block_size,
        "num_blocks": max(1, rng.randint(max_model_len * 2 // 3, 2 * max_model_len) // block_size),
        "max_model_len": max_model_len,
        "max_num_seqs": rng.randint(1, 8),
        "batch_size": rng.randint(1, 6),
        "max_num_batched_tokens": rng.randint(1, 40) + (0 if chunked else max_model_len),
        "enable_chunked_prefill": chunked,
        "enable_prefix_caching": rng.random() < 0.7,
        "long_prefill_token_threshold": rng.choice([0, 0, rng.randint(1, 8)]),
        "watermark": rng.choice([0.0, 0.0, 0.1, 0.4]),
        "reserve_full_isl": rng.random() < 0.6,
        "eviction": rng.choice(EVICTION),
    }


class Walk:
    """An engine under random requests and cancellations, and what is known of it from outside."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = rng = random.Random(seed)
        self.config = EngineConfig(**(random_settings(rng) | KINDS[kind]))
        self.runner = PrefixRunner()
        self.lengths: dict[int, int] = {}
        self.engine = Engine(
            self.config, self.runner, with_text=False, output_length=self.lengths.__getitem__
        )
        self.computed: tuple[Step, list[int]] | None = None  # its tokens are not committed yet
        self.pending: Counter[int] = Counter()  # tokens in flight of each request
        self.unfinished: dict[int, Sequence] = {}
        self.num_computed: dict[int, int] = {}
        self.outputs: dict[int, list[int]] = {}
        self.counts: Counter[str] = Counter()
        third = self.config.max_model_len // 3
        self.openings = [self.random_tokens(rng.randint(0, third)) for _ in range(3)]
        self.said: list[list[int]] = []  # prompts and outputs of those that have finished

    def random_tokens(self, num_tokens: int) -> list[int]:
        return self.rng.choices(ALPHABET, k=num_tokens)

    @property
    def is_reserving(self) -> bool:
        """More than a request may come to need is asked for."""
        return self.config.reservation != "none"

    @property
    def largest_run(self) -> int:
        """Slots that one sequence can have."""
        return self.config.num_slots

    def most_tokens(self, max_new_tokens: int) -> int:
        """Of an output that may have so many."""
        return 1 if self.config.kv_role == "kv_producer" else max_new_tokens

    def num_given(self, seq: Sequence) -> int:
        """Tokens of its prompt that need not be computed."""
        is_given = self.config.kv_role == "kv_consumer" and not seq.num_preemptions
        return len(seq.request.prompt) - 1 if is_given else 0

    # --- what happens ---

    def add(self) -> None:
        """A shared opening, an earlier conversation or an earlier prompt, and something new."""
        rng = self.rng
        opening = rng.choice(self.openings + self.said[-3:])
        prompt = opening + self.random_tokens(rng.choice([0, rng.randint(1, 12)]))
        if not prompt:
            prompt = self.random_tokens(1)
        request_id = self.counts["added"]
        self.counts["added"] += 1
        max_new_tokens = rng.randint(1, 30)
        request = Request(
            request_id,
            TokenPrompt(prompt),
            max_new_tokens,
            priority=rng.randint(0, 3),
            stop_token_id=STOP,
        )
        max_new_tokens = self.most_tokens(max_new_tokens)
        output = reference_output(prompt, max_new_tokens, self.config.max_model_len)
        self.lengths[request_id] = len(output)
        try:
            self.unfinished[request_id] = self.engine.add_request(request)
        except RequestError:
            self.counts["refused"] += 1
            num_slots = min(len(prompt) + max_new_tokens, self.config.max_model_len) - 1
            is_too_long = len(prompt) >= self.config.max_model_len
            assert is_too_long or num_slots > self.largest_run or self.is_reserving
        else:
            self.outputs[request_id] = []
        self.check()

    def cancel(self) -> None:
        request_id = self.rng.choice(list(self.unfinished))
        assert self.engine.cancel(request_id)
        del self.unfinished[request_id]
        self.counts["cancelled"] += 1
        self.check()

    def disturb(self) -> None:
        """What clients may do at any time."""
        while self.rng.random() < 0.25:
            self.add()
        if self.unfinished and self.rng.random() < 0.03:
            self.cancel()

    def step(self, *, disturbed: bool) -> None:
        """As the live loop does it: the step before is committed while this one is in flight."""
        if not disturbed or self.rng.random() < 0.3:
            self.engine.close_batch()
        waiting, running = list(self.engine.scheduler.waiting), list(self.engine.scheduler.running)
        self.prefixes = {seq: len(self.engine.kv.cached_prefix(seq)) for seq in waiting}
        step = self.engine.schedule()
        self.check()
        self.check_order(step, waiting, running)
        self.check_step(step)
        self.commit()  # of the step before, with asynchronous scheduling
        self.computed = (step, self.engine.run(step))
        self.check_cache()
        if disturbed:
            self.disturb()
        if not self.config.async_scheduling:
            self.commit()

    def commit(self) -> None:
        if self.computed:
            for output in self.engine.commit(*self.computed):
                self.take(output)
            self.computed = None
            self.check()

    def take(self, output: TokenOutput) -> None:
        request_id = output.request_id
        self.pending[request_id] -= 1
        self.outputs[request_id].append(output.token_id)
        if output.finished:
            seq = self.unfinished.pop(request_id)
            self.counts["finished"] += 1
            self.check_output(seq, output.finish_reason)

    # --- what must hold ---

    def check(self) -> None:
        engine, counts = self.engine, self.counts
        engine.check()
        num_there = len(engine.scheduler.waiting) + len(engine.scheduler.running)
        num_gone = counts["finished"] + counts["refused"] + counts["cancelled"]
        assert counts["added"] == num_gone + num_there
        assert sum(engine.usage()) == self.config.num_slots
        self.check_sharing()
        self.check_snapshot()

    def check_sharing(self) -> None:
        """Two positions share a slot only if the tokens up to them are equal; what that saves.

        A token in flight is not known yet: its slot is nobody else's.
        """
        tables = [seq.block_table.block_ids for seq in self.engine.scheduler.holders]
        block_ids = [block_id for table in tables for block_id in table]
        num_saved = len(block_ids) - len(set(block_ids))
        assert self.engine.kv.num_saved_slots == num_saved * self.config.block_size
        holder_of: dict[tuple[int, int], object] = {}
        for seq in self.engine.scheduler.holders:
            known = seq.token_ids(0, seq.num_tokens)
            for position in range(seq.num_computed_tokens):
                content = known[: position + 1] if position < len(known) else seq
                assert holder_of.setdefault(seq.block_table.locate(position), content) == content

    def check_snapshot(self) -> None:
        """Its slots add up to the ledger, its holders and live slots are those of the tables."""
        block_size = self.engine.config.block_size
        states = self.engine.snapshot(self.engine.head)
        sums = Counter(live=sum(state.num_live for state in states))
        for state in states:
            sums[state.rest] += block_size - state.num_live
        usage = self.engine.usage()._asdict()
        assert {name: sums[name] for name in usage} == usage
        holders = self.engine.scheduler.holders
        held = {(b, seq.output_id) for seq in holders for b in seq.block_table.block_ids}
        shown = {(b, s.output_id) for b, state in enumerate(states) for s in state.holders}
        unused = {(b, key) for b, key in shown - held if states[b].rest == "unusable"}
        assert shown - unused == held
        live = {
            seq.block_table.locate(position)
            for seq in self.engine.scheduler.running
            for position in range(seq.block_table.num_tokens)
        }
        assert Counter(block_id for block_id, _ in live) == Counter(
            {b: state.num_live for b, state in enumerate(states) if state.num_live}
        )

    def check_cache(self) -> None:
        """What a prompt would hit now has been computed, and from exactly its tokens."""
        prompt = self.rng.choice([[0], *self.openings, *self.said[-8:]])
        if len(prompt) > 1:
            probe = Sequence(Request("probe", TokenPrompt(prompt), 1), self.config.block_size, 1000)
            for number, block_id in enumerate(self.engine.kv.cached_prefix(probe)):
                for offset in range(self.config.block_size):
                    position = number * self.config.block_size + offset
                    assert self.runner.pool[block_id, offset] == prompt[: position + 1]

    def check_order(self, step: Step, waiting: list[Sequence], running: list[Sequence]) -> None:
        """Who is admitted waited first, who is preempted is the last or the worst."""
        admitted = [seq for seq, _ in step.admitted]
        if self.config.policy == "lpm":
            self.check_longest_prefix(step, waiting)
            waiting = admitted + [seq for seq in waiting if seq not in admitted]
        assert admitted == waiting[: len(admitted)]
        assert not (admitted and step.preempted)
        assert not any(self.pending[seq.request.request_id] for seq in admitted)
        by_priority = self.config.policy == "priority"
        left = list(running)
        for seq in step.preempted:
            assert seq is (max(left, key=rank) if by_priority else left[-1])
            left.remove(seq)
        assert list(self.engine.scheduler.running) == left + admitted
        queue = list(self.engine.scheduler.waiting)
        if self.config.policy == "lpm":
            assert set(queue) == set(step.preempted) | set(waiting[len(admitted) :])
        elif by_priority:
            assert queue == sorted(queue, key=rank)
        else:
            assert queue == step.preempted[::-1] + waiting[len(admitted) :]

    def check_longest_prefix(self, step: Step, waiting: list[Sequence]) -> None:
        """The first to be admitted has the longest prefix, or one as long and came first.

        Others may find in the cache what this step computes.
        """
        if step.admitted and not self.config.mixed_batches:
            first, num_cached = step.admitted[0]
            assert first is max(waiting, key=lambda seq: self.prefixes[seq])
            assert num_cached == self.prefixes[first] * self.config.block_size

    def check_step(self, step: Step) -> None:
        """Every chunk goes on where the last one ended, within the limits."""
        self.counts["swapped out"] += bool(step.moves.out)
        self.counts["swapped in"] += bool(step.moves.back)
        for seq in step.preempted:
            assert seq.num_lost_tokens == self.num_computed[seq.request.request_id]
            self.num_computed[seq.request.request_id] = 0
            self.counts["preempted"] += 1
            self.counts["preempted with a token in flight"] += seq.num_stale
            assert seq.num_stale == self.pending[seq.request.request_id]
        for seq, num_cached in step.admitted:
            self.num_computed[seq.request.request_id] = num_cached + self.num_given(seq)
            self.counts["hits"] += num_cached > 0
        for seq, start, num_tokens, samples in step.chunks:
            request_id = seq.request.request_id
            num_known = len(seq.request.prompt) + len(self.outputs[request_id])
            num_known += self.pending[request_id]
            assert num_known < seq.max_num_tokens
            assert self.num_computed[request_id] == start
            assert num_tokens >= 1
            assert samples == (start + num_tokens == num_known)
            self.num_computed[request_id] += num_tokens
            self.pending[request_id] += samples
            self.counts["chunks that do not sample"] += not samples
        assert len(step.chunks) == len({chunk.seq for chunk in step.chunks})
        assert not {chunk.seq for chunk in step.chunks} & set(step.preempted)
        if not self.config.mixed_batches and step.admitted and not step.moves.back:
            assert {chunk.seq for chunk in step.chunks} == {seq for seq, _ in step.admitted}
        self.check_limits(step)
        self.check_shape(step)

    def check_limits(self, step: Step) -> None:
        config = self.config
        num_running = len(self.engine.scheduler.running)
        num_tokens = sum(chunk.num_tokens for chunk in step.chunks)
        assert step.num_tokens == num_tokens + step.num_padded
        if config.batching == "static":
            assert num_running <= config.batch_size
        else:
            assert num_running <= config.max_num_seqs
            assert num_tokens <= config.max_num_batched_tokens

    def check_shape(self, step: Step) -> None:
        """The totals that a latency model reads are those of the chunks."""
        decodes = [
            c
            for c in step.chunks
            if c.num_tokens == 1 and c.start >= (self.num_given(c.seq) or len(c.seq.request.prompt))
        ]
        prefills = [c for c in step.chunks if c not in decodes]
        assert step.num_decodes == len(decodes) + step.num_padded
        if not step.num_padded:
            assert step.decode_context_tokens == sum(chunk.start + 1 for chunk in decodes)
        assert step.prefills == [(chunk.num_tokens, chunk.start) for chunk in prefills]

    def check_output(self, seq: Sequence, reason: str | None) -> None:
        """Sharing, chunks, preemption and company have changed no token."""
        request = seq.request
        prompt = request.prompt.token_ids(0, len(request.prompt))
        output = self.outputs[request.request_id]
        max_model_len = self.config.max_model_len
        max_new_tokens = self.most_tokens(request.max_new_tokens)
        assert output == reference_output(prompt, max_new_tokens, max_model_len)
        assert output == seq.output_token_ids
        assert reason == seq.finish_reason == ("stop" if output[-1] == STOP else "length")
        self.said.append(prompt + [token for token in output if token != STOP])


def rank(seq: Sequence) -> tuple[int, int]:
    """Lower goes first under the priority policy; the ids count the arrivals."""
    return seq.request.priority, int(seq.request.request_id)


def walk(seed: int, kind: str) -> Walk:
    """60 steps under load, then as many as the rest may need: one token a step for one sequence.

    A step more for each preemption, in which a sequence that preempts itself leaves nothing to run.
    """
    it = Walk(seed, kind)
    for _ in range(60):
        it.disturb()
        it.step(disturbed=True)
    # 30: rows that have ended may be computed as long.
    num_steps = 30 + sum(seq.max_num_tokens for seq in it.unfinished.values())
    num_preempted = it.counts["preempted"]
    while num_steps + it.counts["preempted"] - num_preempted > 0 and it.engine.has_work:
        it.step(disturbed=False)
        num_steps -= 1
    for _ in range(60):  # rows that have ended may still be computed
        if it.engine.scheduler.holders:
            it.step(disturbed=False)
    it.commit()
    return it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_random_walk(seed, kind):
    """Nobody starves, every block comes back; everything else is checked on the way."""
    it = walk(seed, kind)
    assert not it.unfinished
    assert not it.engine.has_work
    assert it.engine.kv.num_free_blocks == it.config.num_blocks
    usage = it.engine.usage()
    assert usage.cached + usage.free == it.config.num_slots


EVENTS = ("finished", "refused", "cancelled", "hits")
CONTINUOUS_EVENTS = (*EVENTS, "preempted", "chunks that do not sample")
ASYNC_EVENTS = (*CONTINUOUS_EVENTS, "preempted with a token in flight")


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("continuous", CONTINUOUS_EVENTS),
        ("static", EVENTS),
        ("async", ASYNC_EVENTS),
        ("priority", CONTINUOUS_EVENTS),
        ("async priority", ASYNC_EVENTS),
        ("swap", ("finished", "preempted", "swapped out", "swapped in")),
        ("consumer", ("finished", "refused", "cancelled", "preempted")),
    ],
)
def test_walks_meet_everything_they_are_for(kind, events):
    counts = sum((walk(seed, kind).counts for seed in range(8)), Counter())
    assert {event: counts[event] for event in events if counts[event] < 8} == {}
