"""Which sequence is on which track."""

import heapq

from engine.sequence import Sequence


class Slots:
    """Places of running sequences: each takes the lowest that is free, and keeps it."""

    def __init__(self) -> None:
        self._of: dict[Sequence, int] = {}
        self._free: list[int] = []
        self._num_made = 0

    def take(self, seq: Sequence) -> int:
        """Give a sequence a slot."""
        if not self._free:
            heapq.heappush(self._free, self._num_made)
            self._num_made += 1
        self._of[seq] = slot = heapq.heappop(self._free)
        return slot

    def give_back(self, seq: Sequence) -> int:
        """Take the slot of a sequence back, and say which."""
        slot = self._of.pop(seq)
        heapq.heappush(self._free, slot)
        return slot

    def __contains__(self, seq: Sequence) -> bool:
        return seq in self._of

    def __getitem__(self, seq: Sequence) -> int:
        return self._of[seq]
