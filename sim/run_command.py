"""What `kvsim run` does: load a scenario, run it or find its results, print them."""

import json
import sys
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sim import catalogue
from sim.experiment import Result, plan_jobs, run_jobs
from sim.latency.fitted import describe, describe_residuals, fit_files
from sim.run_folder import (
    folder_for,
    is_finished,
    new_folder,
    read_notes,
    read_summary,
    write_run,
)
from sim.scenario import FittedSpec, RooflineSpec, Scenario
from sim.scenario_file import load_scenario
from sim.tables import summary_tables

_MOST_NOTES = 8  # printed; all of them are in run.json


def run_scenario(
    path: Path,
    overrides: list[str],
    out: Path,
    *,
    quiet: bool,
    output_format: str,
    stepwise: bool,
) -> None:
    """Run a scenario unless its results are there already, and print its summary.

    output_format: table, json or csv. Raises UserError and WorkloadError for mistakes of the user.
    """
    scenario = load_scenario(path, overrides)
    folder = folder_for(scenario, out, stepwise=stepwise)
    is_new = not is_finished(folder)
    if is_new:
        with new_folder(folder) as partial:
            write_run(partial, scenario, _run(scenario, quiet=quiet, stepwise=stepwise))
    _print_summary(read_summary(folder), list(scenario.sweep), output_format)
    if not quiet:
        notes = read_notes(folder)
        for line in [*_assumptions(scenario), *notes[:_MOST_NOTES]]:
            print(line, file=sys.stderr)
        if len(notes) > _MOST_NOTES:
            print(f"and {len(notes) - _MOST_NOTES} more notes in run.json", file=sys.stderr)
        print(f"{'written to' if is_new else 'found in'} {folder}", file=sys.stderr)


def _run(scenario: Scenario, *, quiet: bool, stepwise: bool) -> list[Result]:
    jobs = plan_jobs(scenario, stepwise=stepwise)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    is_shown = console.is_terminal and not quiet
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task(scenario.name, total=len(jobs))
        return run_jobs(jobs, lambda done: progress.advance(task, done))


def _print_summary(summary: pd.DataFrame, label_keys: list[str], output_format: str) -> None:
    if output_format == "csv":
        print(summary.to_csv(index=False), end="")
    elif output_format == "json":
        rows = summary.astype(object).where(summary.notna(), None)  # "not measured" is null
        print(json.dumps(rows.to_dict("records"), indent=1))
    else:
        console = Console(markup=False, highlight=False)
        for table in summary_tables(summary, label_keys):
            # A narrow terminal folds the lines; cutting columns would hide results.
            wide = console.options.update(width=1000)
            console.width = max(console.width, Measurement.get(console, wide, table).maximum)
            console.print(table, "")


def _assumptions(scenario: Scenario) -> list[str]:
    """What the numbers rest on, in words."""
    runs = (
        f"mean of {scenario.replications} runs with different seeds; ± is the 95 % interval"
        if scenario.replications > 1
        else "one run a point: its sampling error is not known (see `replications`)"
    )
    spec = scenario.latency
    if isinstance(spec, FittedSpec):
        return [runs, *_about_fit(spec.files)]
    if not isinstance(spec, RooflineSpec):
        return [f"{runs}; step times: {spec.kind}"]
    return [
        f"{runs}",
        f"step times: roofline of {scenario.model} on {scenario.hardware}, assuming "
        f"{spec.flop_efficiency:.0%} of its FLOP/s, {spec.bandwidth_efficiency:.0%} of its "
        f"bandwidth and {spec.overhead_s * 1000:g} ms a step besides; not checked on hardware",
        *_memory_warnings(scenario),
    ]


def _about_fit(files: list[str]) -> list[str]:
    found = fit_files(files)
    names = ", ".join(Path(file).name for file in files)
    return [
        f"step times: {describe(found.latency)}",
        f"fitted to {names}: {describe_residuals(found.residuals)}",
    ]


def _memory_warnings(scenario: Scenario) -> list[str]:
    model, hardware = catalogue.model(scenario.model), catalogue.hardware(scenario.hardware)
    left_bytes = hardware.memory_bytes - model.weight_bytes
    pool_bytes = {
        system: scenario.engine_config(system).num_slots * model.kv_bytes_per_token
        for system in scenario.systems
    }
    return [
        f"warning: the KV pool of {system!r} takes {bytes_ / 1e9:.0f} GB, {scenario.hardware} has "
        f"{left_bytes / 1e9:.0f} GB beside the weights of {scenario.model}"
        for system, bytes_ in pool_bytes.items()
        if bytes_ > left_bytes
    ]
