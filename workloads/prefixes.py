"""What sessions begin with and share: the system prompt of a group, documents of a collection."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workloads.checks import problem, require_between, require_count
from workloads.errors import WorkloadError
from workloads.lengths import Lengths
from workloads.streams import stream
from workloads.workload import Int64Column

MOST_DOCUMENTS = 64  # of a session


@dataclass(frozen=True)
class SharedPrefix:
    """Groups of sessions that begin with the same system prompt, one prompt per group.

    groups: number of groups. tokens: length of a group's system prompt, drawn once per group.
    zipf: a session belongs to group number k, from 1, with a probability that goes as k**-zipf
        (Zipf's law); 0: to each with equal probability.

    Raises WorkloadError for fewer than one group, and an exponent that is not from 0 to 10.
    """

    groups: int
    tokens: Lengths
    zipf: float = 0.0

    def __post_init__(self) -> None:
        require_count("groups", self.groups)
        require_between("zipf", self.zipf, 0, 10)


@dataclass(frozen=True)
class Documents:
    """A collection of which each session is given some different ones, after its system prompt.

    collection: documents there are. per_session: how many a session is given, in the order in
        which they are drawn. tokens: length of a document, drawn once for each. zipf: number k,
        from 1, of those not drawn yet is drawn with a probability that goes as k**-zipf.

    Raises WorkloadError for a collection below 2, for more than half of it or MOST_DOCUMENTS per
    session, and an exponent that is not from 0 to 2.
    """

    collection: int
    per_session: int
    tokens: Lengths
    zipf: float = 0.0

    def __post_init__(self) -> None:
        require_count("collection", self.collection)
        require_count("per_session", self.per_session)
        most = min(self.collection // 2, MOST_DOCUMENTS)
        if self.per_session > most:
            expected = f"at most {most}, half of the collection or {MOST_DOCUMENTS}"
            raise WorkloadError(problem("per_session", self.per_session, expected))
        require_between("zipf", self.zipf, 0, 2)


class Prefixes(NamedTuple):
    """What the prompts of each session begin with.

    ids, tokens: [sessions, parts] content id, from 0 to num_contents - 1, and length of each part.
    """

    ids: Int64Column
    tokens: Int64Column
    num_contents: int


def draw_prefixes(
    shared: SharedPrefix | None, documents: Documents | None, num_sessions: int, seed: int
) -> Prefixes:
    """System prompts and documents of so many sessions; content ids of groups come first."""
    ids: list[Int64Column] = []
    tokens: list[Int64Column] = []
    num_contents = 0
    if shared is not None:
        of_group = shared.tokens.sample(shared.groups, stream(seed, "group lengths"))
        popularity = _Popularity(shared.groups, shared.zipf)
        groups = popularity.draw(num_sessions, stream(seed, "groups"))
        ids.append(groups)
        tokens.append(of_group[groups])
        num_contents = shared.groups
    if documents is not None:
        of_document = documents.tokens.sample(
            documents.collection, stream(seed, "document lengths")
        )
        for drawn in _different(documents, num_sessions, stream(seed, "documents")).T:
            ids.append(num_contents + drawn)
            tokens.append(of_document[drawn])
        num_contents += documents.collection
    if not ids:
        nothing = np.zeros((num_sessions, 0), dtype=np.int64)
        return Prefixes(nothing, nothing, 0)
    return Prefixes(np.column_stack(ids), np.column_stack(tokens), num_contents)


class _Popularity:
    """Numbers from 0 to num - 1, each drawn by Zipf's law."""

    def __init__(self, num: int, zipf: float) -> None:
        self._num = num
        self._ends = np.cumsum(np.arange(1, num + 1, dtype=np.float64) ** -zipf) if zipf else None

    def draw(self, size: int, rng: np.random.Generator) -> Int64Column:
        """[size] of them."""
        if self._ends is None:
            return rng.integers(self._num, size=size, dtype=np.int64)
        draws = rng.random(size) * self._ends[-1]
        numbers: Int64Column = np.searchsorted(self._ends[:-1], draws, side="right")
        return numbers


def _different(documents: Documents, num_sessions: int, rng: np.random.Generator) -> Int64Column:
    """[sessions, per_session] one after the other; who has drawn one before draws again."""
    popularity = _Popularity(documents.collection, documents.zipf)
    drawn = np.full((num_sessions, documents.per_session), -1, dtype=np.int64)
    for place in range(documents.per_session):
        again: npt.NDArray[np.int64] = np.arange(num_sessions)
        while len(again):
            new = popularity.draw(len(again), rng)
            drawn[again, place] = new
            again = again[(drawn[again, :place] == new[:, None]).any(axis=1)]
    return drawn
