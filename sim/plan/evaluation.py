"""What runs of a configuration say of its promises."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from sim.metrics import Row, half_width

RATIO = "ratio "  # before the name of a promise, of the columns that say how far it is used up

_FAR = 1.5


class Verdict(Enum):
    """Whether promises are kept, as far as the runs tell."""

    KEPT = "kept"
    BROKEN = "broken"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Evaluation:
    """A configuration after some runs.

    rows: of each seed the metrics of `measure`, `kept_share`, a ratio for each promise, `steady`:
        whether enough requests end while others come, and `falls_back`: whether the whole run
        counts, for too few of them end after the warm-up.
    """

    rows: tuple[Row, ...]
    names: tuple[str, ...]

    def interval(self, metric: str) -> tuple[float, float]:
        """Mean and half-width of the 95 % interval; nan for one seed, inf where any is."""
        return self._interval(metric, 0.95)

    def _interval(self, metric: str, confidence: float) -> tuple[float, float]:
        values = np.array([row[metric] for row in self.rows], dtype=np.float64)
        mean = float(values.mean())
        if not np.isfinite(mean):
            return mean, 0.0
        width = half_width(values, confidence)
        return mean, np.nan if width is None else width

    def less(self, other: "Evaluation", metric: str) -> tuple[float, float]:
        """Mean difference to another under the same seeds, and half-width of its 95 % interval.

        Both nan where one is infinite.
        """
        pairs = zip(self.rows, other.rows, strict=True)
        values = np.array([[one[metric], two[metric]] for one, two in pairs], dtype=np.float64)
        if not np.isfinite(values).all():
            return np.nan, np.nan
        differences = values[:, 0] - values[:, 1]
        width = half_width(differences, 0.95)
        return float(differences.mean()), np.nan if width is None else width

    def verdict(self, confidence: float) -> Verdict:
        """Kept if the whole interval of each ratio is up to 1; broken if one's is above it.

        Nothing is shown to be kept by runs that are over before they are steady: a load that could
        not be served for long keeps its promises for a moment. confidence: of each interval.
        """
        intervals = [self._interval(RATIO + name, confidence) for name in self.names]
        if any(mean - width > 1 or np.isinf(mean) for mean, width in intervals):
            return Verdict.BROKEN
        if self.is_steady and all(mean + width <= 1 for mean, width in intervals):
            return Verdict.KEPT
        return Verdict.UNSURE

    @property
    def is_steady(self) -> bool:
        """Whether enough requests end while others come, in every run."""
        return all(row["steady"] for row in self.rows)

    @property
    def num_requests(self) -> int:
        """That are counted, of all runs."""
        return sum(int(row["requests"] or 0) for row in self.rows)

    @property
    def num_refused(self) -> int:
        """Of `num_requests`."""
        return sum(int(row["refused"] or 0) for row in self.rows)

    @property
    def is_far(self) -> bool:
        """Whether in every run all promises are kept, or one is broken, by half of the limit."""
        most = [max(float(row[RATIO + name] or 0) for name in self.names) for row in self.rows]
        return max(most) <= 1 / _FAR or min(most) >= _FAR

    @property
    def worst(self) -> tuple[str, float]:
        """The promise that is used up most, and how far."""
        ratios = {name: self.interval(RATIO + name)[0] for name in self.names}
        name = max(ratios, key=ratios.__getitem__)
        return name, ratios[name]
