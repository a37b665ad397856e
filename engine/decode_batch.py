"""Sequences that decode in every step, kept so that a step costs only what changes in it."""

import heapq
from collections import defaultdict

from engine.sequence import Sequence

_NOBODY: dict[int, Sequence] = {}


class DecodeBatch:
    """Running sequences of which each step computes one more token, until one of them leaves.

    Members stand together by phase, the place of their next token in its block: a step looks only
    at those that begin a block and, of those that publish their blocks, at those that fill one. A
    member's counts of tokens stand still meanwhile; they follow from the number of steps when it
    leaves.

    lead: a member's computed tokens less `num_steps`, fixed while it is a member.
    size: number of members.
    num_steps: steps scheduled so far. num_committed: of them, those whose tokens were taken.
    """

    def __init__(self, block_size: int) -> None:
        self.num_steps = 0
        self.num_committed = 0
        self._block_size = block_size
        self._by_phase: defaultdict[int, dict[int, Sequence]] = defaultdict(dict)  # by place
        self._publishers: defaultdict[int, dict[int, Sequence]] = defaultdict(dict)
        self.size = 0
        self._sum_leads = 0
        self._num_new: dict[int, int] = {}  # first step of members -> how many there are of it

    @property
    def context_tokens(self) -> int:
        """Tokens that all members together attend to in the next step."""
        return self._sum_leads + self.size * (self.num_steps + 1)

    def join(self, seq: Sequence) -> None:
        """A sequence decodes in every step from the next on."""
        seq.lead = lead = seq.block_table.num_tokens - self.num_steps
        seq.first_step = self.num_steps
        self._by_phase[lead % self._block_size][seq.place] = seq
        self.size += 1
        self._sum_leads += lead
        self._num_new[self.num_steps] = self._num_new.get(self.num_steps, 0) + 1

    def leave(self, seq: Sequence) -> int:
        """A member does not go on; bring its counts up to date.

        Returns how many of its tokens are in flight that it got as a member.
        """
        lead, first_step = seq.lead, seq.first_step
        assert lead is not None
        self.stop_publishing(seq)
        seq.lead = None
        del self._by_phase[lead % self._block_size][seq.place]
        self.size -= 1
        self._sum_leads -= lead
        if first_step in self._num_new:
            self._num_new[first_step] -= 1
        num_in_flight = self.num_steps - max(self.num_committed, first_step)
        seq.block_table.num_tokens = lead + self.num_steps
        seq.num_output_tokens += self.num_steps - first_step - num_in_flight
        seq.num_placeholders += num_in_flight
        return num_in_flight

    def beginning(self, step: int) -> dict[int, Sequence]:
        """Members whose token of a step begins a block, by place."""
        return self._by_phase.get(-step % self._block_size, _NOBODY)

    @property
    def has_publishers(self) -> bool:
        """Whether any member publishes its blocks."""
        return any(self._publishers.values())

    def filling(self, step: int) -> list[Sequence]:
        """Members that publish their blocks and whose token of a step fills one, in order."""
        group = self._publishers.get((-step - 1) % self._block_size, _NOBODY)
        return [group[place] for place in sorted(group)]

    def start_publishing(self, seq: Sequence) -> None:
        """A member publishes its blocks from now on."""
        assert seq.lead is not None
        self._publishers[seq.lead % self._block_size][seq.place] = seq

    def stop_publishing(self, seq: Sequence) -> None:
        """A member's blocks are published in another way from now on."""
        assert seq.lead is not None
        self._publishers[seq.lead % self._block_size].pop(seq.place, None)

    def beginning_ahead(self, num_steps: int) -> tuple[list[int], list[Sequence], list[int]]:
        """How many members begin a block in each of the next steps, who, and in which of them.

        One step after the other, within a step in running order.
        """
        counts: list[int] = []
        seqs: list[Sequence] = []
        steps: list[int] = []
        for step in range(self.num_steps, self.num_steps + num_steps):
            group = self.beginning(step)
            counts.append(len(group))
            if group:
                seqs += [group[place] for place in sorted(group)]
                steps += [step] * len(group)
        return counts, seqs, steps

    def steps_within(self, num_blocks: int, most: int) -> int:
        """How many of the next `most` steps so many blocks are enough for."""
        # Every member begins one block in block_size steps.
        num_rounds = num_blocks // self.size
        num_steps = num_rounds * self._block_size
        num_blocks -= num_rounds * self.size
        while num_steps < most:
            num_blocks -= len(self.beginning(self.num_steps + num_steps))
            if num_blocks < 0:
                return num_steps
            num_steps += 1
        return most

    def commit(self, step: int) -> int:
        """The tokens of a step are taken; returns how many members got one."""
        self.num_committed = step + 1
        num_later = 0
        for first_step, count in list(self._num_new.items()):
            if first_step > step:
                num_later += count
            if first_step <= step + 1:
                del self._num_new[first_step]
        return self.size - num_later

    def members(self) -> list[Sequence]:
        """All of them, in running order."""
        members = {place: seq for group in self._by_phase.values() for place, seq in group.items()}
        return [members[place] for place in sorted(members)]

    def check(self) -> list[Sequence]:
        """Prove the totals, and bring the tables of all members up to date; returns them."""
        members = self.members()
        assert self.size == len(members)
        assert self._sum_leads == sum(seq.lead or 0 for seq in members)
        for seq in members:
            assert seq.lead is not None
            seq.block_table.num_tokens = seq.lead + self.num_steps
        return members


class Deadlines:
    """Members of a decode batch by the step at which something is due.

    A member that has left, or has missed a step since (its lead tells), is forgotten.
    """

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._seqs: dict[_Entry, Sequence] = {}

    def add(self, step: int, seq: Sequence) -> None:
        """Something is due for a member, unless it misses a step until then."""
        assert seq.lead is not None
        entry = (step, seq.place, seq.lead)
        if entry not in self._seqs:
            self._seqs[entry] = seq
            heapq.heappush(self._heap, entry)

    def next_step(self) -> int | None:
        """The first step at which something is due for a member."""
        while self._heap:
            entry = self._heap[0]
            seq = self._seqs[entry]
            if entry[2] == seq.lead and entry[1] == seq.place:
                return entry[0]
            del self._seqs[heapq.heappop(self._heap)]
        return None

    def due(self, step: int) -> list[Sequence]:
        """Take the members for which something is due at a step or was before, in running order."""
        seqs = []
        while self._heap and self._heap[0][0] <= step:
            entry = heapq.heappop(self._heap)
            seq = self._seqs.pop(entry)
            if entry[2] == seq.lead and entry[1] == seq.place:
                seqs.append(seq)
        return seqs


_Entry = tuple[int, int, int]  # (step, place, lead)
