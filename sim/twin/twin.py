"""Serves a scenario twice, in real time and in simulated time, and sets the two side by side."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from threadpoolctl import threadpool_limits

from engine.engine import Engine
from sim.build import build_engine
from sim.errors import UserError
from sim.latency.fitted import Fit, Residuals, fit, residuals, total_s
from sim.latency.linear import LinearLatency
from sim.latency.timed_steps import TimedStep, measured_steps
from sim.metrics import Row, summarise
from sim.progress import Tell, tell_nobody
from sim.recorder import Recorder
from sim.records import Records
from sim.scenario import LinearSpec, Scenario
from sim.scenario.deployed import build_config
from sim.simulate import rare_garbage_collection, request_maker, simulate
from sim.sources import build_workload
from sim.twin.calibrate import time_steps
from sim.twin.live import Clock, CpuClock, LiveReplica, WallClock, senders_of


@dataclass(frozen=True)
class Twin:
    """One system of a scenario, real and simulated.

    real, simulated: the metrics of each.
    at_its_speed: those of a simulation with all step times longer, or shorter, by what the real
        steps took longer in all than the model says. What is still wrong is not the speed.
    busy_share: of the span of the real run, in steps. cpu_share: of that, with a CPU at work on it.
    fitted: what was calibrated before and after the real run, and simulated with.
    on_real_steps: how far that is from the steps that the real run took.
    drift: by what share the same steps take longer by the calibration after the run than by the
        one before: how much slower the machine has become.
    """

    system: str
    real: Row
    simulated: Row
    at_its_speed: Row
    busy_share: float
    cpu_share: float
    fitted: Fit
    on_real_steps: Residuals
    drift: float


def check_can_be_twinned(scenario: Scenario, source: str) -> None:
    """Raises UserError, naming `source`, for a scenario that has no single real run."""
    workload = scenario.workload
    problems = {
        "workload": workload.sessions is not None and "got sessions, expected none",
        "runner": scenario.runner != "toy-lm" and f"got {scenario.runner}, expected toy-lm",
        "replicas": scenario.replicas.count > 1 and f"got {scenario.replicas.count}, expected 1",
        "sweep": scenario.sweep and f"got {', '.join(scenario.sweep)}, expected none",
        "replications": scenario.replications > 1 and f"got {scenario.replications}, expected 1",
    }
    for key, problem in problems.items():
        if problem:
            raise UserError(f"{source}: {key}: {problem}: a twin is one run in real time")


def run_twin(
    scenario: Scenario, system: str, *, in_cpu_time: bool = False, tell: Tell = tell_nobody
) -> Twin:
    """Calibrate, run in real time, calibrate again, simulate.

    in_cpu_time: let the clock of the real run stand still while other processes have the CPU.
    tell: told what is done, between what is measured.

    Raises UserError when none of the requests is served, WorkloadError for a bad file.
    """
    before = time_steps(scenario, system, tell, f"{system}: calibrating, 1 of 2")
    tell(f"{system}: in real time{_at_least(scenario)}", 0.0)
    new_clock = CpuClock if in_cpu_time else WallClock
    records, timed, cpu_s = serve_live(scenario, system, new_clock)
    after = time_steps(scenario, system, tell, f"{system}: calibrating, 2 of 2")
    tell(f"{system}: simulating", 0.0)
    fitted, steps = fit(measured_steps([*before, *after])), measured_steps(timed)
    first_s, last_s = (
        total_s(fit(measured_steps(calibration)).latency, steps) for calibration in (before, after)
    )
    real, busy_s = summarise(records), float(steps.duration_s.sum())
    predicted_s = total_s(fitted.latency, steps)
    return Twin(
        system=system,
        real=real,
        simulated=_simulated(scenario, system, fitted.latency),
        at_its_speed=_simulated(scenario, system, fitted.latency.slowed(busy_s / predicted_s)),
        busy_share=busy_s / float(real["span_s"] or 1),
        cpu_share=cpu_s / busy_s,
        fitted=fitted,
        on_real_steps=residuals(fitted.latency, steps),
        drift=last_s / first_s - 1,
    )


def _at_least(scenario: Scenario) -> str:
    """How long the real run takes, where the arrivals say it: no bar can go on meanwhile."""
    arrival_ns = build_workload(scenario).arrival_ns
    return "" if arrival_ns is None else f", {arrival_ns[-1] / 1e9:.0f} s or more"


def _simulated(scenario: Scenario, system: str, latency: LinearLatency) -> Row:
    spec = LinearSpec(kind="linear", **asdict(latency))
    with threadpool_limits(1):
        return summarise(simulate(scenario.model_copy(update={"latency": spec}), system))


def serve_live(
    scenario: Scenario, system: str, new_clock: Callable[[], Clock]
) -> tuple[Records, list[TimedStep], float]:
    """Serve the scenario's workload in the time of a clock, which starts with it.

    Returns the records, the steps as they were timed, and the seconds of CPU that they had.
    Raises UserError when none of the requests is served.
    """
    workload = build_workload(scenario)
    config = build_config(scenario, system)
    engine = build_engine(scenario, config, workload)
    assert isinstance(engine, Engine)
    recorder = Recorder(
        len(workload),
        config.block_size,
        lambda _: None,
        num_outputs=workload.num_outputs,
        dates_evictions=config.enable_prefix_caching,
    )
    with threadpool_limits(1), rare_garbage_collection():
        replica = LiveReplica(engine, recorder, new_clock())
        replica.serve(senders_of(workload), request_maker(workload))
    if not replica.timed_steps:
        raise UserError("none of the requests is served")
    records = recorder.records(workload.prompt_tokens, workload.notes)
    return records, replica.timed_steps, replica.cpu_ns / 1e9
