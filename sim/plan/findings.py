"""All that a plan has found, before it is told."""

from typing import Any, NamedTuple

from sim.plan.evaluate import Evaluation
from sim.plan.optimize import Looks
from sim.plan.plan import Plan
from sim.plan.prices import Prices

Labels = dict[str, Any]  # the values that make an alternative one, by key path
Beside = tuple[str, Evaluation]  # a setting as one writes it, and its runs
NEIGHBOUR_SEEDS = 4


class Findings(NamedTuple):
    """plans: the best first. looks: what was tried coarsely.

    beside: neighbours of the best, itself first; none if they are not wanted.
    prices: empty: nothing is said of costs.
    """

    plans: list[tuple[Labels, Plan]]
    looks: Looks
    beside: list[Beside]
    prices: Prices

    @property
    def best(self) -> Plan:
        """The first of the plans."""
        return self.plans[0][1]
