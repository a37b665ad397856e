"""What a prefix cache would find of a trace, by its size."""

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from sim.plots.colours import SYSTEM_COLOURS
from sim.plots.style import SMALL, SYSTEM_MARKERS, tidy
from sim.trace.describe import Sharing

_TITLES = {"lru": "LRU", "lfu": "LFU", "optimum": "optimum (knows what comes)"}


def hit_curves(sharing: Sharing) -> Figure:
    """A line for each policy: share of the prompt tokens found, against blocks of the cache."""
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for place, (policy, title) in enumerate(_TITLES.items()):
        points = [point for point in sharing.points if point.policy == policy]
        axes.plot(
            [point.num_blocks for point in points],
            [point.token_share for point in points],
            label=title,
            color=SYSTEM_COLOURS[place],
            marker=SYSTEM_MARKERS[place],
        )
    sizes = sorted({point.num_blocks for point in sharing.points})
    axes.set_xscale("log")
    axes.set_xticks(sizes)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"cache, blocks of {sharing.block_size:,} tokens")
    axes.set_ylabel("prompt tokens found")
    axes.axhline(sharing.token_share, color="#555555", lw=0.8, ls="--", label="all are kept")
    tidy(axes)
    figure.suptitle("What a prefix cache finds", x=0.01, ha="left", fontsize="large")
    axes.set_title("requests one after the other, as if answers took no time", loc="left", **SMALL)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    return figure
