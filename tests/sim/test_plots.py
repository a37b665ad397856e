"""What the figures of a run show, against the numbers that they were drawn from."""

import pandas as pd

from engine.kv_manager import KVUsage
from sim.one_run import OneRun
from sim.plots.memory import kv_shares


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
