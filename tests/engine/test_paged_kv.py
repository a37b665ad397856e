"""The paged KV manager: all or nothing, sharing, and a ledger that adds up."""

import pickle
import random
from collections.abc import Iterable

import pytest

from engine.config import EngineConfig
from engine.kv_manager import KVUsage
from engine.paged_kv import PagedKVManager
from engine.request import Request, TokenPrompt
from engine.sequence import Sequence

BLOCK_SIZE = 4


def manager(
    num_blocks: int, *, caching: bool = True, block_size: int = BLOCK_SIZE
) -> PagedKVManager:
    config = EngineConfig(
        block_size=block_size, num_blocks=num_blocks, enable_prefix_caching=caching
    )
    return PagedKVManager(config, max_output_tokens)


def max_output_tokens(seq: Sequence) -> int:
    """Nobody knows more."""
    return seq.max_output_tokens


def sequence(prompt: list[int], *, block_size: int = BLOCK_SIZE) -> Sequence:
    return Sequence(Request("r", TokenPrompt(prompt), 100), block_size, 1000)


def say(seq: Sequence, token_ids: list[int]) -> None:
    """Output tokens have come."""
    seq.output_token_ids += token_ids
    seq.num_output_tokens += len(token_ids)


def tokens(num_tokens: int, first: int = 0) -> list[int]:
    return list(range(first, first + num_tokens))


def admit(kv: PagedKVManager, seq: Sequence, num_tokens: int | None = None, **room: int) -> bool:
    """Admit with the cached prefix; publish at once. num_tokens None: all that are left."""
    prefix = kv.cached_prefix(seq)
    if num_tokens is None:
        num_tokens = seq.num_tokens - len(prefix) * BLOCK_SIZE
    done = kv.admit(seq, prefix, num_tokens, **room)
    if done:
        kv.publish(seq, seq.num_computed_tokens)
    return done


def state(*parts: object) -> bytes:
    """Everything there is to know, to see whether anything changed.

    What a sequence keeps of the runs it was asked for last does not count.
    """
    for part in parts:
        if isinstance(part, Sequence):
            part.block_runs(1, 1)
    return pickle.dumps(parts)


def usage(kv: PagedKVManager) -> dict[str, int]:
    """The ledger without its zeros."""
    return {kind: slots for kind, slots in kv.usage()._asdict().items() if slots}


# --- all or nothing ---


def test_failed_admission_changes_nothing():
    """Two blocks are free and the cached one is hit, three are needed besides."""
    kv = manager(5)
    one, other = sequence(tokens(9)), sequence(tokens(4) + tokens(13, first=50))
    assert admit(kv, one)
    before = state(kv, one, other)
    assert not admit(kv, other)
    assert state(kv, one, other) == before


def test_failed_growth_changes_nothing():
    """One block is free, growth by 8 needs two."""
    kv = manager(4)
    one, other = sequence(tokens(7)), sequence(tokens(4, first=50))
    assert admit(kv, one)
    assert admit(kv, other)
    before = state(kv, one, other)
    assert not kv.grow(one, 8)
    assert state(kv, one, other) == before


def test_growth_that_fits_after_a_failed_one_is_given():
    kv = manager(2)
    seq = sequence(tokens(7))
    assert admit(kv, seq)
    assert not kv.grow(seq, 2)
    assert kv.grow(seq, 1)
    assert seq.block_table.block_ids == [0, 1]


def test_revived_blocks_count_as_needed():
    """Pool of 3: two cached blocks are hit, one is held by another; a third new one is not there.

    Counting only what is not cached, 1 block, against the 2 free ones would let it in.
    """
    kv = manager(3)
    gone, other, back = sequence(tokens(8)), sequence(tokens(4, first=50)), sequence(tokens(12))
    assert admit(kv, gone)
    kv.release(gone)
    assert admit(kv, other)
    assert kv.num_free_blocks == 2
    assert len(kv.cached_prefix(back)) == 2
    assert not admit(kv, back)


def test_shared_blocks_of_running_sequences_do_not_count_as_needed():
    """Pool of 3: a hit on the two blocks that another runs on leaves only one to take."""
    kv = manager(3)
    one, other = sequence(tokens(8)), sequence(tokens(12))
    assert admit(kv, one)
    assert admit(kv, other)
    assert kv.num_free_blocks == 0


def test_fit_tokens_must_fit_but_are_not_taken():
    kv = manager(4)
    seq = sequence(tokens(20))
    assert not admit(kv, seq, 4, fit_tokens=17)
    assert admit(kv, seq, 4, fit_tokens=16)
    assert kv.num_free_blocks == 3


def test_watermark_blocks_stay_free():
    kv = manager(4)
    seq = sequence(tokens(8))
    assert not admit(kv, seq, watermark_blocks=3)
    assert admit(kv, seq, watermark_blocks=2)


def test_reserved_tokens_are_taken():
    kv = manager(4)
    seq = sequence(tokens(3))
    assert not admit(kv, seq, reserve_tokens=17)
    assert admit(kv, seq, reserve_tokens=13)
    assert (kv.num_free_blocks, seq.num_computed_tokens) == (0, 3)


# --- sharing ---


def test_sharing_takes_fewer_blocks():
    """Two prompts of 9 tokens with 8 in common: 3 + 1 blocks with sharing, 3 + 3 without."""
    free = {}
    for caching in (True, False):
        kv = manager(10, caching=caching)
        assert admit(kv, sequence(tokens(9)))
        assert admit(kv, sequence([*tokens(8), 99]))
        free[caching] = kv.num_free_blocks
    assert free == {True: 6, False: 4}


def test_shared_blocks_are_the_same_blocks():
    kv = manager(10)
    one, other = sequence(tokens(9)), sequence([*tokens(8), 99])
    admit(kv, one)
    admit(kv, other)
    assert (one.block_table.block_ids, other.block_table.block_ids) == ([0, 1, 2], [0, 1, 3])
    assert kv.num_shared_blocks == 2


def test_fully_cached_aligned_prompt_recomputes_its_last_block():
    """8 tokens in 2 cached blocks: only the first is hit, since a step must yield logits."""
    kv = manager(10)
    one, same = sequence(tokens(8)), sequence(tokens(8))
    admit(kv, one)
    assert kv.cached_prefix(same) == [0]
    admit(kv, same)
    assert same.block_table.block_ids == [0, 2]


def test_one_token_more_than_the_cached_blocks_hits_them_all():
    kv = manager(10)
    admit(kv, sequence(tokens(8)))
    assert kv.cached_prefix(sequence(tokens(9))) == [0, 1]


def test_partly_filled_block_is_not_shared():
    kv = manager(10)
    admit(kv, sequence(tokens(7)))
    assert kv.cached_prefix(sequence(tokens(9))) == [0]


def test_generated_tokens_are_shared_too():
    """A prompt of 3 and an answer of 5 are the first 8 tokens of the next turn."""
    kv = manager(10)
    seq = sequence([1, 2, 3])
    admit(kv, seq)
    say(seq, [4, 5, 6, 7, 8])
    kv.grow(seq, 5)
    kv.publish(seq, seq.num_computed_tokens)
    assert kv.cached_prefix(sequence(tokens(9, first=1))) == [0, 1]


def test_released_content_can_be_hit_until_it_is_evicted():
    """Of two cached blocks the tail is evicted first, for a new sequence of one block."""
    kv = manager(2)
    gone = sequence(tokens(8))
    admit(kv, gone)
    kv.release(gone)
    assert kv.cached_prefix(sequence(tokens(9))) == [0, 1]
    admit(kv, sequence(tokens(3, first=50)))
    assert kv.cached_prefix(sequence(tokens(9))) == [0]


def test_nothing_is_shared_without_prefix_caching():
    kv = manager(4, caching=False)
    seq = sequence(tokens(8))
    admit(kv, seq)
    assert kv.cached_prefix(sequence(tokens(9))) == []
    kv.release(seq)
    assert usage(kv) == {"free": 16}


# --- publishing that is put off ---


def put_off(kv: PagedKVManager, seq: Sequence) -> bool:
    """Publish when asked for, and wait to be asked again."""

    def catch_up(seq: Sequence) -> None:
        kv.publish(seq, seq.num_computed_tokens)
        put_off(kv, seq)

    return kv.defer_publishing(seq, catch_up)


def test_what_is_put_off_is_published_when_another_may_hit_it():
    """8 tokens are published; 8 more and then 5 more are put off. Whoever has another beginning
    changes nothing; one of the same tokens hits every full block."""
    kv = manager(10)
    seq = sequence(tokens(21))
    admit(kv, seq, 8)
    assert put_off(kv, seq)
    num_published = 2
    for num_tokens, num_full in ((8, 4), (5, 5)):
        kv.grow(seq, num_tokens)
        assert kv.cached_prefix(sequence(tokens(30, first=50))) == []
        assert seq.block_table.num_published == num_published
        assert kv.cached_prefix(sequence(tokens(30))) == seq.block_table.block_ids[:num_full]
        num_published = seq.block_table.num_published
        assert num_published == num_full
        kv.check([seq])


def test_what_was_put_off_is_published_as_usual_after_resume():
    kv = manager(10)
    seq, other = sequence(tokens(20)), sequence(tokens(30))
    admit(kv, seq, 8)
    assert put_off(kv, seq)
    kv.grow(seq, 8)
    kv.resume_publishing(seq)
    assert kv.cached_prefix(other) == [0, 1]
    kv.publish(seq, 16)
    assert kv.cached_prefix(other) == [0, 1, 2, 3]
    kv.release(seq)
    kv.check([])


def test_publishing_is_not_put_off_before_a_block_is_published():
    kv = manager(10)
    seq = sequence(tokens(20))
    admit(kv, seq, 3)
    assert not put_off(kv, seq)
    kv.grow(seq, 1)
    kv.publish(seq, 4)
    assert put_off(kv, seq)


def test_only_one_of_two_that_share_their_last_block_is_put_off():
    """Both go on after block 0; when the other publishes, the first is asked and comes first."""
    kv = manager(10)
    one, other = sequence(tokens(12)), sequence(tokens(12))
    admit(kv, one, 4)
    admit(kv, other, 1)
    assert (put_off(kv, one), put_off(kv, other)) == (True, False)
    kv.grow(one, 4)
    kv.grow(other, 3)
    kv.publish(other, 8)
    assert kv.cached_prefix(sequence(tokens(12))) == one.block_table.block_ids[:2]
    kv.check([one, other])


def test_nothing_is_put_off_without_prefix_caching():
    kv = manager(10, caching=False)
    seq = sequence(tokens(20))
    admit(kv, seq)
    assert not put_off(kv, seq)
    kv.resume_publishing(seq)


# --- the ledger, worked by hand: 8 blocks of 4 slots ---


def test_ledger_of_a_growing_sequence():
    """Room for 11 tokens is reserved, 3 blocks; then it is filled, and grows by a fourth."""
    kv = manager(8, caching=False)
    seq = sequence(tokens(6))
    assert kv.admit(seq, [], 0, reserve_tokens=11)
    ledgers = [usage(kv)]
    for num_tokens in (6, 2, 1, 3, 1):
        assert kv.grow(seq, num_tokens)
        ledgers.append(usage(kv))
    assert ledgers == [
        {"reserved": 12, "free": 20},
        {"live": 6, "tail": 2, "reserved": 4, "free": 20},
        {"live": 8, "reserved": 4, "free": 20},
        {"live": 9, "tail": 3, "free": 20},
        {"live": 12, "free": 20},
        {"live": 13, "tail": 3, "free": 16},
    ]


def test_ledger_when_growth_fills_reserved_blocks_and_takes_new_ones():
    """Of 2 reserved blocks 3 slots are filled; 9 more end 4 slots into a third, new block."""
    kv = manager(8, caching=False)
    seq = sequence(tokens(3))
    kv.admit(seq, [], 3, reserve_tokens=8)
    assert usage(kv) == {"live": 3, "tail": 1, "reserved": 4, "free": 24}
    kv.grow(seq, 7)
    assert usage(kv) == {"live": 10, "tail": 2, "free": 20}


def test_ledger_counts_shared_slots_once():
    """9 + 9 tokens, 8 of them shared: 10 slots are live, 3 + 3 are tail."""
    kv = manager(8)
    one, other = sequence(tokens(9)), sequence([*tokens(8), 99])
    admit(kv, one)
    admit(kv, other)
    assert usage(kv) == {"live": 10, "tail": 6, "free": 16}
    kv.release(one)
    assert usage(kv) == {"live": 9, "tail": 3, "free": 20}
    kv.release(other)
    assert usage(kv) == {"cached": 8, "free": 24}


def test_retired_sequence_over_reserves_what_it_holds_alone():
    """Two share 2 blocks and hold 1 each; they retire and are released one after the other."""
    kv = manager(8)
    one, other = sequence(tokens(9)), sequence([*tokens(8), 99])
    admit(kv, one)
    admit(kv, other)
    ledgers = []
    for change, seq in ((kv.retire, one), (kv.retire, other), (kv.release, one)):
        change(seq)
        ledgers.append(usage(kv))
    kv.release(other)
    ledgers.append(usage(kv))
    assert ledgers == [
        {"live": 9, "tail": 3, "over_reserved": 4, "free": 16},
        {"over_reserved": 16, "free": 16},
        {"over_reserved": 12, "free": 20},
        {"cached": 8, "free": 24},
    ]


def test_releasing_a_running_sequence_leaves_its_shared_blocks_to_the_retired():
    """What the retired and the released shared becomes over-reserved."""
    kv = manager(8)
    retired, running = sequence(tokens(9)), sequence([*tokens(8), 99])
    admit(kv, retired)
    admit(kv, running)
    kv.retire(retired)
    kv.release(running)
    assert usage(kv) == {"over_reserved": 12, "free": 20}


def test_sharing_a_retired_sequences_block_makes_it_live_again():
    kv = manager(8)
    retired, newcomer = sequence(tokens(9)), sequence([*tokens(8), 99])
    admit(kv, retired)
    kv.retire(retired)
    assert usage(kv) == {"over_reserved": 12, "free": 20}
    admit(kv, newcomer)
    assert usage(kv) == {"live": 9, "tail": 3, "over_reserved": 4, "free": 16}


# --- check finds what is wrong ---


DAMAGE = {
    "a holder is missing": lambda kv, one, other: kv.check([one]),
    "a holder too many": lambda kv, one, other: kv.check([one, other, other]),
    "a slot is lost": lambda kv, one, other: setattr(one.block_table, "num_tokens", 8),
    "published, unknown": lambda kv, one, other: setattr(one.block_table, "num_published", 1),
    "tail before head": lambda kv, one, other: one.block_table.block_ids.reverse(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_check_finds_damage(damage):
    kv = manager(8)
    one, other = sequence(tokens(9)), sequence([*tokens(8), 99])
    admit(kv, one)
    admit(kv, other)
    kv.check([one, other])
    with pytest.raises(AssertionError):
        damage(kv, one, other)
        kv.check([one, other])


# --- all of it at random ---


class Walk:
    """Random operations on a small pool, and books of them that are kept independently."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.caching = seed % 4 != 0
        self.block_size = self.rng.randint(1, 5)
        self.num_blocks = self.rng.randint(2, 12)
        self.kv = manager(self.num_blocks, caching=self.caching, block_size=self.block_size)
        self.running: list[Sequence] = []
        self.retired: list[Sequence] = []
        self.published: set[int] = set()
        self.num_failed = 0

    def step(self) -> None:
        operations = [self.admit]
        if self.running:
            operations += [self.grow, self.publish, self.retire]
        if self.running or self.retired:
            operations.append(self.release)
        self.rng.choice(operations)()

    def admit(self) -> None:
        rng = self.rng
        seq = sequence(rng.choices([1, 2], k=rng.randint(1, 12)), block_size=self.block_size)
        before = state(self.kv, self.running, self.retired, seq)
        prefix = self.kv.cached_prefix(seq)
        done = self.kv.admit(
            seq,
            prefix,
            rng.randint(0, seq.num_tokens - len(prefix) * self.block_size),
            reserve_tokens=rng.choice([0, rng.randint(0, 20)]),
            fit_tokens=rng.choice([0, rng.randint(0, 20)]),
            watermark_blocks=rng.choice([0, 0, 1]),
        )
        if done:
            self.running.append(seq)
            self.published -= set(seq.block_table.block_ids[len(prefix) :])
        else:
            assert state(self.kv, self.running, self.retired, seq) == before
            self.num_failed += 1

    def grow(self) -> None:
        seq = self.rng.choice(self.running)
        num_tokens = self.rng.randint(1, 7)
        num_unknown = max(seq.num_computed_tokens + num_tokens - seq.num_tokens, 0)
        say(seq, self.rng.choices([1, 2], k=num_unknown))
        num_held = len(seq.block_table.block_ids)
        before = state(self.kv, self.running, self.retired)
        if self.kv.grow(seq, num_tokens):
            self.published -= set(seq.block_table.block_ids[num_held:])
        else:
            assert state(self.kv, self.running, self.retired) == before
            self.num_failed += 1

    def publish(self) -> None:
        seq = self.rng.choice(self.running)
        self.kv.publish(seq, seq.num_computed_tokens)
        if self.caching:
            num_full = seq.block_table.num_tokens // self.block_size
            self.published |= set(seq.block_table.block_ids[:num_full])

    def retire(self) -> None:
        seq = self.running.pop(self.rng.randrange(len(self.running)))
        self.kv.retire(seq)
        self.retired.append(seq)

    def release(self) -> None:
        group = self.rng.choice([group for group in (self.running, self.retired) if group])
        self.kv.release(group.pop(self.rng.randrange(len(group))))

    def ledger(self) -> KVUsage:
        """What each slot is, slot by slot, from the tables and the books alone."""
        kinds = dict.fromkeys(self.slots(range(self.num_blocks)), "free")
        kinds |= dict.fromkeys(self.slots(self.published), "cached")
        for seq in self.retired:
            kinds |= dict.fromkeys(self.slots(seq.block_table.block_ids), "over_reserved")
        for seq in self.running:
            kinds |= dict.fromkeys(self.slots(seq.block_table.block_ids), "empty")
        for seq in self.running:
            slots = self.slots(seq.block_table.block_ids)
            num_filled = seq.num_computed_tokens
            num_partly = -num_filled % self.block_size
            kinds |= dict.fromkeys(slots[:num_filled], "live")
            kinds |= dict.fromkeys(slots[num_filled : num_filled + num_partly], "tail")
            kinds |= dict.fromkeys(slots[num_filled + num_partly :], "reserved")
        counted = list(kinds.values())
        return KVUsage(**{kind: counted.count(kind) for kind in KVUsage._fields})

    def num_saved_slots(self) -> int:
        """Slots of all tables, less those of them that are different slots."""
        slots = [
            slot
            for seq in self.running + self.retired
            for slot in self.slots(seq.block_table.block_ids)
        ]
        return len(slots) - len(set(slots))

    def slots(self, block_ids: Iterable[int]) -> list[tuple[int, int]]:
        return [(block_id, offset) for block_id in block_ids for offset in range(self.block_size)]


@pytest.mark.parametrize("seed", range(24))
def test_random_walk_is_all_or_nothing_and_the_ledger_adds_up(seed):
    """After every operation the ledger is what counting slots gives; at the end all is back.

    And so is what sharing saves.
    """
    walk = Walk(seed)
    for _ in range(250):
        walk.step()
        walk.kv.check(walk.running + walk.retired)
        assert walk.kv.usage() == walk.ledger()
        assert walk.kv.num_saved_slots == walk.num_saved_slots()
        assert sum(walk.kv.usage()) == walk.num_blocks * walk.block_size
    assert walk.num_failed > 5
    while walk.running or walk.retired:
        walk.release()
    walk.kv.check([])
    assert walk.kv.num_free_blocks == walk.num_blocks
