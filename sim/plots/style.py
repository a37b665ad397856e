"""What all figures have in common: colours, axes, legends, and how they are written."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sim.experiment import Result

# Okabe and Ito, "Color Universal Design", 2008: distinct under colour blindness and in grey.
SYSTEM_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
SYSTEM_MARKERS = "osD^vPX"  # one more than colours: 42 systems before a pair repeats
SYSTEM_DASHES = ("-", "--", ":", "-.")  # of lines without markers, by turns through the colours
SMALL: dict[str, Any] = {"fontsize": "small", "color": "#555555"}
SECONDS = FuncFormatter(lambda s, _: f"{s:g} s" if s >= 1 else f"{s * 1000:g} ms")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix says in which format."""
    # Neither date nor version in the file: equal runs give equal bytes.
    unsaid = {"Software": None} if path.suffix == ".png" else {"Date": None}
    with rc_context({"svg.hashsalt": "kvsim"}):  # ids in it are random otherwise
        figure.savefig(path, dpi=150, metadata=unsaid)


def tidy(axes: Axes) -> None:
    """Lines of a grid behind the data, and no frame."""
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend(figure: Figure) -> None:
    """One for all axes of a figure, above them."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside upper center", ncols=3)


def label_seconds(axis: Axis) -> None:
    """Ticks with their unit on a logarithmic axis, one to three to a power of ten."""
    low, high = axis.get_view_interval()
    subs = (1, 2, 5) if high < 30 * low else (1, 3) if high < 3000 * low else (1,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(SECONDS)


def text_colour(background: str) -> str:
    """Black or white, whichever is easier to read on it."""
    red, green, blue = to_rgb(background)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "black"


def words(key: str) -> str:
    """The name of a setting, without where it belongs."""
    return key.rpartition(".")[2].replace("_", " ")


def point_in_words(result: Result, num_seeds: int = 1) -> str:
    """The point of the sweep that a result is of, and its seed, or over how many a mean is."""
    labels = [f"{words(key)} {value}" for key, value in result.job.labels.items()]
    seed = f"seed {result.job.scenario.seed}" if num_seeds == 1 else f"mean of {num_seeds} runs"
    return ", ".join([*labels, seed])


def note_runs(figure: Figure, summary: pd.DataFrame) -> None:
    """Say below a figure how many runs its points are means of."""
    num_seeds = summary["seed"].nunique()
    text = (
        f"mean of {num_seeds} runs, bars: 95 % confidence interval"
        if num_seeds > 1
        else "one run a point, so no interval"
    )
    figure.supxlabel(text, x=0.99, ha="right", **SMALL)
