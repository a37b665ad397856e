"""The boundary between what keeps promises and what breaks them, along one setting."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.plan.evaluation import Evaluation, Verdict

Judge = Callable[[int], tuple[Verdict, Evaluation]]


@dataclass
class Boundary:
    """What was found along places 0, 1, 2, ..., of which those up to some keep all promises.

    kept: the last place that is shown to keep them; None: not even the first does.
    broken: the first that is shown to break one; None: not even the last does.
    """

    kept: int | None
    broken: int | None
    tried: dict[int, Evaluation] = field(default_factory=dict)


def find_boundary(
    glance: Judge, judge: Judge, num_places: int, start: int, stride: int
) -> Boundary:
    """Search outwards from a start in growing strides, then by halves.

    glance: a few runs, to see where to search. judge: as many as it takes, to decide. Places
    between `kept` and `broken` that remain are those of which the runs do not tell.
    """
    tried: dict[int, Evaluation] = {}

    def remembered(ask: Judge) -> Callable[[int], Verdict]:
        verdicts: dict[int, Verdict] = {}

        def verdict(place: int) -> Verdict:
            if place not in verdicts:
                verdicts[place], found = ask(place)
                if place not in tried or len(found.rows) > len(tried[place].rows):
                    tried[place] = found
            return verdicts[place]

        return verdict

    last, verdict = num_places - 1, remembered(judge)
    seen_low, seen_high = _bracket(remembered(glance), last, start, start, stride)
    low, high = _bracket(verdict, last, seen_low, seen_high, stride)
    # Whatever is not shown to be kept, or to be broken, counts as the contrary.
    kept = _last(lambda place: verdict(place) is Verdict.KEPT, low, high)
    above = kept if kept is not None else low
    broken = _first(lambda place: verdict(place) is Verdict.BROKEN, above, high)
    return Boundary(kept, broken, tried)


def _bracket(
    verdict: Callable[[int], Verdict], last: int, low: int, high: int, stride: int
) -> tuple[int, int]:
    """Two places between which the boundary lies, as far as there is one, from two others on."""
    low, high = (min(max(place, 0), last) for place in (low, high))
    step = stride
    while verdict(low) is not Verdict.KEPT and low > 0:
        low, step = max(low - step, 0), 2 * step
    step = stride
    while verdict(high) is not Verdict.BROKEN and high < last:
        high, step = min(high + step, last), 2 * step
    return low, high


def _last(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The last place from low to high at which it holds, if it does from low on up to there."""
    if not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _first(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The first place from low to high at which it holds, if it does from there on up to high."""
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
