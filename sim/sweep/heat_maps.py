"""Heat maps of a sweep over two numbers."""

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from sim.one_run import words
from sim.plots.scales import MOST_CELLS, is_time
from sim.plots.style import SECONDS, note_runs
from sim.sweep.table import SHOWN, swept_keys
from sim.tables import number

FloatArray = npt.NDArray[np.float64]

_MOST_DECADES = 2  # of values, before colours go by their logarithm


def heat_maps(frame: pd.DataFrame, metric: str) -> Figure:
    """A panel for each system: means over the seeds, a cell for each point."""
    first, second = swept_keys(frame)
    systems = list(frame["system"].unique())
    figure = Figure(figsize=(1.5 + 4.2 * len(systems), 4.2), layout="constrained")
    panels = figure.subplots(1, len(systems), squeeze=False)[0]
    means = frame.groupby(["system", first, second])[metric].mean()
    low, high = float(means.min()), float(means.max())
    norm = "log" if low > 0 and high / low > 10**_MOST_DECADES else "linear"
    for axes, system in zip(panels, systems, strict=True):
        cells = means[system].unstack(first).sort_index(ascending=False)
        image = axes.imshow(cells, cmap="cividis", norm=norm, aspect="auto")
        image.set_clim(low, high)
        axes.set_xticks(range(cells.shape[1]), [f"{value:g}" for value in cells.columns])
        axes.set_yticks(range(cells.shape[0]), [f"{value:g}" for value in cells.index])
        axes.set_xlabel(words(first))
        axes.set_ylabel(words(second))
        axes.set_title(str(system), loc="left")
        if max(cells.shape) <= MOST_CELLS:
            _write_values(axes, cells.to_numpy(float), image, metric)
    bar = figure.colorbar(image, ax=list(panels), label=SHOWN[metric])
    if is_time(metric):
        bar.ax.yaxis.set_major_formatter(SECONDS)
    note_runs(figure, frame, has_bars=False)
    return figure


def _write_values(axes: Axes, cells: FloatArray, image: AxesImage, metric: str) -> None:
    shades = np.asarray(image.cmap(image.norm(cells)))  # [rows, columns, red to alpha]
    is_dark = shades[..., :3] @ np.array([0.3, 0.6, 0.1]) < 0.5
    for (row, column), value in np.ndenumerate(cells):
        if np.isnan(value):
            continue
        text = SECONDS(float(f"{value:.2g}")) if is_time(metric) else number(value)
        colour = "white" if is_dark[row, column] else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
