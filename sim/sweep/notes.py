"""What is noted of the runs of a sweep: which time counts, and what they do not tell."""

import pandas as pd

from sim.one_run import words
from sim.steady import Warmup
from sim.sweep.run import intervals
from sim.sweep.table import METRICS


def of_window(frame: pd.DataFrame, warmup: Warmup) -> str:
    """How many runs a point is the mean of, and what of them counts."""
    num_seeds = frame["seed"].nunique()
    runs = f"mean of {num_seeds} runs with different seeds; ± is the 95 % interval"
    if num_seeds == 1:
        runs = "one run a point: its sampling error is not known (see --seeds, --precision)"
    if warmup.rule == "none":
        return f"{runs}; every request of a run counts"
    num_whole, why = (
        int(frame["fell_back"].sum()),
        "too few requests are sent or end while others come",
    )
    if num_whole == len(frame):
        return f"{runs}; whole runs count, for {why}"
    rule = "by MSER-5" if warmup.rule == "auto" else "as asked for"
    longest = frame["warmup_s"].max()
    cut = f"not counted: warm-up {rule} (at most {longest:.3g} s), and after the last arrival"
    if not num_whole:
        return f"{runs}; {cut}"
    return f"{runs}; {cut}; of {num_whole} of {len(frame)} runs the whole counts, for {why}"


def missed(frame: pd.DataFrame, precision: float) -> list[str]:
    """That the intervals are wider than asked for, with as many seeds as there may be."""
    widest = max(intervals(frame, METRICS), key=lambda one: one.share, default=None)
    if widest is None or widest.share <= precision:
        return []
    system, *labels = widest.point.items()
    point = ", ".join([str(system[1]), *(f"{words(key)} {value}" for key, value in labels)])
    return [
        f"--precision: {100 * precision:.6g} % is not reached with {frame['seed'].nunique()} "
        f"seeds, the most that are run: the widest 95 % interval is ± {100 * widest.share:.3g} % "
        f"of its mean, that of {METRICS[widest.metric]} at {point}"
    ]
