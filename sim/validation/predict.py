"""Simulates the points of a case and scores them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from engine.kv_manager import HELD
from sim.errors import UserError
from sim.parallel import over_cores
from sim.records import Records
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.simulate import serve, simulate
from sim.validation.case import Point
from sim.validation.score import Scored, score

_SYSTEM = "default"
_LIMITED = 1.5  # TTFT beyond so many times that with endless memory: the KV cache is the limit


def predict(point: Point, latency: dict[str, Any]) -> Scored:
    """Simulate a point with step times as a scenario's key `latency` says.

    Raises UserError where they do not cover the point, or no request is served.
    """
    scenario = with_latency(point.scenario, latency)
    records = _run(point, scenario)
    if not records.requests["finished_ns"].notna().any():
        raise UserError(f"none of the requests is served; {records.first_refusal}")
    return score(point, records, is_kv_limited=_is_kv_limited(point, scenario, records))


def with_latency(scenario: Scenario, latency: dict[str, Any]) -> Scenario:
    """The same scenario with other step times."""
    data = scenario.model_dump(mode="json", exclude_none=True)
    return Scenario.parse({**data, "latency": latency})


def _run(point: Point, scenario: Scenario) -> Records:
    if point.workload is None:
        return simulate(scenario, _SYSTEM)
    return serve(scenario, _SYSTEM, point.workload)


def _is_kv_limited(point: Point, scenario: Scenario, records: Records) -> bool:
    """Whether TTFT would be much shorter with endless memory; asked where the pool got full."""
    num_slots = build_config(scenario, _SYSTEM).num_slots
    held = records.steps[list(HELD)].sum(axis=1)
    if held.max() < 0.9 * num_slots:
        return False
    data = scenario.model_dump(mode="json", exclude_none=True)
    data["engine"]["num_blocks"] = 10_000_000
    endless = _run(point, Scenario.parse(data))
    return _mean_ttft_ns(records) > _LIMITED * _mean_ttft_ns(endless)


def _mean_ttft_ns(records: Records) -> float:
    requests = records.requests
    return float((requests["first_token_ns"] - requests["arrival_ns"]).mean())


def predict_all(
    points: list[Point],
    latency: dict[str, Any],
    on_progress: Callable[[float], None] = lambda _: None,
) -> list[Scored | UserError]:
    """All points over the cores; a UserError in place of one that is not covered.

    on_progress: told how many more points are done.
    """
    outcomes: dict[int, Scored | UserError] = {}
    for place, outcome in over_cores(partial(_predict, latency), points):
        on_progress(1)
        outcomes[place] = outcome
    return [outcomes[place] for place in range(len(points))]


def _predict(latency: dict[str, Any], point: Point) -> Scored | UserError:
    try:
        return predict(point, latency)
    except UserError as error:
        return error
