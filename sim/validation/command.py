"""What `kvsim validate` does: predict measured runs and print how far off that is."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sim.errors import UserError
from sim.latency.build import build_latency
from sim.progress import progress_bar
from sim.run_folder import new_folder, refuse_other_folder
from sim.terminal import print_prose, print_table
from sim.validation.case import Case, Point, count_reasons
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

    Raises UserError, after all others are done, for cases that cannot be read or predicted.
    """
    refuse_other_folder(out, "rows.csv", "validation")
    if fit_files and kind not in (None, "fitted"):
        raise UserError(f"--fit: expected --latency fitted, got {kind}")
    if kind == "fitted" and not fit_files:
        raise UserError("--latency fitted: give measured steps with --fit STEPS.csv")
    if host_cost_from and (fit_files or kind == "fitted"):
        raise UserError("--host-cost-from: fitted step times have the host's cost in them")
    with new_folder(out, replaces=True) as folder:
        done, mistakes = _validate_all(paths, kind, fit_files, host_cost_from)
        if not done:
            raise UserError("\n".join(mistakes))
        _write(folder, done)
    # Only now, when nothing is lost any more should stdout be closed before the end.
    if as_json_text:
        print(json.dumps([as_json(d.case, d.scored, d.step_times) for d in done], indent=1))
    else:
        for validated in done:
            _print(validated)
    print(f"rows and figure in {out}", file=sys.stderr)
    if mistakes:
        raise UserError("\n".join(mistakes))


def _validate_all(
    paths: list[Path], kind: str | None, fit_files: list[Path], host_cost_from: Path | None
) -> tuple[list[Validated], list[str]]:
    """Predict every case; of those that cannot be, the reasons."""
    host_cost = _fit_host(host_cost_from, kind) if host_cost_from else None
    done: list[Validated] = []
    mistakes: list[str] = []
    for path in paths:
        try:
            folders = _cases(path)
        except UserError as error:
            mistakes.append(str(error))
            continue
        for folder in folders:
            try:
                done.append(validate_case(folder, kind, fit_files, host_cost))
            except UserError as error:
                mistakes.append(str(error))
    return done, mistakes


def _cases(path: Path) -> list[Path]:
    """The folder itself, or those within it if it only holds others."""
    if is_run(path) or is_table(path):
        return [path]
    within = [folder for folder in sorted(path.rglob("*")) if is_run(folder) or is_table(folder)]
    if not within:
        raise UserError(
            f"{path}: no measured runs; expected requests.csv with engine.json, or points.csv"
        )
    return within


def validate_case(
    path: Path, kind: str | None, fit_files: list[Path], host_cost: HostCost | None
) -> Validated:
    """Predict the runs of a folder; see `validate_cases`."""
    case = read_run(path) if is_run(path) else read_rows(path)
    times = choose(case, path, kind, fit_files, host_cost)
    scored, failed = _predict(case.name, case.points, times)
    words = [_words(scored, times)] if scored else []
    if failed and kind is None:  # nobody asked for these step times: others will do
        points = [point for point, _ in failed]
        times = choose(case, path, "roofline", fit_files, host_cost)
        more, failed = _predict(case.name, points, times)
        if more:
            words.append(f"where these do not cover a row ({len(more)}): {_words(more, times)}")
        scored += more
    if not scored:
        raise UserError(f"{case.name}: {failed[0][1]}")
    case.skipped.extend(count_reasons(reason for _, reason in failed))
    case.skipped.extend(one.refusal for one in scored if one.refusal)
    return Validated(case, scored, "\n".join(words))


def _words(scored: list[Scored], times: StepTimes) -> str:
    """Where step times and the host's cost are from."""
    scenarios = [one.point.scenario for one in scored]
    deployed = {(one.model, one.deployment.tensor_parallel_size) for one in scenarios}
    words = build_latency(with_latency(scenarios[0], times.latency)).source
    if times.host_source:
        of_itself = ": THIS case, so the errors are no prediction" if times.is_in_sample else ""
        words += f" ({times.host_source}{of_itself})"
    return words if len(deployed) == 1 else f"{words}; so in the first row"


def _predict(
    name: str, points: list[Point], times: StepTimes
) -> tuple[list[Scored], list[tuple[Point, str]]]:
    """The points with their scores, and those that are not covered with the reason."""
    scored: list[Scored] = []
    failed: list[tuple[Point, str]] = []
    with progress_bar() as progress:
        task = progress.add_task(name, total=len(points))
        outcomes = predict_all(points, times.latency, lambda done: progress.advance(task, done))
    for point, outcome in zip(points, outcomes, strict=True):
        if isinstance(outcome, UserError):
            failed.append((point, str(outcome)))
        else:
            scored.append(outcome)
    return scored, failed


def _fit_host(path: Path, kind: str | None) -> HostCost:
    folder, *others = _cases(path)
    if others:
        raise UserError(f"{path}: {1 + len(others)} folders of runs; expected one to fit on")
    none = HostCost(0.0, 0.0, "none")
    return fit_host_cost(folder.name, validate_case(folder, kind, [], none).scored)


def _print(validated: Validated) -> None:
    case, scored = validated.case, validated.scored
    print(f"{case.name} ({case.kind})")
    for line in validated.step_times.splitlines():
        print_prose(f"step times: {line}")
    for line in case.assumptions:
        print_prose(f"assumed: {line}")
    for line in case.skipped:
        print_prose(f"skipped: {line}")
    is_run_of_requests = len(scored) == 1 and scored[0].point.requests is not None
    table = run_table(case, scored[0]) if is_run_of_requests else rows_table(scored)
    print_table(table)


def _write(folder: Path, done: list[Validated]) -> None:
    from sim.validation.scatter import draw_scatter  # matplotlib, slow to import

    rows = pd.concat([rows_frame(d.case.name, d.scored) for d in done])
    rows.to_csv(folder / "rows.csv", index=False)
    draw_scatter(folder, {d.case.name: d.scored for d in done})
