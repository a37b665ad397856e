"""Workloads whose requests are drawn from those of a trace, with what they share."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import accumulate, chain
from pathlib import Path

import numpy as np

from workloads.arrivals import Arrivals, ClosedLoop
from workloads.checks import COUNT_EXPECTED, LARGEST_COUNT, require_count
from workloads.content import Segment
from workloads.files import bad_file, parse_count
from workloads.limits import output_limits
from workloads.readers.csv_table import Column, CsvTable, read_csv_table
from workloads.source import read_source
from workloads.streams import stream
from workloads.workload import Int64Column, Workload, int64_column

MOST_PARTS = 60
_LEAST_IN_A_PART = 100
_SLACK = 10  # an age is near that wanted within one part of so many


@dataclass(frozen=True, eq=False)
class SharingRows:
    """Of m requests of a trace how long they are, and what of their prompts came before.

    prompt_tokens, output_tokens: [m].
    shared_tokens: [m] the longest beginning of the prompt that an earlier request has, or 0.
    ago: [m] how many requests before it the latest of those came; 0 where there is none.
    shared_since: [m] the longest beginning that a request after that one has, less than shared.
    beginning: [m] number, from 1, of what is shared, where many requests share just that; 0 for the
        rest.
    """

    prompt_tokens: Int64Column
    output_tokens: Int64Column
    shared_tokens: Int64Column
    ago: Int64Column
    shared_since: Int64Column
    beginning: Int64Column

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def columns(self) -> list[Int64Column]:
        """All of them, in this order."""
        return [getattr(self, field.name) for field in fields(self)]

    def take(self, places: Int64Column) -> "SharingRows":
        """Some of them, perhaps some more than once."""
        return SharingRows(*(column[places] for column in self.columns))


_COUNT = Column(parse_count, COUNT_EXPECTED)
_MAYBE_NONE = Column(lambda text: parse_count(text, 0), f"an integer from 0 to {LARGEST_COUNT}")
_COLUMNS = {
    "prompt_tokens": _COUNT,
    "output_tokens": _COUNT,
    "shared_tokens": _MAYBE_NONE,
    "ago": _MAYBE_NONE,
    "shared_since": _MAYBE_NONE,
    "beginning": _MAYBE_NONE,
}


def read_sharing_rows(path: str | Path) -> SharingRows:
    """From a CSV file with these columns, plain or gzipped.

    Raises WorkloadError as `read_csv_table` does, and for rows that no request can have.
    """
    table = read_csv_table(read_source(path), _COLUMNS)
    problems = list(_problems(table))
    if problems:
        raise bad_file(path, problems)
    return SharingRows(**table.values)


def _problems(table: CsvTable) -> Iterator[str]:
    length_of: dict[int, int] = {}
    columns = (table.lines, *(table.values[name].tolist() for name in _COLUMNS))
    for line, prompt, _, shared, ago, since, beginning in zip(*columns, strict=True):
        where = f"line {line}, column"
        if shared > prompt:
            yield f"{where} shared_tokens: got {shared}, expected at most prompt_tokens ({prompt})"
        if (ago > 0) != (shared > 0):
            expected = "1 or more, as something is shared" if shared else "0, as nothing is shared"
            yield f"{where} ago: got {ago}, expected {expected}"
        if since and since >= shared:
            yield f"{where} shared_since: got {since}, expected less than shared_tokens ({shared})"
        if beginning and (known := length_of.setdefault(beginning, shared)) != shared:
            expected = f"{known}, as before of beginning {beginning}"
            yield f"{where} shared_tokens: got {shared}, expected {expected}"


def sharing_rows_csv(rows: SharingRows) -> str:
    """What `read_sharing_rows` reads."""
    cells = zip(*(column.tolist() for column in rows.columns), strict=True)
    return "".join(f"{','.join(map(str, line))}\n" for line in (_COLUMNS, *cells))


def resampled(
    rows: SharingRows,
    *,
    num_requests: int,
    seed: int,
    arrivals: Arrivals | ClosedLoop,
    max_new_tokens: int | None = None,
    max_model_len: int,
) -> Workload:
    """Requests that are each a row, drawn with replacement from the same part of the trace.

    Parts are up to 60, of 100 rows or more; after the last comes the first. A request copies the
    first `shared_tokens` of the prompt of an earlier one, and goes on with content of its own:

    - of the latest that has the row's `beginning`, where there is one;
    - else of one with a prompt so long, no more than `shared_since` of which a later prompt has:
      of those as many requests ago as `ago` says, give or take a tenth, the shortest, so that
      long ones are left for long copies; where there is none, the nearest in age, of equals the
      older. For the first of a `beginning` that must be its own but for `shared_since`.

    Where of as many prompts before it as there are rows none is such, the request shares nothing,
    and a note counts these.

    max_new_tokens None is the largest output there is. Content id i is what is request i's own.

    Raises WorkloadError for a number that cannot be, as `output_limits` and `stream` do.
    """
    require_count("num_requests", num_requests)
    drawn = rows.take(_places(len(rows), num_requests, stream(seed, "requests")))
    limits = output_limits(
        drawn.prompt_tokens,
        drawn.output_tokens,
        max_new_tokens=int(rows.output_tokens.max()) if max_new_tokens is None else max_new_tokens,
        max_model_len=max_model_len,
    )
    times_ns = None
    if not isinstance(arrivals, ClosedLoop):
        times_ns = arrivals.times_ns(num_requests, stream(seed, "arrivals"))
    prompts = _Prompts(drawn, len(rows))
    return Workload(
        arrival_ns=times_ns,
        closed_loop=arrivals if isinstance(arrivals, ClosedLoop) else None,
        prompt_tokens=drawn.prompt_tokens,
        output_tokens=drawn.output_tokens,
        max_new_tokens=limits.max_new_tokens,
        segment_offsets=int64_column(accumulate(map(len, prompts.contents), initial=0)),
        segment_ids=int64_column(content_id for content_id, _ in chain(*prompts.contents)),
        segment_tokens=int64_column(tokens for _, tokens in chain(*prompts.contents)),
        answer_ids=num_requests + np.arange(num_requests, dtype=np.int64),
        notes=(*_note_without(prompts.num_without), *limits.notes),
    )


def _places(num_rows: int, num_requests: int, rng: np.random.Generator) -> Int64Column:
    """[n] of each request a row of the same part of the trace."""
    num_parts = min(max(num_rows // _LEAST_IN_A_PART, 1), MOST_PARTS)
    ends = np.arange(num_parts + 1) * num_rows // num_parts
    part = np.searchsorted(ends, np.arange(num_requests) % num_rows, side="right") - 1
    return rng.integers(ends[part], ends[part + 1])


def _note_without(num: int) -> tuple[str, ...]:
    if not num:
        return ()
    requests = "1 request" if num == 1 else f"{num} requests"
    return (f"{requests} found no earlier prompt to copy: nothing shared",)


class _Prompts:
    """The prompts of drawn rows, one after the other.

    longest_ago: how far back to look. contents: [n] segments of each. num_without: how many should
        share and do not.
    """

    def __init__(self, drawn: SharingRows, longest_ago: int) -> None:
        self._longest_ago = longest_ago
        self.contents: list[list[Segment]] = []
        self.num_without = 0
        self._lengths = drawn.prompt_tokens
        # [n] of each the longest beginning that it copied, and that a later one has.
        self._copied, self._had_later = np.zeros((2, len(drawn)), dtype=np.int64)
        self._latest: dict[int, int] = {}  # beginning -> request
        # By content id: of prompts that have it up to some token, the latest such; the further
        # up, the earlier.
        self._holders: dict[int, list[tuple[int, int]]] = {}
        columns = (column.tolist() for column in drawn.columns)
        for length, _, shared, ago, since, beginning in zip(*columns, strict=True):
            origin = self._origin(shared, ago, since, beginning) if shared else None
            self.num_without += shared > 0 and origin is None
            if origin is None:
                self._add([], length)
            else:
                self._copied[len(self.contents)] = shared
                if beginning:
                    self._latest[beginning] = len(self.contents)
                self._add(_beginning(self.contents[origin], shared), length - shared)

    def _origin(self, shared: int, ago: int, since: int, beginning: int) -> int | None:
        """Which request the next one copies: see `resampled`."""
        if beginning in self._latest:
            return self._latest[beginning]
        request = len(self.contents)
        wanted, slack = request - ago, ago // _SLACK
        of_an_age = slice(max(wanted - slack, 0), max(wanted + slack + 1, 0))
        near = self._able(of_an_age, shared, since, beginning)
        if len(near):
            return int(near[self._lengths[near].argmin()])
        able = self._able(
            slice(max(request - self._longest_ago, 0), request), shared, since, beginning
        )
        return int(able[np.abs(able - wanted).argmin()]) if len(able) else None

    def _able(self, places: slice, shared: int, since: int, beginning: int) -> Int64Column:
        """Which of these requests can be copied."""
        is_able = (self._lengths[places] >= shared) & (self._had_later[places] <= since)
        if beginning:
            is_able &= self._copied[places] <= since
        able: Int64Column = places.start + np.flatnonzero(is_able)
        return able

    def _add(self, begin: list[Segment], num_own: int) -> None:
        request, end = len(self.contents), 0
        content = [*begin, (request, num_own)] if num_own else begin
        self.contents.append(content)
        for content_id, tokens in content:
            end += tokens
            holders = self._holders.setdefault(content_id, [])
            for earlier, its_end in holders:
                later = max(int(self._had_later[earlier]), min(its_end, end))
                self._had_later[earlier] = later
            while holders and holders[-1][1] <= end:
                holders.pop()
            holders.append((request, end))


def _beginning(content: list[Segment], num_tokens: int) -> list[Segment]:
    """The first so many tokens, of which there are enough."""
    begin: list[Segment] = []
    for content_id, tokens in content:
        if num_tokens <= 0:
            break
        begin.append((content_id, min(tokens, num_tokens)))
        num_tokens -= tokens
    return begin
