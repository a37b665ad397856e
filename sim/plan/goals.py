"""What a plan looks for: a setting, its values from the easiest on, and what it is called."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.errors import UserError
from sim.plan.replications import whole_trace, with_replications
from sim.scenario import ConstantSpec, FittedSpec, LinearSpec, Scenario
from sim.scenario.deployed import build_config, build_kv_size
from sim.scenario.engine import engine_config
from sim.scenario.file import with_settings
from sim.sources import build_workload

FINDS = ("rate", "concurrency", "replicas", "num_blocks")
_RATED = ("constant", "poisson", "gamma", "weibull", "diurnal")  # whose only rate is `rate`
_STEP = 1.02  # from one value of a geometric row to the next
_MOST_BLOCKS = 4_000_000
_MOST_REPLICAS = 256


@dataclass(frozen=True)
class Goal:
    """One setting to find.

    is_highest: whether the highest value that keeps the promises is wanted, else the lowest.
    values: from the one that keeps them most easily on. start: a place among them. stride: of the
        first steps away from it.
    apply: the scenario with one of the values. first: of the first value, why there is none before.
    """

    name: str
    unit: str
    is_highest: bool
    values: tuple[float, ...]
    start: int
    stride: int
    apply: Callable[[float], Scenario]
    first: str = ""

    @property
    def noun(self) -> str:
        """What it is in a sentence."""
        return self.name if self.is_highest else f"number of {self.unit}"

    @property
    def heading(self) -> str:
        """Of a column or an axis."""
        return self.name if self.name == self.unit else f"{self.name}, {self.unit}"

    def plain(self, value: float) -> float:
        """A whole number but for rates."""
        return value if self.name == "rate" else int(value)

    def words(self, place: int) -> str:
        """A value with its unit."""
        value = self.values[place]
        text = f"{value:,.3g}" if value < 1000 and self.name == "rate" else f"{value:,.0f}"
        unit = self.unit.removesuffix("s") if value == 1 and self.name != "rate" else self.unit
        return f"{text} {unit}"


def find_goal(scenario: Scenario, name: str, system: str) -> Goal:
    """Raises UserError for a name that is none, and for a scenario that has no such setting."""
    if name == "rate":
        return _rate_goal(scenario)
    if name == "concurrency":
        return _concurrency_goal(scenario)
    if name == "num_blocks":
        return _blocks_goal(scenario, system)
    if name == "replicas":
        return _replicas_goal(scenario)
    raise UserError(f"--find: got {name!r}, expected one of {', '.join(FINDS)}")


def prepared(scenario: Scenario, find: str, rate: float | None) -> Scenario:
    """Ready to be searched: `with_replications`, and with so many requests, or sessions, a second.

    rate: None: as many as it has. Raises UserError for one where the load itself is to be found.
    """
    if rate is not None:
        if find in ("rate", "concurrency"):
            raise UserError(f"--rate: got one with --find {find}, expected none")
        scenario = _rate_goal(scenario).apply(rate)
    return with_replications(scenario)


def _rate_goal(scenario: Scenario) -> Goal:
    spec = scenario.workload
    key, base, now = "", 1.0, 1.0
    if spec.arrivals is not None:
        kind = next(name for name, value in spec.arrivals if value is not None)
        if kind not in _RATED:
            raise UserError(
                f"workload.arrivals: got {kind}, expected one of {', '.join(_RATED)} to find a rate"
            )
        key, now = f"workload.arrivals.{kind}.rate", spec.arrivals.choice.rate
    elif spec.trace is not None:
        key, base = "workload.shape.rate_scale", _trace_rate(scenario)
        now = base * (spec.shape.rate_scale if spec.shape else 1.0)
    else:
        raise UserError("workload: got a mix without arrivals, expected them to find a rate")
    values = _row(1e-4, 1e5)

    def setting(rate: float) -> float:
        return float(f"{rate / base:.6g}")

    return Goal(
        name="rate",
        unit="requests/s" if build_workload(scenario).previous is None else "sessions/s",
        is_highest=True,
        values=values,
        start=_nearest(values, now),
        stride=18,
        apply=lambda rate: with_settings(scenario, {key: setting(rate)}),
    )


def _trace_rate(scenario: Scenario) -> float:
    """Of the trace as it is, sessions or requests per second."""
    spec = scenario.workload
    workload = build_workload(whole_trace(scenario))
    scale = spec.shape.rate_scale if spec.shape else 1.0
    if workload.arrival_ns is None:
        raise UserError(f"{spec.trace}: has no times, expected workload.arrivals to find a rate")
    times_ns = workload.arrival_ns[workload.first_of_sessions]
    if len(times_ns) < 2 or times_ns[-1] == times_ns[0]:
        raise UserError(f"{spec.trace}: all requests come at once, expected a rate to begin with")
    return float((len(times_ns) - 1) / ((times_ns[-1] - times_ns[0]) / 1e9) / scale)


def _concurrency_goal(scenario: Scenario) -> Goal:
    arrivals = scenario.workload.arrivals
    if arrivals is None or arrivals.closed_loop is None:
        raise UserError("workload.arrivals: expected a closed_loop to find a concurrency")
    key = "workload.arrivals.closed_loop.concurrency"
    values = _integers(1, len(build_workload(scenario)))  # more users would find nothing to send
    return Goal(
        name="concurrency",
        unit="users",
        is_highest=True,
        values=values,
        start=_nearest(values, arrivals.closed_loop.concurrency),
        stride=16,
        apply=lambda users: with_settings(scenario, {key: int(users)}),
    )


def _blocks_goal(scenario: Scenario, system: str) -> Goal:
    key = ("systems", system, "num_blocks")
    most = _most_blocks(scenario, system)
    values = tuple(reversed(_integers(1, most or _MOST_BLOCKS)))
    return Goal(
        name="num_blocks",
        unit="blocks",
        is_highest=False,
        values=values,
        start=_nearest(values, build_config(scenario, system).num_blocks),
        stride=35,
        apply=lambda blocks: with_settings(scenario, {key: int(blocks)}),
        first=", all that the GPU holds," if most else "",
    )


def _most_blocks(scenario: Scenario, system: str) -> int | None:
    """What a GPU has room for; None where step times are of no GPU in particular."""
    if isinstance(scenario.latency, ConstantSpec | LinearSpec | FittedSpec):
        return None
    # The longest request decides no room; a pool too small for it is not what is asked here.
    least = engine_config({**scenario.engine_settings(system), "num_blocks": 1}).block_size
    auto = {("systems", system, "num_blocks"): "auto", "engine.max_model_len": least}
    return build_kv_size(with_settings(scenario, auto), system).num_blocks


def _replicas_goal(scenario: Scenario) -> Goal:
    key = "replicas.count"
    values = tuple(float(count) for count in range(_MOST_REPLICAS, 0, -1))
    return Goal(
        name="replicas",
        unit="replicas",
        is_highest=False,
        values=values,
        start=_nearest(values, scenario.replicas.count),
        stride=1,
        apply=lambda count: with_settings(scenario, {key: int(count)}),
    )


def _row(low: float, high: float) -> tuple[float, ...]:
    """Values of three digits, each about 2 % above the one before."""
    values: dict[float, None] = {}
    value = low
    while value < high:
        values.setdefault(float(f"{value:.3g}"))
        value *= _STEP
    return tuple(values)


def _integers(low: int, high: int) -> tuple[float, ...]:
    """From one to the other, both included."""
    values = (float(round(value)) for value in _row(low, high + 1))
    return tuple(dict.fromkeys([*(value for value in values if value < high), float(high)]))


def _nearest(values: tuple[float, ...], value: float) -> int:
    return min(range(len(values)), key=lambda place: abs(values[place] - value))
