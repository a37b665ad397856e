"""What runs of a configuration say of its promises."""

import math
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from sim.metrics import Row, half_width, half_width_95
from sim.scenario import Scenario

# Before the name of a promise, columns that say how far it is used up, and, of each request, by how
# large a share of them it is broken.
RATIO, BROKEN = "ratio ", "broken "

_MOST_GROWTH = 0.03  # of the requests that are sent, of which so many more are served at the end
_FAR = 1.5  # of the limit, or by so much below it: chance seldom takes both runs as far


class Verdict(Enum):
    """Whether promises are kept, as far as the runs tell."""

    KEPT = "kept"
    BROKEN = "broken"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Evaluation:
    """A configuration after some runs.

    rows: of each seed the metrics of `measure`, `kept_share`, a ratio for each promise,
        `enough_end`: whether ten requests end while others come, and `growth_share`: by how much
        the number of those that are served, or wait, rises in the measured time, as a share of
        those that are sent.
    confidence: of the intervals by which a verdict is given.
    scenario: of the runs but for their seeds.
    """

    rows: tuple[Row, ...]
    names: tuple[str, ...]
    confidence: float = 0.95
    scenario: Scenario = field(kw_only=True)

    def interval(self, metric: str) -> tuple[float, float]:
        """Mean and half-width of the 95 % interval; nan for one seed, inf where any is."""
        return self._interval(metric, 0.95)

    def mean(self, metric: str) -> float:
        """Over the seeds."""
        return self.interval(metric)[0]

    def less(self, other: "Evaluation", metric: str) -> tuple[float, float]:
        """Mean difference under the same seeds, and the half-width of its 95 % interval.

        nan where either is infinite.
        """
        pairs = zip(self.rows, other.rows, strict=True)
        values = np.array([(one[metric], two[metric]) for one, two in pairs], dtype=np.float64)
        if not np.isfinite(values).all():
            return np.nan, np.nan
        width = half_width_95(values[:, 0] - values[:, 1])
        return float((values[:, 0] - values[:, 1]).mean()), np.nan if width is None else width

    def used(self, name: str) -> tuple[float, float]:
        """How far a promise is used up, and the half-width of the interval that decides on it."""
        return self._interval(RATIO + name, self.confidence)

    def _interval(self, metric: str, confidence: float) -> tuple[float, float]:
        values = np.array([row[metric] for row in self.rows], dtype=np.float64)
        mean = float(values.mean())
        if not np.isfinite(mean):
            return mean, 0.0
        width = half_width(values, confidence)
        return mean, np.nan if width is None else width

    @property
    def verdict(self) -> Verdict:
        """Kept if the whole interval of each ratio is up to 1; broken if one's is above it.

        Any of the promises may be the broken one, so those intervals are wider (Bonferroni).
        Nothing is shown to be kept by runs that are over before they are steady: a load that could
        not be served for long keeps its promises for a moment.
        """
        if any(self._is_broken(name) for name in self.names):
            return Verdict.BROKEN
        if self.is_steady and all(sum(self.used(name)) <= 1 for name in self.names):
            return Verdict.KEPT
        return Verdict.UNSURE

    def _is_broken(self, name: str) -> bool:
        confidence = 1 - (1 - self.confidence) / len(self.names)
        mean, width = self._interval(RATIO + name, confidence)
        return mean - width > 1 or np.isinf(mean)

    @property
    def glance_verdict(self) -> Verdict:
        """Kept, or broken, if each run keeps all promises, or breaks one, by half of the limit."""
        most = [max(float(row[RATIO + name] or 0) for name in self.names) for row in self.rows]
        if min(most) >= _FAR:
            return Verdict.BROKEN
        return Verdict.KEPT if self.is_steady and max(most) <= 1 / _FAR else Verdict.UNSURE

    @property
    def is_steady(self) -> bool:
        """Whether as many requests end as come: else a load beyond all limits keeps promises, for
        as long as its queue is short.
        """
        return self.do_enough_end and self.growth_share <= _MOST_GROWTH

    @property
    def times_longer(self) -> int:
        """How many times as long runs may be steady, if the load can be served at all."""
        return max(2, math.ceil(self.growth_share / _MOST_GROWTH))

    @property
    def do_enough_end(self) -> bool:
        """While others come, in every run."""
        return all(row["enough_end"] for row in self.rows)

    @property
    def growth_share(self) -> float:
        """See `rows`, in the mean of all."""
        return self.mean("growth_share")

    @property
    def num_requests(self) -> int:
        """That are counted, of all runs."""
        return sum(int(row["requests"] or 0) for row in self.rows)

    @property
    def num_refused(self) -> int:
        """Of `num_requests`."""
        return sum(int(row["refused"] or 0) for row in self.rows)

    @property
    def is_broken_by_refusals(self) -> bool:
        """Whether these make the worst promise what it is.

        Their times are infinite, and so is a mean or percentile that they reach; of a promise of
        each request they are more than half of those that break it.
        """
        if " of " not in self.worst[0]:
            return bool(np.isinf(self.worst[1]))
        return 2 * self.num_refused > max(self.broken_shares.values()) * self.num_requests

    @property
    def broken_shares(self) -> dict[str, float]:
        """Of each promise of each request, the share of requests that break it."""
        names = [key for key in self.rows[0] if key.startswith(BROKEN)]
        return {name.removeprefix(BROKEN): self.mean(name) for name in names}

    @property
    def worst(self) -> tuple[str, float]:
        """The promise that is used up most, and how far."""
        ratios = {name: self.mean(RATIO + name) for name in self.names}
        name = max(ratios, key=ratios.__getitem__)
        return name, ratios[name]
