"""What `kvsim sweep` does: run what is missing of a sweep, print and keep one table."""

import json
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table

from sim.about_file import about_text
from sim.errors import InterruptedRun, UserError
from sim.experiment import Job
from sim.fingerprint import code_digest, versions
from sim.one_run import words
from sim.parallel import Backend
from sim.progress import busy, planner, progress_bar
from sim.run_command import assumptions
from sim.scenario import Scenario
from sim.scenario.file import dump_scenario, plain
from sim.steady import Warmup
from sim.sweep.notes import missed, of_window
from sim.sweep.paired import differences
from sim.sweep.points import load_swept, parse_share, plan_points, sampled
from sim.sweep.run import Measured, Runner, as_frame
from sim.sweep.store import Store
from sim.sweep.table import ABOUT, METRICS, TABLE
from sim.tables import number, summary_tables
from sim.terminal import print_prose, print_table
from sim.whole_file import refuse_unwritable, whole_file


@dataclass(frozen=True)
class Options:
    """Of the command; see its help. seeds: None is the scenario's replications."""

    sample: int | None
    seeds: int | None
    precision: str | None
    warmup: str
    backend: Backend
    out: Path
    output_format: str
    quiet: bool


def sweep_scenario(path: Path, settings: list[str], options: Options) -> Path:
    """Returns its folder. Raises UserError and WorkloadError for mistakes of the user."""
    scenario = load_swept(path, settings, options.sample)
    warmup = Warmup.parse(options.warmup)
    text = options.precision
    precision = None if text is None else parse_share("--precision", text)
    folder = options.out / scenario.name
    refuse_unwritable(options.out, folder / "results")
    measured = _measure(scenario, folder / "results", warmup, precision, options)
    frame = as_frame(measured)
    if not frame["finished"].any():
        raise UserError("none of the requests is served at any point; `kvsim run` says why")
    notes = [
        of_window(frame, warmup),
        *([] if precision is None else missed(frame, precision)),
        *assumptions(scenario, sampled(scenario, options.sample))[1:],
    ]
    about = {
        "versions": versions(plain(scenario)),
        "code": code_digest(),
        "options": _options_said(frame, options),
        "notes": notes,
    }
    with busy("tables and figures", quiet=options.quiet):
        _write(folder, scenario, frame, about)
    _print(frame, list(scenario.sweep), options.output_format)
    if not options.quiet:
        for line in notes:
            print_prose(line, sys.stderr)
        print(f"written to {folder}", file=sys.stderr)
    return folder


def _measure(
    scenario: Scenario,
    results: Path,
    warmup: Warmup,
    precision: float | None,
    options: Options,
) -> list[Measured]:
    num_seeds = options.seeds or scenario.replications
    with progress_bar(quiet=options.quiet) as progress:
        task = progress.add_task(scenario.name, total=0)
        runner = Runner(
            Store(results),
            warmup,
            options.backend,
            on_planned=planner(progress, task),
            on_done=lambda: progress.advance(task),
        )

        def jobs_of(seeds: range) -> list[Job]:
            return plan_points(scenario, options.sample, seeds)

        try:
            if precision is None:
                return runner.run(jobs_of(range(scenario.seed, scenario.seed + num_seeds)))
            return runner.run_until(
                jobs_of, scenario.seed, num_seeds, precision=precision, metrics=METRICS
            )
        except KeyboardInterrupt:
            done = round(progress.tasks[task].completed)
            raise InterruptedRun(
                f"interrupted; {done} new results are kept in {results}, the same command goes on"
            ) from None


def _write(folder: Path, scenario: Scenario, frame: pd.DataFrame, about: dict[str, Any]) -> None:
    """The table, the differences between systems, the scenario and figures, each file whole."""
    from sim.sweep import figures  # matplotlib, slow to import

    with whole_file(folder / TABLE) as path:
        frame.to_csv(path, index=False)
    for name in ("table.parquet", "differences.csv"):  # of another sweep
        (folder / name).unlink(missing_ok=True)
    if find_spec("pyarrow"):
        with whole_file(folder / "table.parquet") as path:
            frame.to_parquet(path, index=False)
    if frame["system"].nunique() > 1:
        with whole_file(folder / "differences.csv") as path:
            differences(frame, METRICS).to_csv(path, index=False)
    with whole_file(folder / "scenario.yaml") as path:
        path.write_text(dump_scenario(scenario), "utf-8")
    with whole_file(folder / ABOUT) as path:
        path.write_text(about_text(about, folder, [TABLE, "scenario.yaml"]), "utf-8")
    drawn = figures.draw(folder / "figures", frame, scenario.sweep)
    for old in set((folder / "figures").glob("[!.]*.png")) - set(drawn):
        old.unlink(missing_ok=True)


def _options_said(frame: pd.DataFrame, options: Options) -> str:
    """Which make the same table of the scenario that is left."""
    sample = f"--sample {options.sample} " if options.sample else ""
    return f"{sample}--seeds {frame['seed'].nunique()} --warmup {options.warmup}"


def _print(frame: pd.DataFrame, keys: list[str], output_format: str) -> None:
    if output_format == "csv":
        print(frame.to_csv(index=False), end="")
    elif output_format == "json":
        rows = frame.astype(object).where(frame.notna(), None)
        print(json.dumps(rows.to_dict("records"), indent=1))
    else:
        for table in summary_tables(frame, keys):
            print_table(table, num_names=max(len(keys), 1))
        if frame["system"].nunique() > 1 and not (paired := differences(frame, METRICS)).empty:
            table = _difference_table(paired, frame["system"].iloc[0])
            print_table(table, num_names=1 + len(keys))


def _difference_table(paired: pd.DataFrame, first: str) -> Table:
    """The metric that the first table has an interval of, system by system."""
    keys = list(paired.columns[1 : paired.columns.get_loc("metric")])
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title=f"output tokens/s more than {first}, on the same requests",
        title_justify="left",
        title_style="bold",
    )
    for heading in ("system", *map(words, keys), "difference", "%"):
        table.add_column(heading, justify="right")
    for row in paired[paired["metric"] == "output_tokens_per_s"].to_dict("records"):
        half_width = row["half_width"]
        interval = "" if pd.isna(half_width) else f" ± {number(half_width)}"
        share = "-" if pd.isna(row["share"]) else _signed(round(row["share"] * 100))
        labels = [f"{row[key]:g}" if isinstance(row[key], float) else str(row[key]) for key in keys]
        table.add_row(row["system"], *labels, f"{number(row['difference'])}{interval}", share)
    return table


def _signed(percent: int) -> str:
    return f"{percent:+d}" if percent else "0"
