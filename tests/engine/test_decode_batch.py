"""Sequences that decode together, by hand and against counting each of them in every step."""

import random

import pytest

from engine.decode_batch import Deadlines, DecodeBatch
from engine.request import Request, TokenPrompt
from engine.sequence import Sequence

BLOCK_SIZE = 4


def sequence(place: int, num_computed: int) -> Sequence:
    """One that runs, with so many tokens computed, all of them known; its first output is there."""
    seq = Sequence(Request(place, TokenPrompt([0] * num_computed), 1000), BLOCK_SIZE, 2000)
    seq.place = place
    seq.block_table.num_tokens = num_computed
    seq.num_output_tokens = 1
    return seq


def batch_of(*sizes: int) -> tuple[DecodeBatch, list[Sequence]]:
    """A batch of sequences with so many tokens computed, their places in this order."""
    batch = DecodeBatch(BLOCK_SIZE)
    seqs = [sequence(place, num_computed) for place, num_computed in enumerate(sizes)]
    for seq in seqs:
        batch.join(seq)
        batch.start_publishing(seq)
    return batch, seqs


def step(batch: DecodeBatch) -> int:
    """Schedule a step and take its tokens; returns how many."""
    batch.num_steps += 1
    return batch.commit(batch.num_steps - 1)


def counts(seq: Sequence) -> tuple[int, int, int]:
    """Tokens computed, output tokens, tokens in flight."""
    return seq.num_computed_tokens, seq.num_output_tokens, seq.num_placeholders


def test_context_is_that_of_all_members_with_the_token_they_feed():
    """5 and 8 tokens: contexts 6 and 9; then 7 and 10; then the second alone."""
    batch, (one, _) = batch_of(5, 8)
    contexts = [batch.context_tokens]
    step(batch)
    contexts.append(batch.context_tokens)
    batch.leave(one)
    contexts.append(batch.context_tokens)
    assert contexts == [15, 17, 10]
    assert batch.size == 1


def test_member_that_leaves_has_the_counts_of_its_steps():
    batch, (seq, _) = batch_of(5, 8)
    assert [step(batch) for _ in range(3)] == [2, 2, 2]
    assert counts(seq) == (5, 1, 0)
    assert batch.leave(seq) == 0
    assert counts(seq) == (8, 4, 0)
    assert seq.lead is None


def test_member_that_leaves_at_once_is_as_it_was():
    batch, (seq,) = batch_of(5)
    assert batch.leave(seq) == 0
    assert counts(seq) == (5, 1, 0)
    assert (batch.size, batch.context_tokens) == (0, 0)


def test_token_in_flight_is_on_its_way_when_a_member_leaves():
    """Two steps are taken, a third is scheduled."""
    batch, (seq,) = batch_of(5)
    step(batch)
    step(batch)
    batch.num_steps += 1
    assert batch.leave(seq) == 1
    assert counts(seq) == (8, 3, 1)


def test_member_that_joined_for_the_step_in_flight_gets_no_token_of_the_one_before():
    """As with asynchronous scheduling: step 1 is scheduled, then the tokens of step 0 are taken."""
    batch, _ = batch_of(5)
    batch.num_steps = 1
    late = sequence(7, 2)
    batch.join(late)
    batch.num_steps = 2
    assert batch.commit(0) == 1
    assert batch.commit(1) == 2
    assert batch.leave(late) == 0
    assert counts(late) == (3, 2, 0)


def test_member_that_joined_and_left_before_its_first_token_came_is_not_counted():
    batch, _ = batch_of(5)
    batch.num_steps = 1
    late = sequence(7, 2)
    batch.join(late)
    batch.num_steps = 2
    assert batch.leave(late) == 1
    assert (batch.commit(0), batch.commit(1)) == (1, 1)
    assert counts(late) == (3, 1, 1)


def test_blocks_are_begun_and_filled_by_phase():
    """Blocks of 4. With 4, 6 and 7 tokens the next go to offsets 0, 2 and 3 of their blocks."""
    batch, seqs = batch_of(4, 6, 7)
    log = []
    for index in range(4):
        log.append((list(batch.beginning(index)), [seq.place for seq in batch.filling(index)]))
        step(batch)
    assert log == [([0], [2]), ([2], [1]), ([1], []), ([], [0])]
    assert batch.beginning(4) == {0: seqs[0]}


def test_steps_ahead_begin_the_same_blocks():
    batch, (one, two, three) = batch_of(4, 6, 7)
    assert batch.beginning_ahead(0) == ([], [], [])
    assert batch.beginning_ahead(5) == ([1, 1, 1, 0, 1], [one, three, two, one], [0, 1, 2, 4])
    step(batch)
    assert batch.beginning_ahead(2) == ([1, 1], [three, two], [1, 2])


def test_only_members_that_publish_fill_blocks():
    """Three fill one at once; the last, which joined first, then lets others publish for it."""
    batch = DecodeBatch(BLOCK_SIZE)
    seqs = [sequence(place, 7) for place in range(4)]
    for seq in reversed(seqs):
        batch.join(seq)
        assert batch.has_publishers == (seq.place < 3)
        if seq.place != 1:
            batch.start_publishing(seq)
            batch.start_publishing(seq)
    assert batch.filling(0) == [seqs[0], seqs[2], seqs[3]]
    batch.stop_publishing(seqs[3])
    batch.leave(seqs[0])
    assert batch.filling(0) == [seqs[2]]
    assert batch.filling(1) == []
    assert batch.leave(seqs[3]) == 0
    batch.stop_publishing(seqs[1])
    assert batch.has_publishers
    batch.leave(seqs[2])
    assert not batch.has_publishers


def test_members_are_in_running_order():
    batch = DecodeBatch(BLOCK_SIZE)
    for place, num_computed in ((5, 1), (2, 7), (9, 1), (3, 4)):
        batch.join(sequence(place, num_computed))
    assert [seq.place for seq in batch.members()] == [2, 3, 5, 9]


def test_check_brings_tables_up_to_date():
    batch, seqs = batch_of(4, 6)
    step(batch)
    assert batch.check() == seqs
    assert [seq.num_computed_tokens for seq in seqs] == [5, 7]


DAMAGE = {
    "a member too many": lambda batch, seq: batch._by_phase[0].update({9: seq}),
    "a member lost": lambda batch, seq: batch._by_phase[0].clear(),
    "another lead": lambda batch, seq: setattr(seq, "lead", 8),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_check_finds_damage(damage):
    batch, seqs = batch_of(4, 6)
    batch.check()
    damage(batch, seqs[0])
    with pytest.raises(AssertionError):
        batch.check()


class Walk:
    """A batch, and the same sequences counted one by one.

    expected: (computed, output, in flight) of each; fed: members that each step in flight feeds.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.most_in_flight = self.rng.choice([1, 2])
        self.batch = DecodeBatch(BLOCK_SIZE)
        self.num_places = 0
        self.members: list[Sequence] = []
        self.publishers: set[Sequence] = set()
        self.expected: dict[Sequence, list[int]] = {}
        self.fed: dict[int, list[Sequence]] = {}

    def turn(self) -> None:
        while self.rng.random() < 0.4:
            self.join()
        while self.members and self.rng.random() < 0.25:
            self.leave()
        if self.publishers and self.rng.random() < 0.1:
            self.stop_publishing()
        self.schedule()
        if len(self.fed) == self.most_in_flight:
            self.commit()

    def join(self) -> None:
        seq = sequence(self.num_places, self.rng.randint(1, 9))
        self.num_places += 1
        self.batch.join(seq)
        self.members.append(seq)
        if self.rng.random() < 0.6:
            self.batch.start_publishing(seq)
            self.publishers.add(seq)
        self.expected[seq] = list(counts(seq))

    def leave(self) -> None:
        seq = self.members.pop(self.rng.randrange(len(self.members)))
        self.publishers.discard(seq)
        num_in_flight = self.batch.leave(seq)
        assert list(counts(seq)) == self.expected.pop(seq)
        assert num_in_flight == seq.num_placeholders
        self.fed = {index: [s for s in fed if s is not seq] for index, fed in self.fed.items()}

    def stop_publishing(self) -> None:
        seq = self.rng.choice(sorted(self.publishers, key=lambda seq: seq.place))
        self.publishers.remove(seq)
        self.batch.stop_publishing(seq)

    def schedule(self) -> None:
        index = self.batch.num_steps
        computed = {seq: self.expected[seq][0] for seq in self.members}
        assert self.batch.context_tokens == sum(computed.values()) + len(computed)
        begin = {seq.place: seq for seq, num in computed.items() if num % BLOCK_SIZE == 0}
        assert self.batch.beginning(index) == begin
        fill = [seq for seq in self.publishers if (computed[seq] + 1) % BLOCK_SIZE == 0]
        assert self.batch.filling(index) == sorted(fill, key=lambda seq: seq.place)
        for seq in self.members:
            self.expected[seq][0] += 1
            self.expected[seq][2] += 1
        self.fed[index] = list(self.members)
        self.batch.num_steps += 1

    def commit(self) -> None:
        index = min(self.fed)
        fed = self.fed.pop(index)
        assert self.batch.commit(index) == len(fed)
        for seq in fed:
            self.expected[seq][1] += 1
            self.expected[seq][2] -= 1


@pytest.mark.parametrize("seed", range(30))
def test_random_walk_counts_like_one_by_one(seed):
    walk = Walk(seed)
    for _ in range(120):
        walk.turn()
        assert walk.batch.size == len(walk.members)
        assert walk.batch.members() == sorted(walk.members, key=lambda seq: seq.place)
        walk.batch.check()
    while walk.members:
        walk.leave()
    assert (walk.batch.size, walk.batch.members()) == (0, [])


# --- deadlines ---


def test_deadlines_come_in_order_of_steps_then_of_running():
    _, (a, b, c) = batch_of(1, 2, 3)
    deadlines = Deadlines()
    for due, seq in ((5, c), (7, a), (5, b)):
        deadlines.add(due, seq)
    assert deadlines.next_step() == 5
    assert deadlines.due(4) == []
    assert deadlines.due(5) == [b, c]
    assert deadlines.next_step() == 7
    assert deadlines.due(100) == [a]
    assert deadlines.next_step() is None


def test_same_deadline_twice_is_due_once():
    _, (seq,) = batch_of(1)
    deadlines = Deadlines()
    deadlines.add(5, seq)
    deadlines.add(5, seq)
    assert deadlines.due(5) == [seq]
    assert deadlines.due(5) == []


def test_member_that_has_left_is_due_no_more():
    batch, (a, b) = batch_of(1, 2)
    deadlines = Deadlines()
    deadlines.add(3, a)
    deadlines.add(4, b)
    batch.leave(a)
    assert deadlines.next_step() == 4
    assert deadlines.due(4) == [b]


def test_member_that_missed_a_step_is_due_only_at_its_new_deadline():
    """It left for a step and is back: what it is due for comes a step later."""
    batch, (seq,) = batch_of(1)
    deadlines = Deadlines()
    deadlines.add(3, seq)
    batch.leave(seq)
    step(batch)
    batch.join(seq)
    deadlines.add(4, seq)
    assert deadlines.due(3) == []
    assert deadlines.due(4) == [seq]


def test_member_that_missed_no_step_keeps_its_deadline():
    """It left, got a token by itself in the same step, and is back."""
    batch, (seq,) = batch_of(1)
    deadlines = Deadlines()
    deadlines.add(3, seq)
    batch.leave(seq)
    step(batch)
    seq.block_table.num_tokens += 1
    batch.join(seq)
    deadlines.add(3, seq)
    assert deadlines.due(3) == [seq]
    assert deadlines.due(3) == []
