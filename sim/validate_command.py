"""What `kvsim validate` does: predict measured runs and print how far off that is."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from sim.errors import UserError
from sim.latency.build import describe_latency
from sim.run_folder import new_folder
from sim.tables import print_table
from sim.validation.case import Case
from sim.validation.fit_host import fit_host_cost
from sim.validation.host_cost import HostCost
from sim.validation.predict import predict_all, with_latency
from sim.validation.report import as_json, rows_frame, rows_table, run_table
from sim.validation.rows import is_table, read_rows
from sim.validation.runs import is_run, read_run
from sim.validation.score import Scored
from sim.validation.step_times import StepTimes, choose


@dataclass(frozen=True)
class Validated:
    """A case with its predictions, and the source of every constant in words."""

    case: Case
    scored: list[Scored]
    step_times: str


def validate_cases(
    paths: list[Path],
    kind: str | None,
    fit_files: list[Path],
    host_cost_from: Path | None,
    out: Path,
    *,
    as_json_text: bool,
) -> None:
    """Predict every case, print the errors and write rows and a figure into a folder.

    Raises UserError for what cannot be read or predicted.
    """
    host_cost = _fit_host(host_cost_from, kind) if host_cost_from else None
    folders = [folder for path in paths for folder in _cases(path)]
    done = [_validate(folder, kind, fit_files, host_cost) for folder in folders]
    if as_json_text:
        print(json.dumps([as_json(d.case, d.scored, d.step_times) for d in done], indent=1))
    else:
        for validated in done:
            _print(validated)
    _write(out, done)
    print(f"rows and figure in {out}", file=sys.stderr)


def _cases(path: Path) -> list[Path]:
    """The folder itself, or those within it if it only holds others."""
    within = [folder for folder in sorted(path.glob("*")) if is_run(folder) or is_table(folder)]
    return [path] if is_run(path) or is_table(path) or not within else within


def _validate(
    path: Path, kind: str | None, fit_files: list[Path], host_cost: HostCost | None
) -> Validated:
    case = read_run(path) if is_run(path) else read_rows(path)
    times = choose(case, path, kind, fit_files, host_cost)
    scored, skipped = _predict(case, times)
    scenario = with_latency(scored[0].point.scenario, times.latency)
    words = describe_latency(scenario)
    if times.host_source:
        words += f" ({times.host_source})"
    case.skipped.extend(skipped)
    return Validated(case, scored, words)


def _predict(case: Case, times: StepTimes) -> tuple[list[Scored], list[str]]:
    """The scored points, and why others were skipped."""
    console = Console(stderr=True)
    scored: list[Scored] = []
    failed: list[UserError] = []
    with console.status(case.name) as status:
        for number, outcome in enumerate(predict_all(case.points, times.latency), start=1):
            status.update(f"{case.name}: {number} of {len(case.points)}")
            if isinstance(outcome, UserError):
                failed.append(outcome)
            else:
                scored.append(outcome)
    if not scored:
        raise UserError(f"{case.name}: {failed[0]}")
    reasons: dict[str, int] = {}
    for error in failed:
        reasons[str(error)] = reasons.get(str(error), 0) + 1
    return scored, [f"{count} rows: {reason}" for reason, count in reasons.items()]


def _fit_host(path: Path, kind: str | None) -> HostCost:
    none = HostCost(0.0, 0.0, "none")
    return fit_host_cost(path.name, _validate(path, kind, [], none).scored)


def _print(validated: Validated) -> None:
    case, scored = validated.case, validated.scored
    print(f"{case.name} ({case.kind})")
    print(f"step times: {validated.step_times}")
    for line in case.assumptions:
        print(f"assumed: {line}")
    for line in case.skipped:
        print(f"skipped: {line}")
    is_run_of_requests = len(scored) == 1 and scored[0].point.requests is not None
    table = run_table(case, scored[0]) if is_run_of_requests else rows_table(scored)
    print_table(table)


def _write(out: Path, done: list[Validated]) -> None:
    from sim.validation.scatter import draw_scatter  # matplotlib, slow to import

    with new_folder(out, replaces=True) as folder:
        rows = pd.concat([rows_frame(d.case.name, d.scored) for d in done])
        rows.to_csv(folder / "rows.csv", index=False)
        draw_scatter(folder, {d.case.name: d.scored for d in done})
