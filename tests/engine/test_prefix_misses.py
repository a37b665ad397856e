"""Why the prefix cache did not spare tokens: worked by hand, then against whole token prefixes.

Blocks hold 2 tokens. A prompt of 2 n + 1 tokens and an output of one token fills n blocks that can
be shared; the last, partly filled block goes back empty.
"""

import random
from collections import Counter

import pytest

from engine.config import EngineConfig
from engine.eviction import EVICTION
from engine.paged_kv import PagedKVManager
from engine.request import Request, TokenPrompt
from engine.sequence import PrefixMisses, Sequence

BLOCK_SIZE = 2


def max_output_tokens(seq: Sequence) -> int:
    """Nobody knows more."""
    return seq.max_output_tokens


@pytest.fixture
def caching_world(new_world):
    return lambda **settings: new_world(enable_prefix_caching=True, **settings)


def misses(partial: int, unseen: int, *evicted_at: int) -> PrefixMisses:
    return PrefixMisses(partial, unseen, list(evicted_at))


# --- worked by hand ---


def test_what_was_never_seen(caching_world):
    """Two full blocks of unseen tokens, and one token in no full block."""
    world = caching_world()
    seq = world.add("a", [1, 2, 3, 4, 5], 1)
    assert seq.prefix_misses is None
    world.run()
    assert seq.prefix_misses == misses(1, 4)


def test_what_is_shorter_than_a_block(caching_world):
    world = caching_world()
    seq = world.add("a", [1], 1)
    world.run()
    assert seq.prefix_misses == misses(1, 0)


def test_block_that_must_be_computed_for_its_logits_counts_as_partial(caching_world):
    """4 tokens, both blocks cached: the second cannot be hit, since a step must yield logits."""
    world = caching_world()
    world.add("a", [1, 2, 3, 4], 1)
    world.run()
    seq = world.add("b", [1, 2, 3, 4], 1)
    world.run()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (2, misses(2, 0))


def test_what_is_hit_is_no_miss(caching_world):
    """4 of 7 tokens are hit, 2 are unseen, 1 is in no full block."""
    world = caching_world()
    world.add("a", [1, 2, 3, 4, 5], 1)
    world.run()
    seq = world.add("b", [1, 2, 3, 4, 6, 7, 8], 1)
    world.run()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (4, misses(1, 2))


def test_same_step_counts_what_it_shares(caching_world):
    world = caching_world()
    world.add("a", [1, 2, 3, 4, 5], 1)
    seq = world.add("b", [1, 2, 3, 4, 6], 1)
    world.run()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (4, misses(1, 0))


def test_evicted_before_reuse_with_the_step_of_the_eviction(caching_world):
    """Pool of 3 blocks. a leaves 2 cached and 1 empty (step 0). Step 1 idles, step 2 gives b, one
    block and a partial one, the empty one and a's tail: a's second block was evicted in step 2."""
    world = caching_world(num_blocks=3)
    world.add("a", [1, 2, 3, 4, 5], 1)
    assert [world.step(), world.step()] == ["a 0+5", ""]
    world.add("b", [7, 8, 9], 1)
    assert world.step() == "b 0+3"
    seq = world.add("a again", [1, 2, 3, 4, 5], 1)
    assert world.step() == "a again 2+3"
    assert (seq.num_cached_tokens, seq.prefix_misses) == (2, misses(1, 0, 2))


def test_each_block_has_its_own_step(caching_world):
    """Steps 1, 2 and 3 evict the third, second and first block of a; its fourth was never seen."""
    world = caching_world(num_blocks=4)
    world.add("a", [1, 2, 3, 4, 5, 6, 7], 1)
    world.step()
    for number, first in enumerate((20, 30, 40)):
        world.add(f"b{number}", [first, first + 1, first + 2], 1)
        world.step()
    seq = world.add("a again", [1, 2, 3, 4, 5, 6, 7, 8], 1)
    world.run()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (0, misses(2, 0, 3, 2, 1))


def test_what_continues_an_unseen_block_is_unseen(caching_world):
    """Equal tokens after other tokens are other content."""
    world = caching_world()
    world.add("a", [1, 2, 3, 4, 5], 1)
    world.run()
    seq = world.add("b", [9, 9, 3, 4, 5], 1)
    world.run()
    assert seq.prefix_misses == misses(1, 4)


def test_block_behind_an_evicted_one_is_missed_for_that_eviction(caching_world):
    """First in, first out: step 1 evicts the first block of a; its second is still there.

    Both are missed, and both for the eviction of step 1. When the first is back, the second is hit.
    """
    world = caching_world(num_blocks=4, eviction="fifo")
    world.add("a", [1, 2, 3, 4, 5], 1)
    world.step()
    world.add("b", 5, 1)  # 3 blocks: the two empty ones and a's first
    world.step()
    seq = world.add("a again", [1, 2, 3, 4, 5], 1)
    other = world.add("a once more", [1, 2, 3, 4, 5], 1)
    world.run()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (0, misses(1, 0, 1, 1))
    assert (other.num_cached_tokens, other.prefix_misses) == (4, misses(1, 0))


def test_unseen_content_behind_an_evicted_block_is_unseen(caching_world):
    """The first block of a is evicted in step 1, what c has after it never was anywhere."""
    world = caching_world(num_blocks=2)
    world.add("a", [1, 2, 3], 1)
    world.step()
    world.add("b", 4, 1)
    world.step()
    seq = world.add("c", [1, 2, 8, 9], 1)
    world.run()
    assert seq.prefix_misses == misses(2, 0, 1)
    world = caching_world(num_blocks=3)
    world.add("a", [1, 2, 3], 1)
    world.step()
    world.add("b", 6, 1)
    world.step()
    seq = world.add("c", [1, 2, 8, 9, 10], 1)
    world.run()
    assert seq.prefix_misses == misses(1, 2, 1)


def test_content_that_is_back_is_not_evicted(caching_world):
    """a's block is evicted in step 1, back in step 2 and evicted again in step 3."""
    world = caching_world(num_blocks=2)
    for name, prompt in (
        ("a", [1, 2, 3]),
        ("b", [4, 5, 6, 7]),
        ("a2", [1, 2, 3]),
        ("b2", [4, 5, 6, 7]),
    ):
        world.add(name, prompt, 1)
        world.step()
    seq = world.add("a3", [1, 2, 3], 1)
    world.step()
    assert seq.prefix_misses == misses(1, 0, 3)


@pytest.mark.parametrize(("num_later", "expected"), [(1, misses(1, 0, 1)), (2, misses(1, 2))])
def test_evictions_are_remembered_for_a_pools_worth(caching_world, num_later, expected):
    """Pool of 2 blocks: step 1 evicts a's block, each later step evicts one more. After one more
    the eviction is among the last two, after two more it is not: of token ids, each block is a run
    of its own."""
    world = caching_world(num_blocks=2)
    world.add("a", [1, 2, 3], 1)
    world.step()
    world.add("b", [11, 12, 13], 1)
    world.step()
    for number in range(num_later):
        first = 20 + 10 * number
        world.add(f"c{number}", [first, first + 1, first + 2], 1)
        world.step()
    seq = world.add("a again", [1, 2, 3], 1)
    world.step()
    assert seq.prefix_misses == expected


def test_another_copy_of_the_content_makes_its_loss_no_eviction(caching_world):
    """Budget 2: a and b compute the same block in turns and both publish it; one copy is left."""
    world = caching_world(num_blocks=4, max_num_batched_tokens=2, long_prefill_token_threshold=1)
    one = world.add("a", [1, 2, 3], 1)
    other = world.add("b", [1, 2, 3], 1)
    assert world.run() == ["a 0+1, b 0+1", "a 1+1, b 1+1", "a 2+1, b 2+1"]
    assert one.prefix_misses == other.prefix_misses == misses(1, 2)
    world.add("c", [4, 5, 6], 1)
    world.run()
    world.add("d", [8, 9, 10], 1)  # two blocks: the empty one, and the copy released first
    world.run()
    seq = world.add("a again", [1, 2, 3], 1)
    world.run()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (2, misses(1, 0))


def test_block_that_was_never_computed_was_never_seen(caching_world):
    """Step 2 would have filled v's fifth block, but v is preempted by c in that very step."""
    world = caching_world(
        num_blocks=7,
        policy="priority",
        max_num_batched_tokens=5,
        long_prefill_token_threshold=3,
        reserve_full_isl=False,
    )
    prompt = list(range(1, 13))
    world.add("v", prompt, 1, priority=9)
    log = [world.step()]
    world.add("c", 2, 2, priority=1)
    log += [world.step(), world.step()]
    assert log == ["v 0+5", "v 5+3, c 0+2", "c 2+1 | preempted v"]
    world.cancel("v")
    seq = world.add("w", prompt, 1)
    world.step()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (8, misses(2, 2))


def test_counted_at_the_first_admission_only(caching_world):
    """b is preempted and resumes with 2 cached tokens and 5 known: what it missed stays."""
    world = caching_world(num_blocks=4)
    world.add("a", 3, 4)
    seq = world.add("b", 3, 4)
    world.step()
    first = seq.prefix_misses
    assert world.run()[-2:] == ["b 2+3", "b 5+1"]
    assert seq.num_preemptions == 1
    assert first == misses(1, 2)
    assert seq.prefix_misses is first
    assert seq.num_cached_tokens == 0


def test_counted_when_admitted_not_while_it_waits(caching_world):
    """b waits until a has ended; by then a's block is there to hit."""
    world = caching_world(max_num_seqs=1)
    world.add("a", [1, 2, 3], 2)
    seq = world.add("b", [1, 2, 3], 1)
    world.step()
    assert seq.prefix_misses is None
    world.run()
    assert (seq.num_cached_tokens, seq.prefix_misses) == (2, misses(1, 0))


def test_not_counted_without_prefix_caching(new_world):
    world = new_world()
    seq = world.add("a", 5, 1)
    world.run()
    assert seq.prefix_misses is None


def test_static_batches_count_too(caching_world):
    world = caching_world(batching="static", batch_size=1)
    seqs = [world.add(name, [1, 2, 3, 4, 5], 2) for name in "ab"]
    world.run()
    assert [seq.prefix_misses for seq in seqs] == [misses(1, 4), misses(1, 0)]


# --- at random ---


class NaiveMemory:
    """Whole token prefixes: which blocks hold them, and the evictions of those no block holds."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.prefix_of: dict[int, tuple[int, ...]] = {}
        self.evictions: list[tuple[tuple[int, ...], int]] = []

    def lose(self, block_ids: list[int], step: int) -> None:
        """Blocks are taken for something else, in this order."""
        for block_id in block_ids:
            prefix = self.prefix_of.pop(block_id, None)
            if prefix is not None and prefix not in self.prefix_of.values():
                self.evictions.append((prefix, step))

    def publish(self, block_ids: list[int], tokens: list[int]) -> None:
        for number in range(len(tokens) // BLOCK_SIZE):
            prefix = tuple(tokens[: (number + 1) * BLOCK_SIZE])
            self.prefix_of.setdefault(block_ids[number], prefix)

    def reasons(self, tokens: list[int]) -> tuple[int, list[int | None], int]:
        """Blocks hit; for each that could be but is not, the step that is to blame, None unseen;
        how many of these are behind an evicted one but there."""
        remembered = dict(self.evictions[-self.num_blocks :])
        held = set(self.prefix_of.values())
        seen = held | set(remembered)
        known = {prefix[:stop] for prefix in seen for stop in range(len(prefix) + 1)}
        num_hits = num_behind = 0
        steps: list[int | None] = []
        step: int | None = None
        for number in range((len(tokens) - 1) // BLOCK_SIZE):
            prefix = tuple(tokens[: (number + 1) * BLOCK_SIZE])
            if prefix in held and num_hits == number:
                num_hits += 1
                continue
            if prefix not in known:
                step = None
            elif prefix in held:
                num_behind += step is not None
            else:
                step = remembered.get(prefix, step)
            steps.append(step)
        return num_hits, steps, num_behind


def random_prompt(rng: random.Random) -> list[int]:
    """Few tokens, so that beginnings often agree."""
    return rng.choices([1, 2], k=rng.randint(1, 3)) + rng.choices([1, 2, 3], k=rng.randint(0, 9))


class Walk:
    """Admissions, growth in chunks and releases on a small pool, each in a step of its own.

    Every admission is told why it missed what. Chunks that go side by side make equal blocks.
    """

    def __init__(self, seed: int, eviction: str) -> None:
        self.rng = rng = random.Random(seed)
        num_blocks = rng.randint(5, 14)
        config = EngineConfig(
            block_size=BLOCK_SIZE,
            num_blocks=num_blocks,
            enable_prefix_caching=True,
            eviction=eviction,
        )
        self.kv = PagedKVManager(config, max_output_tokens)
        self.memory = NaiveMemory(num_blocks)
        self.running: list[Sequence] = []
        self.counts: Counter[str] = Counter()
        for self.step in range(250):
            self.kv.begin_step(self.step)
            rng.choice([self.admit, self.grow, self.release])()
            self.kv.check(self.running)

    def release(self) -> None:
        if self.running:
            self.kv.release(self.running.pop(self.rng.randrange(len(self.running))))

    def grow(self) -> None:
        for seq in self.running:
            num_held = len(seq.block_table.block_ids)
            num_left = seq.num_tokens - seq.num_computed_tokens
            if num_left and self.kv.grow(seq, self.rng.randint(1, num_left)):
                self.taken(seq, num_held)

    def admit(self) -> None:
        tokens = random_prompt(self.rng)
        seq = Sequence(Request(self.step, TokenPrompt(tokens), 1), BLOCK_SIZE, 100)
        prefix = self.kv.cached_prefix(seq)
        num_hits, steps, num_behind = self.memory.reasons(tokens)
        assert len(prefix) == num_hits
        num_left = len(tokens) - num_hits * BLOCK_SIZE
        if not self.kv.admit(seq, prefix, self.rng.randint(1, num_left)):
            assert seq.prefix_misses is None
            return
        evicted_at = [step for step in steps if step is not None]
        num_unseen = steps.count(None)
        num_partial = num_left - BLOCK_SIZE * len(steps)
        assert 1 <= num_partial <= BLOCK_SIZE
        assert seq.prefix_misses == misses(num_partial, num_unseen * BLOCK_SIZE, *evicted_at)
        self.running.append(seq)
        self.taken(seq, num_hits)
        self.counts["hits"] += num_hits
        self.counts["unseen"] += num_unseen
        self.counts["evicted"] += len(evicted_at)
        self.counts["behind"] += num_behind

    def taken(self, seq: Sequence, num_held: int) -> None:
        """A sequence has new blocks after the first `num_held`, and publishes what is full."""
        table = seq.block_table
        self.memory.lose(table.block_ids[num_held:], self.step)
        self.kv.publish(seq, table.num_tokens)
        self.memory.publish(table.block_ids, seq.token_ids(0, table.num_tokens))


@pytest.mark.parametrize("eviction", EVICTION)
@pytest.mark.parametrize("seed", range(16))
def test_random_walk_finds_the_reasons_that_whole_prefixes_give(seed, eviction):
    counts = Walk(seed, eviction).counts
    assert min(counts["hits"], counts["unseen"], counts["evicted"]) > 5


def test_walks_meet_blocks_behind_evicted_ones():
    """Only first in, first out makes them often: it evicts the head of a sequence first."""
    assert sum(Walk(seed, "fifo").counts["behind"] for seed in range(32)) > 5
