"""Bars that are made of parts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from sim.plots.scales import LEAST_LABELLED_PERCENT
from sim.plots.style import text_colour


class Part(NamedTuple):
    """percents: [bars], of each bar."""

    label: str
    colour: str
    percents: npt.NDArray[np.float64]
    is_hatched: bool = False


def percent_bars(axes: Axes, names: Sequence[str], parts: Sequence[Part]) -> None:
    """A lying bar for each name, from the top, of those parts that any of them has."""
    places = range(len(names))[::-1]
    left = np.zeros(len(names))
    for part in (part for part in parts if part.percents.any()):
        bars = axes.barh(
            places,
            part.percents,
            0.75,
            left,
            label=part.label,
            color=part.colour,
            edgecolor="white",
            linewidth=0,
            hatch="////" if part.is_hatched else None,
        )
        labels = [f"{p:.0f}" if p >= LEAST_LABELLED_PERCENT else "" for p in part.percents]
        axes.bar_label(bars, labels, label_type="center", color=text_colour(part.colour))
        left += part.percents
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_ylim(-0.6, len(names) - 0.4)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
