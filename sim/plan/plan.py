"""A plan: the boundary along one setting, what binds there, and what stands beside it."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sim.errors import UserError
from sim.plan.evaluate import Evaluator
from sim.plan.evaluation import Evaluation, Verdict
from sim.plan.goals import Goal
from sim.plan.limits import binding
from sim.plan.prices import Prices, price_of
from sim.plan.search import Boundary, find_boundary
from sim.scenario import Scenario
from sim.simulate import serve
from sim.sources import build_workload

_LONG_WARMUP = 0.9  # of what is measured after it; the rule takes half of a run at most
_MUCH_RISE = 0.1


@dataclass(frozen=True)
class Plan:
    """What was found of one configuration.

    scenario: as it is at the answer, or where it comes nearest to one.
    """

    scenario: Scenario
    system: str
    goal: Goal
    boundary: Boundary

    def __repr__(self) -> str:
        kept, noun = self.boundary.kept, self.goal.noun
        if kept is None:
            return f"<Plan of {self.system}: no {noun} keeps every promise>"
        which = "highest" if self.goal.is_highest else "lowest"
        answer = self.goal.words(kept)
        return f"<Plan of {self.system}: {which} {noun} that keeps every promise: {answer}>"

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return num_gpus(self.scenario)

    @cached_property
    def first_refusal(self) -> str | None:
        """Why the first request is refused, found by one more run; None: none is."""
        workload = build_workload(self.scenario)
        return serve(self.scenario, self.system, workload).first_refusal

    def merit(self, prices: Prices) -> float:
        """See `merit`; -inf without an answer."""
        if self.answer is None:
            return -float("inf")
        return merit(self.goal, self.answer, self.scenario, self.system, prices)

    @property
    def answer(self) -> float | None:
        """The value that keeps all promises; None: none does."""
        kept = self.boundary.kept
        return None if kept is None else self.goal.values[kept]

    @property
    def at_answer(self) -> Evaluation:
        """The runs at the answer, or of the easiest value."""
        kept = self.boundary.kept
        return self.boundary.tried[min(self.boundary.tried) if kept is None else kept]

    @property
    def beyond(self) -> Evaluation | None:
        """The runs of the first value that breaks a promise."""
        return None if self.boundary.broken is None else self.boundary.tried[self.boundary.broken]

    @property
    def constraint(self) -> str:
        """What binds at the first value that breaks a promise."""
        if self.beyond is None:
            return "none of the values that were tried breaks a promise"
        name, ratio = self.beyond.worst
        if self.beyond.is_broken_by_refusals:
            refused, num_requests = self.beyond.num_refused, self.beyond.num_requests
            return f"{refused} of {num_requests} requests are refused, which breaks {name}"
        broken = self.beyond.broken_shares
        cause = max(broken, key=broken.__getitem__) if " of " in name else name
        return f"{name} comes to {ratio:.3g} of its limit; {binding(self.beyond.mean, cause)}"

    def cost_per_million_tokens(self, prices: Prices) -> float | None:
        """Output tokens, at the answer; None where nothing comes out, or no price is known."""
        per_s = self.at_answer.interval("output_tokens_per_s")[0]
        cost = cost_per_hour(self.scenario, prices)
        return None if cost is None or not per_s > 0 else cost / 3600 / per_s * 1e6

    @property
    def _ends_unsteady(self) -> bool:
        """Whether next to the answer it is the length of the runs that does not tell."""
        beyond = [place for place in self.boundary.tried if place > (self.boundary.kept or 0)]
        if not beyond:
            return False
        next_to_it = self.boundary.tried[min(beyond)]
        return next_to_it.verdict is Verdict.UNSURE and not next_to_it.is_steady

    @property
    def doubts(self) -> list[str]:
        """Why another answer may be the right one, in words; none without an answer."""
        if self.answer is None:
            return []
        rows, found = self.at_answer.rows, []
        if self._ends_unsteady:
            found.append("beyond the answer runs are over before they are steady")
        if num_whole := sum(bool(row["fell_back"]) for row in rows):
            found.append(
                f"in {num_whole} of {len(rows)} runs too few requests are sent or end while others "
                "come, so the whole run counts"
            )
        if all(
            float(row["warmup_s"] or 0) > _LONG_WARMUP * float(row["measured_s"] or 0)
            for row in rows
        ):
            found.append("the warm-up takes much of the runs")
        rise = self.at_answer.interval("load_rise")[0] - 1
        if rise > _MUCH_RISE:
            found.append(f"the load still rises, by {rise:.0%} from one half to the other")
        return [f"{doubt}; more workload.requests may change the answer" for doubt in found]

    def curve(self) -> pd.DataFrame:
        """A row for each run: the value, the seed, metrics, and a ratio for each promise."""
        rows = [
            {self.goal.name: self.goal.values[place], "seed": self.scenario.seed + number, **row}
            for place, evaluation in sorted(self.boundary.tried.items())
            for number, row in enumerate(evaluation.rows)
        ]
        return pd.DataFrame(rows)

    @property
    def is_closed_loop(self) -> bool:
        """Whether the throughput is up to the system, not to the load."""
        arrivals = self.scenario.workload.arrivals
        return arrivals is not None and arrivals.closed_loop is not None


def which_system(scenario: Scenario, name: str | None) -> str:
    """The only system, or the one of this name. Raises UserError for any other."""
    if name is None and len(scenario.systems) == 1:
        return next(iter(scenario.systems))
    if name not in scenario.systems:
        got = "none" if name is None else repr(name)
        raise UserError(f"--system: got {got}, expected one of {', '.join(scenario.systems)}")
    return name


def num_gpus(scenario: Scenario) -> int:
    """Of all replicas."""
    return scenario.deployment.tensor_parallel_size * scenario.replicas.count


def cost_per_hour(scenario: Scenario, prices: Prices) -> float | None:
    """Of all GPUs; None where no price is known."""
    price = price_of(prices, scenario.hardware)
    return None if price is None else price * num_gpus(scenario)


def merit(goal: Goal, value: float, scenario: Scenario, system: str, prices: Prices) -> float:
    """What alternatives are ranked by, more is better; see `ranked_by`.

    scenario: as it is at the value. prices: of the GPUs of all alternatives, or none.
    """
    gpus = num_gpus(scenario)
    cost = cost_per_hour(scenario, prices) or gpus
    if goal.is_highest:
        return value / cost
    if goal.name == "replicas":
        return float(-cost)
    block_size: int = scenario.engine_settings(system)["block_size"]
    return float(-value * block_size * gpus)


def ranked_by(goal: Goal, prices: Prices) -> str:
    """What `merit` is, in words."""
    if goal.is_highest:
        return f"{goal.unit} {'for the cost of an hour' if prices else 'a GPU'}"
    if goal.name == "replicas":
        return "the cost of an hour" if prices else "GPUs"
    return "tokens that the pools of all GPUs hold"


def make_plan(goal: Goal, evaluator: Evaluator) -> Plan:
    """Search along the goal. Raises UserError and WorkloadError as `Evaluator.judge` does."""
    boundary = find_boundary(
        lambda place: evaluator.glance(goal.apply(goal.values[place])),
        lambda place: evaluator.judge(goal.apply(goal.values[place])),
        len(goal.values),
        goal.start,
        goal.stride,
    )
    place = min(boundary.tried) if boundary.kept is None else boundary.kept
    return Plan(
        scenario=boundary.tried[place].scenario,
        system=evaluator.system,
        goal=goal,
        boundary=boundary,
    )
