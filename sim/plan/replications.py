"""Other runs of the same load: seeds, of a trace its stretches, and longer ones."""

from sim.scenario import Scenario
from sim.scenario.file import with_settings
from sim.sources import build_workload

_STRETCHES = 60  # of a trace, to be drawn from
_MOST_REQUESTS = 20_000  # of a run that is made longer


def with_replications(scenario: Scenario) -> Scenario:
    """One that another seed makes another: of a trace, stretches are drawn."""
    spec = scenario.workload
    shape = spec.shape.build() if spec.shape else None
    is_random = spec.trace is None or spec.arrivals or (shape and shape.sample < 1)
    if is_random or (shape and shape.bootstrap_s is not None):
        return scenario
    arrival_ns = build_workload(whole_trace(scenario)).arrival_ns
    if arrival_ns is None or not arrival_ns[-1]:
        return scenario
    scale = spec.shape.rate_scale if spec.shape else 1.0
    stretch_s = float(f"{arrival_ns[-1] / 1e9 * scale / _STRETCHES:.3g}")
    return with_settings(scenario, {"workload.shape.bootstrap_s": stretch_s})


def longer(scenario: Scenario, times: int) -> Scenario | None:
    """With so many times as many requests, a trace by repeating it with new content.

    Fewer times where that is more than 20,000 requests; None where it cannot be twice as many.
    """
    spec = scenario.workload
    num_requests = spec.requests or (len(build_workload(scenario)) if spec.trace else None)
    if num_requests is None or 2 * num_requests > _MOST_REQUESTS:
        return None
    times = min(times, _MOST_REQUESTS // num_requests)
    settings = {"workload.requests": times * spec.requests} if spec.requests else {}
    if spec.trace:
        repeat = spec.shape.repeat if spec.shape else 1
        settings["workload.shape.repeat"] = times * repeat
    return with_settings(scenario, settings)


def whole_trace(scenario: Scenario) -> Scenario:
    """With all of its trace, once, as it is."""
    settings = {"workload.requests": None, "workload.shape.bootstrap_s": None}
    return with_settings(scenario, settings)
