"""Who runs and who waits, over time."""

from matplotlib.figure import Figure

from sim.binned import BINS_IN_WORDS, binned
from sim.one_run import OneRun, point_in_words
from sim.plots.colours import QUEUE_COLOURS
from sim.plots.style import legend_below, panels, tidy, title


def queues(runs: list[OneRun]) -> Figure:
    """Sequences that run and that wait over time, a panel for each run.

    All panels reach to the end of the longest run.
    """
    systems = [run.system for run in runs]
    figure, panel_axes = panels(systems, 1.7, "simulated time (s)", shares_y=False)
    over_time = [binned(run.steps, list(QUEUE_COLOURS)) for run in runs]
    for axes, (edges_s, means) in zip(panel_axes, over_time, strict=True):
        for (name, colour), values in zip(QUEUE_COLOURS.items(), means, strict=True):
            axes.stairs(values, edges_s, label=name, color=colour, baseline=None)
        axes.set_ylim(bottom=0)
        tidy(axes)
    panel_axes[0].set_xlim(0, max(edges_s[-1] for edges_s, _ in over_time))
    figure.supylabel("sequences", fontsize="medium")
    legend_below(figure, note=BINS_IN_WORDS)
    title(figure, f"Queues over time, {point_in_words(runs[0])}")
    return figure
