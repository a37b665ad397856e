"""What all figures have in common: axes, legends, and how they are written."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sim.plots.colours import SYSTEM_COLOURS

SYSTEM_MARKERS = "osD^vPX"  # one more than colours: 42 systems before a pair repeats
_SYSTEM_DASHES = ("-", "--", ":", "-.")
_MOST_IN_A_COLUMN = 4
_LETTER_INCHES, _HANDLE_INCHES = 0.09, 0.75  # of a legend: at most, handle and gaps
_MOST_LETTERS = 24  # in a line of a label below an axis
_LETTERS_BELOW = 36  # an axis of the narrowest panels, 3.6 inches
SMALL: dict[str, Any] = {"fontsize": "small", "color": "#555555"}
SECONDS = FuncFormatter(lambda s, _: f"{s:g} s" if s >= 1 else f"{s * 1000:g} ms")


def dash(number: int) -> str:
    """Of the line of a system with a number, by turns through the colours."""
    return _SYSTEM_DASHES[number // len(SYSTEM_COLOURS) % len(_SYSTEM_DASHES)]


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix says in which format."""
    # Neither date nor version in the file: equal runs give equal bytes.
    unsaid = {"Software": None} if path.suffix == ".png" else {"Date": None}
    with rc_context({"svg.hashsalt": "kvsim"}), warnings.catch_warnings():  # its ids are random
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, dpi=150, metadata=unsaid)


def tidy(axes: Axes) -> None:
    """Lines of a grid behind the data, and no frame."""
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend(figure: Figure, title: str | None = None, most_columns: int = 3) -> None:
    """One for all axes of a figure, above them; as many columns as fit into it."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    width = figure.get_figwidth()
    texts = [fill(label, int((width - _HANDLE_INCHES) / _LETTER_INCHES)) for label in labels]
    longest = max((len(line) for text in texts for line in text.splitlines()), default=0)
    num_columns = int(width / (_HANDLE_INCHES + longest * _LETTER_INCHES))
    figure.legend(
        handles,
        texts,
        title=title,
        frameon=False,
        loc="outside upper center",
        ncols=max(1, min(num_columns, most_columns)),
    )


def label_values(axes: Axes, labels: Sequence[str]) -> None:
    """Ticks at 0, 1, ...; slanting where they would run into each other."""
    texts = [fill(label, _MOST_LETTERS) for label in labels]
    longest = max((len(line) for text in texts for line in text.splitlines()), default=0)
    axes.set_xticks(range(len(labels)), texts)
    if longest * len(labels) > _LETTERS_BELOW:
        axes.tick_params("x", labelrotation=35)
        for text in axes.get_xticklabels():
            text.set(ha="right", va="top", rotation_mode="anchor")


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


def panels(
    systems: list[str], row_inches: float, x_label: str, *, shares_y: bool
) -> tuple[Figure, list[Axes]]:
    """A panel for each system, in one column or, where there are many, two."""
    num_columns = 1 if len(systems) <= _MOST_IN_A_COLUMN else 2
    num_rows = math.ceil(len(systems) / num_columns)
    size = (4 + 4 * num_columns, 1.3 + row_inches * num_rows)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, sharex=True, sharey=shares_y, squeeze=False)
    shown, left_over = grid.flat[: len(systems)], grid.flat[len(systems) :]
    for axes in left_over:
        axes.remove()
    for axes, system in zip(shown, systems, strict=True):
        axes.set_title(system, loc="left", fontsize="medium")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for axes in shown[-num_columns:]:
        axes.set_xlabel(x_label)
        axes.tick_params(labelbottom=True)
    return figure, list(shown)


def legend_below(figure: Figure, most_columns: int = 9, note: str | None = None) -> None:
    """What is in any of the panels, each once, below a note on all of them."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    num_columns = min(len(handles), most_columns)
    below = figure.legend(
        handles.values(),
        handles,
        title=note,
        frameon=False,
        loc="outside lower center",
        ncols=num_columns,
    )
    below.get_title().set(**SMALL)


def title(figure: Figure, text: str) -> None:
    """At the top left, over all panels."""
    figure.suptitle(text, x=0.01, ha="left", fontsize="large")


def note_runs(
    figure: Figure, summary: pd.DataFrame, *, has_bars: bool = True, note: str = ""
) -> None:
    """Say below a figure how many runs its points are means of, and what its bars are.

    note: what is said before that.
    """
    num_seeds = summary["seed"].nunique()
    several = f"mean of {num_seeds} runs" + ", bars: 95 % confidence interval" * has_bars
    text = several if num_seeds > 1 else "one run a point, so no interval"
    figure.supxlabel("; ".join(filter(None, (note, text))), x=0.99, ha="right", **SMALL)
