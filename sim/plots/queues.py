"""Who runs and who waits, over time."""

from matplotlib.figure import Figure

from sim.binned import BINS_IN_WORDS, binned
from sim.one_run import OneRun, point_in_words
from sim.plots.colours import QUEUE_COLOURS
from sim.plots.style import SMALL, legend_below, panels, tidy, title


def queues(runs: list[OneRun]) -> Figure:
    """Sequences that run and that wait over time, a panel for each run."""
    systems = [run.system for run in runs]
    figure, panel_axes = panels(systems, 1.7, "simulated time (s)", shares_y=False)
    for axes, run in zip(panel_axes, runs, strict=True):
        edges_s, means = binned(run.steps, list(QUEUE_COLOURS))
        for (name, colour), values in zip(QUEUE_COLOURS.items(), means, strict=True):
            axes.stairs(values, edges_s, label=name, color=colour, baseline=None)
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.set_xlim(left=0)
        tidy(axes)
    figure.supylabel("sequences", fontsize="medium")
    legend_below(figure)
    where = point_in_words(runs[0])
    figure.supxlabel(BINS_IN_WORDS, x=0.99, ha="right", **SMALL)
    title(figure, f"Queues over time, {where}")
    return figure
