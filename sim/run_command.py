"""What `kvsim run` does: load a scenario, run it or find its results, print them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from sim.experiment import Result, plan_jobs, run_jobs
from sim.latency.build import build_latency
from sim.progress import busy, progress_bar
from sim.run_folder import (
    folder_for,
    is_finished,
    new_folder,
    read_classes,
    read_notes,
    read_replicas,
    read_summary,
    write_run,
)
from sim.scenario import ConstantSpec, FittedSpec, LinearSpec, Scenario
from sim.scenario.deployed import build_config, build_deployment, build_kv_size
from sim.scenario.file import Points, load_scenario, points
from sim.tables import class_table, replica_table, summary_tables
from sim.terminal import print_prose, print_table

_MOST_NOTES = 8  # printed; all of them are in run.json


def run_scenario(
    path: Path,
    overrides: list[str],
    out: Path,
    *,
    quiet: bool,
    output_format: str,
    stepwise: bool,
) -> Path:
    """Run a scenario unless its results are there already; print its summary, return its folder.

    output_format: table, json, csv or prometheus.

    Raises UserError and WorkloadError for mistakes of the user.
    """
    scenario = load_scenario(path, overrides)
    folder = folder_for(scenario, out, stepwise=stepwise)
    is_new = not is_finished(folder)
    if is_new:
        with new_folder(folder) as partial:
            results = _run(scenario, quiet=quiet, stepwise=stepwise)
            with busy("tables and figures", quiet=quiet):
                write_run(partial, scenario, results)
    if output_format == "prometheus":
        from sim.prometheus.families import families_of_run
        from sim.prometheus.text import exposition

        print(exposition(families_of_run(folder, scenario)), end="")
    else:
        _print_summary(read_summary(folder), list(scenario.sweep), output_format)
    classes = read_classes(folder)
    if output_format == "table" and classes is not None and not scenario.sweep:
        print_table(class_table(classes), num_names=2)
    replicas = read_replicas(folder)
    if output_format == "table" and replicas is not None and not scenario.sweep:
        print_table(replica_table(replicas), num_names=2)
    if not quiet:
        notes = read_notes(folder)
        for line in [*assumptions(scenario), *notes[:_MOST_NOTES]]:
            print_prose(line, sys.stderr)
        if len(notes) > _MOST_NOTES:
            print(f"and {len(notes) - _MOST_NOTES} more notes in run.json", file=sys.stderr)
        print(f"{'written to' if is_new else 'found in'} {folder}", file=sys.stderr)
    return folder


def _run(scenario: Scenario, *, quiet: bool, stepwise: bool) -> list[Result]:
    jobs = plan_jobs(scenario, stepwise=stepwise)
    with progress_bar(quiet=quiet) as progress:
        task = progress.add_task(scenario.name, total=len(jobs))
        return run_jobs(jobs, lambda done: progress.advance(task, done))


def _print_summary(summary: pd.DataFrame, label_keys: list[str], output_format: str) -> None:
    if output_format == "csv":
        print(summary.to_csv(index=False), end="")
    elif output_format == "json":
        rows = summary.astype(object).where(summary.notna(), None)  # "not measured" is null
        print(json.dumps(rows.to_dict("records"), indent=1))
    else:
        for table in summary_tables(summary, label_keys):
            print_table(table, num_names=max(len(label_keys), 1))


def assumptions(scenario: Scenario, swept: Points | None = None) -> list[str]:
    """What the numbers rest on, in words. swept: the points that are run; None: all."""
    at = points(scenario) if swept is None else swept
    runs = (
        f"mean of {scenario.replications} runs with different seeds; ± is the 95 % interval"
        if scenario.replications > 1
        else "one run a point: its sampling error is not known (see `replications`)"
    )
    times = _of_points(at, lambda point: [f"step times: {build_latency(point).source}"])
    swaps = _of_points(at, _swap_lines)
    return [runs, *times, *swaps, *_of_points(at, _memory_lines)]


def _of_points(swept: Points, describe: Callable[[Scenario], list[str]]) -> list[str]:
    """Lines that describe the points of a sweep; once where they are the same of all."""
    lines: dict[str, list[str]] = {}  # by what is swept but for the workload
    for labels, point in swept:
        others = {key: value for key, value in labels.items() if not key.startswith("workload")}
        at = ", ".join(f"{key}={value}" for key, value in others.items())
        if at not in lines:
            lines[at] = describe(point)
    if all(others == lines[at] for others in lines.values()):
        return lines[at]
    return [f"{at}: {line}" for at in lines for line in lines[at]]


def _swap_lines(scenario: Scenario) -> list[str]:
    """Of every system that swaps: at which bandwidth."""
    bandwidth_gb_per_s = scenario.deployment.swap_bandwidth_bytes_per_s / 1e9
    return [
        f"{system}: blocks are swapped at {bandwidth_gb_per_s:.3g} GB/s a GPU"
        for system in scenario.systems
        if build_config(scenario, system).preemption == "swap"
    ]


def _memory_lines(scenario: Scenario) -> list[str]:
    """Of every system: the size of the KV cache where the GPUs decide it, else whether it fits."""
    if isinstance(scenario.latency, ConstantSpec | LinearSpec | FittedSpec):
        return []  # of no GPU in particular
    systems_of: dict[str, list[str]] = {}  # of a line: those that it is true of
    for system in scenario.systems:
        is_auto = scenario.engine_settings(system)["num_blocks"] == "auto"
        lines = build_kv_size(scenario, system).lines() if is_auto else _misfit(scenario, system)
        for line in lines:
            systems_of.setdefault(line, []).append(system)
    return [f"{', '.join(systems)}: {line}" for line, systems in systems_of.items()]


def _misfit(scenario: Scenario, system: str) -> list[str]:
    deployment = build_deployment(scenario)
    left_bytes = deployment.hardware.memory_bytes - deployment.weight_bytes
    pool_bytes = build_config(scenario, system).num_slots * deployment.kv_bytes_per_token
    if pool_bytes <= left_bytes:
        return []
    return [
        f"warning: the KV pool takes {pool_bytes / 1e9:.0f} GB of each GPU, "
        f"{scenario.hardware} has {max(left_bytes, 0) / 1e9:.0f} GB beside its share of "
        f"{scenario.model}"
    ]
