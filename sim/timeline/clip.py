"""Cuts a timeline to a window."""

from bisect import bisect_left
from dataclasses import replace

from sim.timeline.parts import Count, Parts, Slice, Wait


def clipped(parts: Parts, start_ns: int, end_ns: int) -> Parts:
    """What of a timeline lies in a window. What is open ends with it."""
    return Parts(
        slices=[cut for part in parts.slices if (cut := _slice(part, start_ns, end_ns))],
        waits=[left for wait in parts.waits if (left := _wait(wait, start_ns, end_ns))],
        flows=[flow for flow in parts.flows if start_ns <= flow.start_ns and flow.end_ns < end_ns],
        counts=_counts(parts.counts, start_ns, end_ns),
        instants=[one for one in parts.instants if start_ns <= one.time_ns < end_ns],
    )


def _slice(part: Slice, start_ns: int, end_ns: int) -> Slice | None:
    """A slice of several steps has only those that lie in the window, in part or as a whole."""
    if part.start_ns >= end_ns or (part.ends_ns and part.ends_ns[-1] <= start_ns):
        return None
    if part.start_ns >= start_ns and part.ends_ns and part.ends_ns[-1] <= end_ns:
        return part
    first = bisect_left(part.ends_ns, start_ns + 1)
    stop = bisect_left(part.ends_ns, end_ns)
    ends_ns = part.ends_ns[first:stop]
    if stop < len(part.ends_ns) or not part.ends_ns:
        ends_ns = [*ends_ns, end_ns]
    return replace(part, start_ns=max(part.start_ns, start_ns), ends_ns=ends_ns)


def _wait(wait: Wait, start_ns: int, end_ns: int) -> Wait | None:
    until_ns = end_ns if wait.end_ns is None else min(wait.end_ns, end_ns)
    if wait.start_ns >= end_ns or until_ns < start_ns:
        return None
    if wait.start_ns >= start_ns and wait.end_ns == until_ns:
        return wait
    return replace(wait, start_ns=max(wait.start_ns, start_ns), end_ns=until_ns)


def _counts(counts: list[Count], start_ns: int, end_ns: int) -> list[Count]:
    """Those in the window; what held as it began is told at its beginning."""
    before: dict[tuple[int, str], Count] = {}
    within = []
    for count in counts:
        if count.time_ns <= start_ns:
            before[count.replica, count.name] = count._replace(time_ns=start_ns)
        elif count.time_ns < end_ns:
            within.append(count)
    return [*before.values(), *within]
