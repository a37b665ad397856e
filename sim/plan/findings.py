"""All that a plan has found, before it is told."""

from typing import Any, NamedTuple

from sim.plan.evaluation import Evaluation
from sim.plan.plan import Plan
from sim.plan.prices import Prices
from sim.scenario import Scenario

Labels = dict[str, Any]  # the values that make an alternative one, by key path
Impossible = tuple[Labels, str]  # and why it cannot be
Beside = tuple[str, Evaluation]  # a setting as one writes it, and its runs
NEIGHBOUR_SEEDS = 4


class Look(NamedTuple):
    """A combination, searched coarsely.

    labels: its settings. scenario: at `value`.
    value: the highest, or lowest, that keeps all promises in the mean of few runs; else one at
        which it would be as good as the best so far, and breaks one (is_kept).
    merit: see `sim.plan.plan.merit`; -inf where it is not known. ratio: of the promise used most.
    """

    labels: Labels
    scenario: Scenario
    value: float
    is_kept: bool
    merit: float
    ratio: float


class Findings(NamedTuple):
    """plans: the best first. looks: what was tried coarsely. impossible: what cannot be.

    beside: neighbours of the best, itself first; none if they are not wanted.
    prices: empty: nothing is said of costs.
    """

    plans: list[tuple[Labels, Plan]]
    looks: list[Look]
    impossible: list[Impossible]
    beside: list[Beside]
    prices: Prices

    @property
    def best(self) -> Plan:
        """The first of the plans."""
        return self.plans[0][1]
