"""What `kvsim reproduce` does: redraw published figures, print and write how near they are."""

import json
import sys
from pathlib import Path
from typing import Any

from sim.progress import progress_bar
from sim.reproduce.outcome import Outcome
from sim.reproduce.paper import Paper, load_papers
from sim.reproduce.report import count, markdown, tables
from sim.reproduce.run import Result, as_frame, num_points, run_paper
from sim.run_folder import new_folder, refuse_other_folder
from sim.terminal import print_table

_DATA = "reproduced.json"


def reproduce(
    names: list[str], folder: Path, settings: list[str], out: Path, *, as_json: bool
) -> None:
    """Simulate what publications printed; a page and a figure for each go into a folder `out`.

    folder: of the descriptions and their scenarios. settings: overrides of every scenario.

    Raises UserError and WorkloadError for mistakes of the user.
    """
    refuse_other_folder(out, _DATA, "reproduction")
    papers = load_papers(folder, names)
    done: dict[str, tuple[list[Result], list[Outcome]]] = {}
    with new_folder(out, replaces=True) as partial:
        for name, paper in papers.items():
            done[name] = _run(name, paper, folder, settings)
            _write(partial, name, paper, *done[name])
        data = json.dumps([_as_data(name, papers[name], *done[name]) for name in done], indent=1)
        (partial / _DATA).write_text(data + "\n", "utf-8")
    if as_json:
        print(data)
    else:
        for name, (results, outcomes) in done.items():
            for table, num_names in tables(papers[name], results, outcomes):
                print_table(table, num_names=num_names)
            print(f"{name}: {count(results, outcomes)}\n")
        if len(done) > 1:
            results = [result for values, _ in done.values() for result in values]
            outcomes = [outcome for _, follows in done.values() for outcome in follows]
            print(f"all: {count(results, outcomes)}")
    print(f"pages and figures in {out}", file=sys.stderr)


def _run(
    name: str, paper: Paper, folder: Path, settings: list[str]
) -> tuple[list[Result], list[Outcome]]:
    with progress_bar() as progress:
        task = progress.add_task(name, total=num_points(paper))
        results = run_paper(paper, folder, settings, lambda points: progress.advance(task, points))
    frame = as_frame(results)
    return results, [outcome for check in paper.checks for outcome in check.outcomes(frame)]


def _write(
    folder: Path, name: str, paper: Paper, results: list[Result], outcomes: list[Outcome]
) -> None:
    from sim.plots.style import save  # matplotlib, slow to import
    from sim.reproduce.curves import draw_curves
    from sim.reproduce.figure import draw_ratios

    drawn = {
        f"{name}.png": ("ours by published", draw_ratios(paper, results, outcomes)),
        f"{name}-curves.png": ("ours at each point", draw_curves(paper, results)),
    }
    figures = {}
    for file, (words, figure) in drawn.items():
        if figure:
            save(figure, folder / file)
            figures[file] = words
    (folder / f"{name}.md").write_text(markdown(paper, results, outcomes, figures), "utf-8")


def _as_data(
    name: str, paper: Paper, results: list[Result], outcomes: list[Outcome]
) -> dict[str, Any]:
    return {
        "name": name,
        "title": paper.title,
        "source": paper.source,
        "values": [
            {
                "series": r.series.title,
                "at": r.at,
                "metric": r.metric,
                "published": r.published if r.is_printed else None,
                "ours": r.ours,
                "error": r.error if r.is_printed else None,
                "tolerance": None if r.is_inside is None else r.tolerance,
                "is_inside": r.is_inside,
            }
            for r in results
        ],
        "follows": [
            {name: words for name, words in outcome._asdict().items() if name != "measured"}
            for outcome in outcomes
        ],
    }
