"""The report of a run folder."""

from pathlib import Path

from sim.binned import BINS_IN_WORDS
from sim.one_run import OneRun, point_in_words
from sim.prefix_shares import has_looked
from sim.report import figures
from sim.report.about import ending
from sim.report.comparison import comparison
from sim.report.extremes import extremes
from sim.report.page import Block, Page, Plot, Section, Words
from sim.report.slowest import slowest
from sim.report.sweep_figures import over_each
from sim.report.verdict import sentences
from sim.run_command import assumptions
from sim.run_folder import check_run, read_classes, read_replicas
from sim.scenario.file import load_scenario
from sim.shown import Shown, read_shown
from sim.sweep.table import Swept, swept_keys

_MOST_PANELS = 6  # of figures that have one for each system


def page_of_run(folder: Path) -> Page:
    """Raises UserError for a folder that is no run or in which nobody is served."""
    shown = read_shown(folder, [])
    about = check_run(folder)
    scenario = load_scenario(folder / "scenario.yaml", [])
    where = point_in_words(shown.runs[0])
    return Page(
        title=scenario.name,
        about=f"{scenario.model} on {scenario.hardware}, {num_runs(shown)}, "
        f"kvsim {about['versions']['kvsim']}",
        verdict=_verdict(shown),
        sections=[
            Section("Comparison", [comparison(shown.summary), Words(assumptions(scenario))]),
            *_within(folder),
            Section("Throughput and latency", _curves(shown, scenario.sweep)),
            Section("Over time", _over_time(shown.runs), where),
            Section("Slow requests", _slow(shown.runs), where),
            *_skipped(about["notes"]),
            *ending(folder, scenario, about, "run"),
        ],
    )


def _verdict(shown: Shown) -> list[str]:
    """Of several points the best of all first, then of the one that is shown over time."""
    first, *others = sentences(shown.at_point, shown.runs)
    if not swept_keys(shown.summary):
        return [first, *others]
    return [*extremes(shown.summary), f"At the last point: {first}", *others]


def _within(folder: Path) -> list[Section]:
    """The same of each class and of each replica, where there are any."""
    frames = {"class": read_classes(folder), "replica": read_replicas(folder)}
    return [
        Section(f"By {name}", [comparison(frame, (name,))])
        for name, frame in frames.items()
        if frame is not None
    ]


def num_runs(shown: Shown) -> str:
    """In words."""
    systems, seeds = shown.summary["system"].nunique(), shown.summary["seed"].nunique()
    points = len(shown.summary) // (systems * seeds)
    counts = [(systems, "system"), (points, "point"), (seeds, "seed")]
    return ", ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in counts)


def _curves(shown: Shown, swept: Swept) -> list[Block]:
    plots: list[Block] = []
    if shown.key:
        about = "A click in the legend hides a system, a double click all others."
        plots.append(Plot("throughput", figures.throughput(shown.summary, shown.key), about))
        lines = "p50 solid, p90 dashed, p99 dotted; means over the seeds with 95 % intervals."
        plots.append(Plot("latency", figures.latency(shown.summary, shown.key), lines))
    elif keys := swept_keys(shown.summary):
        plots += over_each(shown.summary, keys, swept)
    about = f"{point_in_words(shown.runs[0])}, over all requests that were served."
    return [*plots, Plot("distributions", figures.distributions(shown.runs), about)]


def _over_time(runs: list[OneRun]) -> list[Block]:
    shown = runs[:_MOST_PANELS]
    about = f"{BINS_IN_WORDS.capitalize()}."
    if len(shown) < len(runs):
        about += f" The first {len(shown)} systems of {len(runs)}; `kvsim plot` shows all."
    blocks: list[Block] = [
        Plot("ledger", figures.ledger(shown), f"The KV ledger. {about}"),
        Plot("queues", figures.queues(shown), f"Queue lengths. {about}"),
    ]
    looked = [run for run in runs if has_looked(run)]
    if looked:
        words = "What the prefix cache found of the prompts, and why not more."
        blocks.append(Plot("prefix", figures.prefix_cache(looked), words))
    return blocks


def _slow(runs: list[OneRun]) -> list[Block]:
    about = "Where the time to first token went, of all requests and of the slow ones."
    lines = "The slowest requests of each system; `kvsim explain` tells the life of one."
    plot = Plot("attribution", figures.attribution(runs[:_MOST_PANELS]), about)
    return [plot, Words([lines]), slowest(runs)]


def _skipped(notes: list[str]) -> list[Section]:
    if not notes:
        return []
    return [Section("What was skipped or changed", [Words(notes)])]
