"""A trace against a workload that was drawn from its fit."""

from collections.abc import Iterator

from sim.trace.describe import Description, Lengths, describe
from sim.trace.fit import SHORTEST_S
from workloads import Trace, sharing_rows
from workloads.sharing import blocks_of, curve_sizes, lru, unlimited

_MUCH = 0.1
_FEWEST = 100
Line = tuple[str, str, str]  # (what, of the trace, of what was drawn)


def comparison(trace: Trace, drawn: Trace) -> Iterator[Line]:
    """What is in a trace against what was drawn, in words."""
    theirs, ours = (describe(each, None, with_sharing=False) for each in (trace, drawn))
    yield from _arrivals(theirs, ours)
    if theirs.sessions and ours.sessions:
        yield _line("turns per session", theirs.sessions.mean_turns, ours.sessions.mean_turns)
        yield _line("mean think time, s", _think_time_s(trace), _think_time_s(drawn))
    yield from _lengths("prompt", theirs.prompt_tokens, ours.prompt_tokens)
    yield from _lengths("output", theirs.output_tokens, ours.output_tokens)
    yield from _found(trace, drawn)


def misfits(lines: list[Line], num_requests: int) -> str | None:
    """What is off by more than a tenth, in words; nothing of few requests, which chance moves."""
    found: list[str] = []
    if num_requests < _FEWEST:
        return None
    for what, theirs, ours in lines:
        before, after = (_number(cell) for cell in (theirs, ours))
        if before and after is not None and abs(after / before - 1) > _MUCH:
            found.append(f"{what} {after / before - 1:+.0%}")
    return f"off by more than a tenth: {'; '.join(found)}" if found else None


def _number(cell: str) -> float | None:
    try:
        return float(cell.replace(",", "").removesuffix("%"))
    except ValueError:
        return None


def _arrivals(theirs: Description, ours: Description) -> Iterator[Line]:
    """Where the trace says when requests, or sessions, come, and not all at once."""
    before, after = theirs.arrivals, ours.arrivals
    if before is None or after is None or before.span_s < SHORTEST_S:
        return
    what = "sessions" if theirs.sessions else "requests"
    yield _line(f"{what}/s", before.rate_per_s, after.rate_per_s)
    if before.cv is not None:
        yield _line("CV of gaps", before.cv, after.cv)


def _line(what: str, theirs: float | None, ours: float | None) -> Line:
    before, after = ("-" if value is None else f"{value:.3g}" for value in (theirs, ours))
    return what, before, after


def _think_time_s(trace: Trace) -> float | None:
    """The mean of later turns."""
    assert trace.think_time_ns is not None
    assert trace.previous is not None
    times_ns = trace.think_time_ns[trace.previous >= 0]
    return float(times_ns.mean()) / 1e9 if len(times_ns) else None


def _lengths(name: str, before: Lengths, after: Lengths) -> Iterator[Line]:
    yield (f"{name} tokens, mean", f"{before.mean:,.0f}", f"{after.mean:,.0f}")
    for p, tokens in before.percentiles.items():
        yield (f"{name} tokens, p{p}", f"{tokens:,}", f"{after.percentiles[p]:,}")


def _found(trace: Trace, drawn: Trace) -> Iterator[Line]:
    """What caches find of the prompt tokens: of any size, then of some sizes in blocks."""
    before = blocks_of(trace)
    if before is None or trace.segments is None:
        return
    has_blocks = trace.segments.block_tokens > 1
    after = blocks_of(drawn, before.block_size, with_parts=has_blocks)
    assert after is not None
    totals = [int(each.prompt_tokens.sum()) for each in (trace, drawn)]
    if has_blocks:
        tokens = [unlimited(blocks).num_tokens for blocks in (before, after)]
    else:
        tokens = [int(sharing_rows(each).shared_tokens.sum()) for each in (trace, drawn)]
    if not any(tokens):
        return
    yield _shares("a cache of any size", tokens, totals)
    for size in curve_sizes(before)[1:4]:
        tokens = [lru(blocks, size).num_tokens for blocks in (before, after)]
        yield _shares(f"LRU, {size * before.block_size:,} tokens", tokens, totals)


def _shares(cache: str, tokens: list[int], totals: list[int]) -> Line:
    before, after = (f"{part / total:.1%}" for part, total in zip(tokens, totals, strict=True))
    return f"found by {cache}", before, after
