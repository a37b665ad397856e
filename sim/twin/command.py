"""What `kvsim calibrate` and `kvsim twin` do: load a scenario, measure, print."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from sim.errors import UserError
from sim.latency.fitted import describe, describe_residuals, fit
from sim.latency.timed_steps import measured_steps, write_steps
from sim.metrics import PERCENTILES, Row
from sim.progress import bar_between_measurements
from sim.scenario import Scenario
from sim.scenario.file import load_scenario
from sim.tables import three_digits
from sim.terminal import print_table
from sim.twin.calibrate import time_steps
from sim.twin.twin import Twin, check_can_be_twinned, run_twin

# Requests of all lengths that the engine's defaults are meant for.
_ANY_REQUESTS = {
    "requests": 1000,
    "arrivals": {"poisson": {"rate": 20}},
    "prompts": {"unique": {"uniform": {"low": 8, "high": 512}}},
    "outputs": {"uniform": {"low": 8, "high": 256}},
}
_LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


def calibrate_scenario(
    path: Path | None, overrides: list[str], out: Path, *, as_json: bool = False
) -> None:
    """Time the steps of all systems of a scenario, write them to `out` and print what they fit.

    Without a scenario: the defaults. Raises UserError and WorkloadError for mistakes of the user.
    """
    if path:
        scenario = load_scenario(path, overrides)
    elif overrides:
        raise UserError("--set: expected a scenario whose keys it overrides")
    else:
        scenario = Scenario.parse({"name": "defaults", "workload": _ANY_REQUESTS})
    _check_can_be_written(out)
    with bar_between_measurements() as tell:
        steps = measured_steps(
            step
            for system in scenario.systems
            for step in time_steps(scenario, system, tell, f"{system}: calibrating")
        )
    write_steps(out, steps)
    found = fit(steps)
    if as_json:
        print(json.dumps(asdict(found), indent=1))
    else:
        print(f"step times: {describe(found.latency)}")
        print(f"fitted to {describe_residuals(found.residuals)}")
    print(f"written to {out}", file=sys.stderr)


def _check_can_be_written(out: Path) -> None:
    """Found before the work is done. Raises UserError."""
    folder = out.absolute().parent
    if (
        out.is_dir()
        or not folder.is_dir()
        or not os.access(out if out.exists() else folder, os.W_OK)
    ):
        raise UserError(
            f"--out {out}: expected the name of a file in a folder that can be written to"
        )


def twin_scenario(path: Path, overrides: list[str], *, as_json: bool, in_cpu_time: bool) -> None:
    """Twin every system of a scenario and print the comparisons; see `run_twin`.

    Raises UserError and WorkloadError for mistakes of the user.
    """
    scenario = load_scenario(path, overrides)
    check_can_be_twinned(scenario, str(path))
    twins = []
    for system in scenario.systems:
        print(f"{system}: calibrating, then running in real time ...", file=sys.stderr)
        with bar_between_measurements() as tell:
            twins.append(run_twin(scenario, system, in_cpu_time=in_cpu_time, tell=tell))
        if not as_json:
            _print_twin(twins[-1])
    if as_json:
        print(json.dumps([_as_data(twin) for twin in twins], indent=1))


def _as_data(twin: Twin) -> dict[str, Any]:
    errors = {name: _error(twin.real[name], twin.simulated[name]) for name in _compared()}
    return {**asdict(twin), "errors": errors}


def _compared() -> list[str]:
    """Names of the metrics that are compared."""
    kinds = ["mean", *(f"p{percent}" for percent in PERCENTILES)]
    return [f"{name}_{kind}_s" for name in _LATENCIES for kind in kinds] + ["output_tokens_per_s"]


def _error(real: float | None, simulated: float | None) -> float | None:
    """Signed error of a simulation, as a share of what is real."""
    return simulated / real - 1 if real and simulated is not None else None


def _print_twin(twin: Twin) -> None:
    print_table(_table(twin))
    print(
        f"load {twin.busy_share:.0%}: {twin.real['steps']} steps in {twin.real['span_s']:.1f} s; "
        f"a CPU was at work on them for {twin.cpu_share:.0%} of their time",
        f"the model: {describe(twin.fitted.latency)}",
        f"of the calibrations: {describe_residuals(twin.fitted.residuals)}",
        f"of the real run: {describe_residuals(twin.on_real_steps)}",
        f"drift: by the calibration after the real run, its steps take {twin.drift:+.1%} more than "
        "by the one before",
        "",
        sep="\n",
    )


def _table(twin: Twin) -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title=twin.system,
        title_justify="left",
        title_style="bold",
    )
    for heading in ("", "real", "simulated", "error", "at its speed", "error"):
        table.add_column(heading, justify="right" if heading else "left", min_width=8)
    for name in _compared():
        table.add_row(_heading(name), *_cells(name, twin.real, twin.simulated, twin.at_its_speed))
    return table


def _heading(name: str) -> str:
    if name == "output_tokens_per_s":
        return "output tokens/s"
    latency, kind, _ = name.split("_")
    return f"{_LATENCIES[latency]} {kind} ms"


def _cells(name: str, real: Row, *simulations: Row) -> list[str]:
    cells = [_number(name, real[name])]
    for row in simulations:
        error = _error(real[name], row[name])
        cells += [_number(name, row[name]), "-" if error is None else f"{error * 100:+.1f} %"]
    return cells


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    shown = value * 1000 if name.endswith("_s") and name != "output_tokens_per_s" else value
    return three_digits(shown)
