"""What the figures of a run show, against the numbers that they were drawn from."""

from itertools import combinations

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from engine.kv_manager import KVUsage
from sim.one_run import OneRun
from sim.plots.memory import kv_memory, kv_shares
from sim.plots.queues import queues


def test_bars_are_the_mean_shares_of_each_system_and_wide_parts_say_so():
    """Two seeds each; `tail` is nowhere, and 3 % of `free` have no room for a number."""
    nothing = dict.fromkeys((f"{name}_share" for name in KVUsage._fields), 0.0)
    rows = pd.DataFrame(
        [
            nothing | {"system": "b", "seed": 1, "live_share": 0.5, "free_share": 0.5},
            nothing | {"system": "b", "seed": 2, "live_share": 0.7, "free_share": 0.3},
            nothing | {"system": "a", "seed": 1, "cached_share": 0.97, "free_share": 0.03},
            nothing | {"system": "a", "seed": 2, "cached_share": 0.97, "free_share": 0.03},
        ]
    )
    nobody = pd.DataFrame()
    figure = kv_shares(rows, OneRun("a", {"workload.rate": 7}, 1, nobody, nobody))
    (axes,) = figure.axes
    widths = {
        bars.get_label(): [round(bar.get_width(), 9) for bar in bars] for bars in axes.containers
    }
    assert widths == {"live": [60, 0], "cached": [0, 97], "free": [40, 3]}
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b", "a"]
    assert [text.get_text() for text in axes.texts] == ["60", "", "", "97", "40", ""]
    assert [bar.get_x() for bar in axes.containers[-1]] == [60, 97]
    assert figure.get_suptitle() == "KV memory, rate 7, mean of 2 runs"


def run_of(system: str, num_steps: int) -> OneRun:
    """Each step takes a second, some slots are in every class of the ledger."""
    row = {"duration_ns": 10**9, "running": 2, "waiting": 1, **dict.fromkeys(KVUsage._fields, 1)}
    return OneRun(system, {}, 1, pd.DataFrame(), pd.DataFrame([row] * num_steps))


@pytest.mark.parametrize("figure_of", [kv_memory, queues])
def test_every_run_is_shown_to_its_end_also_where_the_first_is_the_shortest(figure_of):
    figure = figure_of([run_of("short", 2), run_of("long", 9), run_of("middle", 5)])
    assert [axes.get_xlim() for axes in figure.axes] == [(0, 9)] * 3


@pytest.mark.parametrize("num_systems", [1, 3, 7])
def test_no_words_lie_over_others_or_are_cut(num_systems):
    figure = kv_memory([run_of(f"system {number}", 3) for number in range(num_systems)])
    FigureCanvasAgg(figure).draw()
    words = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    boxes = {text.get_text(): text.get_window_extent() for text in words if text.axes is None}
    assert {"over-reserved", "free", "% of KV slots"} <= boxes.keys()
    assert any(name.startswith("means over spells") for name in boxes)
    for box in boxes.values():
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert not [(a, b) for a, b in combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]
