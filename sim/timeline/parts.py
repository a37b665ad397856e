"""What a timeline is made of, before it is written. Times are whole nanoseconds."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

STEPS = 0  # the track of the steps; slot n has track n + 1


@dataclass
class Slice:
    """A stretch on a track of a replica.

    name: with {} for the number of steps, where it is made of several.
    depth: 1 where it lies in another one on its track.
    ends_ns: of each of its steps; the last one is its end. Empty while it is open.
    """

    replica: int
    track: int
    name: str
    start_ns: int
    args: dict[str, Any]
    ends_ns: list[int] = field(default_factory=list)
    depth: int = 0


@dataclass
class Wait:
    """From an arrival to the admission, or from a preemption to the resumption.

    waits_ns: time for each reason, in order of their first appearance. end_ns: None while it lasts.
    """

    replica: int
    what: str
    request: str
    start_ns: int
    waits_ns: dict[str, int]
    end_ns: int | None = None


class Flow(NamedTuple):
    """An arrow from a preemption to the resumption."""

    replica: int
    start_track: int
    start_ns: int
    end_track: int
    end_ns: int
    request: str


class Count(NamedTuple):
    """What is counted has other values from now on."""

    replica: int
    name: str
    time_ns: int
    values: dict[str, int]


class Instant(NamedTuple):
    """Something that takes no time, of those who wait."""

    replica: int
    name: str
    time_ns: int
    args: dict[str, Any]


@dataclass
class Parts:
    """All of them, each list in the order in which they became known."""

    slices: list[Slice] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)

    @property
    def num_events(self) -> int:
        """Events that they are in a file, but for the names of tracks."""
        pairs = len(self.waits) + len(self.flows)
        return len(self.slices) + len(self.counts) + len(self.instants) + 2 * pairs
