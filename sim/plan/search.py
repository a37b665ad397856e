"""The boundary between what keeps promises and what breaks them, along one setting."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.plan.evaluation import Evaluation, Verdict

Judge = Callable[[int], tuple[Verdict, Evaluation]]


@dataclass
class Boundary:
    """What was found along places 0, 1, 2, ..., of which those up to some keep all promises.

    kept: the last place that is shown to keep them; None: not even the first does.
    broken: the first that is shown to break one; None: not even the last does, or none is kept.
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
    glanced, start = remembered(glance), min(max(start, 0), last)
    low = _lower(verdict, _lower(glanced, start, stride), stride)
    if verdict(low) is not Verdict.KEPT:
        return Boundary(None, None, tried)
    high = _higher(verdict, _higher(glanced, max(start, low), stride, last), stride, last)
    # Whatever is not shown to be kept, or to be broken, counts as the contrary.
    kept = _last(lambda place: verdict(place) is Verdict.KEPT, low, high)
    broken = _first(lambda place: verdict(place) is Verdict.BROKEN, kept, high)
    return Boundary(kept, broken, tried)


def _lower(verdict: Callable[[int], Verdict], place: int, stride: int) -> int:
    """A place from here downwards that keeps all promises, as far as there is one."""
    while verdict(place) is not Verdict.KEPT and place > 0:
        place, stride = max(place - stride, 0), 2 * stride
    return place


def _higher(verdict: Callable[[int], Verdict], place: int, stride: int, last: int) -> int:
    """A place from here upwards that breaks a promise, as far as there is one."""
    while verdict(place) is not Verdict.BROKEN and place < last:
        place, stride = min(place + stride, last), 2 * stride
    return place


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last place from low, where it does, to high at which it holds."""
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
