"""What a run has shown, in sentences."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from sim.explain.bands import SLOW, band, largest_parts, verdict
from sim.explain.words import WORDS
from sim.metrics import half_width_95
from sim.one_run import OneRun, point_in_words
from sim.sweep.paired import differences
from sim.tables import rounded_up, with_interval

_NAMES = {
    "output_tokens_per_s": "output tokens/s",
    "ttft_mean_s": "mean TTFT",
    "tpot_mean_s": "mean TPOT",
}
_ROUNDING = 1e-9  # of a mean: what differs by less does not differ
_EQUAL = 0.02  # of the throughput: what differs by less, as where all follow the load, is equal
_MOST_NAMED = 6  # systems, in sentences
_NEARLY_ALL = -95  # percent less, from where on their tenths count


def sentences(at_point: pd.DataFrame, runs: list[OneRun]) -> list[str]:
    """The best system and by how much, what limits each, and how sure that is.

    at_point: rows of the summary at one point of the sweep, all seeds. runs: of each system there
    the first run.
    """
    num_seeds = at_point["seed"].nunique()
    where = point_in_words(runs[0], num_seeds)
    lines = [_best(at_point, where) if len(runs) > 1 else _alone(at_point, where)]
    lines += _refusals(at_point)
    lines += [_limit(run, num_seeds) for run in runs[:_MOST_NAMED]]
    if len(runs) > 1:
        lines += list(compared(at_point))[: _MOST_NAMED - 1]
    if len(runs) > _MOST_NAMED:
        lines.append(f"{len(runs) - _MOST_NAMED} more systems are in the tables below.")
    return [*lines, *doubt(at_point)]


def _refusals(rows: pd.DataFrame) -> Iterator[str]:
    """Of requests that fit nowhere, which then are in none of the latencies."""
    for system, of_system in rows.groupby("system", sort=False):
        num_refused, num_requests = (int(of_system[name].sum()) for name in ("refused", "requests"))
        if num_refused:
            yield f"{system} refuses {num_refused:,} of {num_requests:,} requests."


def doubt(frame: pd.DataFrame) -> list[str]:
    """That nothing is known of other seeds, where nothing is."""
    if frame["seed"].nunique() > 1:
        return []
    each = " each" if frame["system"].nunique() > 1 else ""
    return [f"One run{each}, so nothing tells how far another seed would differ."]


def _means(rows: pd.DataFrame, metric: str) -> str:
    scale, unit = (1, "output tokens/s") if metric == "output_tokens_per_s" else (1000, "ms")
    values = scale * rows[metric].dropna().to_numpy(float)
    return f"{with_interval(float(values.mean()), half_width_95(values))} {unit}"


def _alone(rows: pd.DataFrame, where: str) -> str:
    per_s, ttft = (_means(rows, name) for name in ("output_tokens_per_s", "ttft_mean_s"))
    return f"{rows['system'].iloc[0]}, {where}: {per_s}, a first token after {ttft} in the mean."


def _best(rows: pd.DataFrame, where: str) -> str:
    """By throughput or, where that is equal, by the time to first token."""
    per_s = rows.groupby("system", sort=False)["output_tokens_per_s"].mean()
    is_equal = per_s.min() > (1 - _EQUAL) * per_s.max()
    metric = "ttft_mean_s" if is_equal else "output_tokens_per_s"
    means = rows.groupby("system", sort=False)[metric].mean().dropna()
    ranked = list(means.sort_values(ascending=is_equal, kind="stable").index)
    equal = [name for name in ranked if np.isclose(means[name], means[ranked[0]], rtol=_ROUNDING)]
    best, *others = ranked
    second = next((name for name in others if name not in equal), None)
    value = _means(rows[rows["system"] == best], metric)
    what = (
        f"the earliest first tokens, after {value} in the mean"
        if is_equal
        else f"the most, {value}"
    )
    even = ", with equal throughput" if is_equal else ""
    gives = f"{best} gives" if len(equal) == 1 else f"{_listed(equal)} all give"
    return f"{gives} {what} ({where}{even}){_lead(rows, metric, best, second)}."


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _lead(rows: pd.DataFrame, metric: str, best: str, second: str | None) -> str:
    """By how much it leads, and whether the runs tell that at all."""
    if second is None:
        return ""
    pair = rows[rows["system"].isin([best, second])].copy()
    pair["system"] = pd.Categorical(pair["system"], [second, best])
    paired = differences(pair.sort_values("system"), (metric,))
    if paired.empty:
        return ""
    found = paired.iloc[0]
    if found["half_width"] is not None and found["half_width"] >= abs(found["difference"]):
        return f"; the runs do not tell it from {second}"
    if not round(100 * found["share"]):
        return f"; {second} is within 1 % of it"
    return f", {_percent(found)} against {second}, the next best"


def _percent(found: pd.Series) -> str:
    """Of the mean of the other, by how much it differs, with the interval where there is one."""
    percent, width = 100 * found["share"], found["share_half_width"]
    size = f"{abs(percent):.{1 if percent < _NEARLY_ALL else 0}f}"
    interval = "" if pd.isna(width) else f" ± {rounded_up(100 * width, size)}"
    sign = "" if not float(size) else "-" if percent < 0 else "+"
    return f"{sign}{size}{interval} %"


def _limit(run: OneRun, num_seeds: int) -> str:
    """By the requests of one run, which its seed names among several."""
    slow = band(run.requests, "ttft", SLOW)
    settings = WORDS[largest_parts(slow)[0]].settings
    of_seed = f" (seed {run.seed})" if num_seeds > 1 else ""
    return (
        f"What limits {run.system}: {verdict(slow, 'ttft')}{of_seed}. What bears on it: {settings}."
    )


def compared(rows: pd.DataFrame, over: str = "") -> Iterator[str]:
    """Each system against the first, under the same seeds.

    over: of several points their means are compared, and this says so.
    """
    first, *others = rows["system"].unique()
    for system in others:
        shared, num_left_out = _where_both_serve(rows[rows["system"].isin([first, system])])
        means = shared.groupby(["system", "seed"], sort=False)[[*_NAMES]].mean().reset_index()
        found = [
            f"{_NAMES[row['metric']]} {_percent(row)}"
            for _, row in differences(means, tuple(_NAMES)).iterrows()
            if not pd.isna(row["share"])
        ]
        on = "on the same requests"
        if shared["refused"].any():
            on = "each over the requests that it serves"
        but = f" but {num_left_out}, where one of them serves nobody" if num_left_out else ""
        if found:
            yield f"{system} against {first}, {on}{over}{but}: {', '.join(found)}."


def _where_both_serve(pair: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The rows of two systems at points where both serve somebody with every seed, and how many
    points are left out.
    """
    keys = list(pair.columns[1 : pair.columns.get_loc("seed")])
    if not keys:
        return pair, 0
    is_served = pair["ttft_mean_s"].notna()
    is_shared = is_served.groupby([pair[key] for key in keys], dropna=False).transform("all")
    return pair[is_shared], len(pair.loc[~is_shared, keys].drop_duplicates())
