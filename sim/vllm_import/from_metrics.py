"""A scenario of a server and its load, from a scrape of its metrics."""

import re
from typing import Any, NamedTuple

import numpy as np

from engine.config import EngineConfig
from sim.errors import UserError
from sim.vllm_import.draft import Draft, scenario_name, set_model
from sim.vllm_import.histogram import Histogram
from sim.vllm_import.number_types import set_type
from sim.vllm_import.scrape import Scrape
from workloads import LogNormal

_PROMPTS = "vllm:request_prompt_tokens"
_OUTPUTS = "vllm:request_generation_tokens"
_SIGMAS = np.linspace(0.01, 4, 400)
_ASSUMED_SIGMA = 1.0
_INFO = "vllm:cache_config_info"


class Fitted(NamedTuple):
    """A lognormal of the histogram's mean, and the largest difference of a share at a bound."""

    mean: float
    sigma: float
    max: int | None
    largest_gap: float


def fit_lognormal(histogram: Histogram) -> Fitted:
    """The mean is the histogram's; sigma makes the squares of the gaps at its bounds least."""
    bounds = np.array(histogram.bounds[:-1])
    gaps = [_shares(histogram.mean, sigma, bounds) - histogram.shares for sigma in _SIGMAS]
    best = int(np.argmin([float(gap @ gap) for gap in gaps]))
    last = histogram.last_filled
    return Fitted(
        mean=float(f"{histogram.mean:.6g}"),
        sigma=round(float(_SIGMAS[best]), 2),
        max=int(last) if np.isfinite(last) else None,
        largest_gap=float(np.abs(gaps[best]).max(initial=0.0)),
    )


def _shares(mean: float, sigma: float, bounds: Any) -> Any:
    """P(X <= bound) of whole tokens X, as workloads.LogNormal draws them, at each bound."""
    from scipy.special import ndtr  # slow to import

    mu = np.log(mean) - sigma**2 / 2
    return ndtr((np.log(bounds + 0.5) - mu) / sigma)


def draft_of_metrics(scrape: Scrape) -> Draft:
    """A scenario in which every key says which metric it is from.

    Raises UserError for a scrape in which no request has ended.
    """
    if not scrape.num_requests:
        raise UserError(f"{scrape.name}: no request has ended in it, expected some")
    draft = Draft(scrape.name)
    draft.note(f"From the metrics of vLLM in {scrape.name}, by kvsim import metrics.")
    if scrape.num_engines > 1:
        draft.note(
            f"{scrape.num_engines} engines; one of them is simulated, with its share of the load."
        )
    draft.set("name", scenario_name(scrape.models[0] if scrape.models else ""), "of this scenario")
    set_model(draft, scrape.models, "label model_name")
    draft.set("hardware", "a100-80gb", "not in the metrics: REPLACE by your GPU")
    _cache(scrape, draft)
    _load(scrape, draft)
    _not_said(scrape, draft)
    return draft


def _cache(scrape: Scrape, draft: Draft) -> None:
    """Settings from the labels of the cache's gauge."""
    labels = [sample.labels for sample in scrape.cache_config]
    if not labels:
        draft.note(f"No {_INFO} in the scrape: engine is kvsim's default.")
        return
    if (size := labels[0].get("block_size", "")).isdecimal():
        draft.set("engine.block_size", int(size), f"{_INFO}, block_size")
    counts = [
        int(each["num_gpu_blocks"]) for each in labels if each.get("num_gpu_blocks", "").isdecimal()
    ]
    if counts:
        null = ", less the null block that no request gets" if scrape.is_v1 else ""
        comment = f"{_INFO}, num_gpu_blocks {min(counts)}{null}"
        draft.set("engine.num_blocks", max(min(counts) - scrape.is_v1, 1), comment)
    caching = labels[0].get("enable_prefix_caching")
    if caching in ("True", "False"):
        comment = f"{_INFO}, enable_prefix_caching"
        draft.set("engine.enable_prefix_caching", caching == "True", comment)
    share = labels[0].get("gpu_memory_utilization", "")
    if re.fullmatch(r"0?\.[0-9]{1,9}|1(\.0*)?", share):
        draft.set(
            "deployment.gpu_memory_utilization", float(share), f"{_INFO}, gpu_memory_utilization"
        )
    if cache_dtype := labels[0].get("cache_dtype"):
        comment = f"{_INFO}, cache_dtype {cache_dtype}"
        set_type(draft, "kv_cache_dtype", cache_dtype, comment)


def _load(scrape: Scrape, draft: Draft) -> None:
    _context(scrape, draft)
    num_requests = scrape.num_requests
    draft.set("workload.requests", 1000, f"{num_requests:,.0f} have ended in the scrape; choose")
    if scrape.duration_s:
        rate = float(f"{num_requests / scrape.duration_s / scrape.num_engines:.4g}")
        what = f"{num_requests:,.0f} requests in {scrape.duration_s:,.0f} s"
        if scrape.num_engines > 1:
            what += f", on {scrape.num_engines} engines"
    else:
        rate, what = (
            1.0,
            "requests/s: REPLACE; a scrape does not say when it was (--seconds, --since)",
        )
    draft.set("workload.arrivals", {"poisson": {"rate": rate}}, what)
    prompts, comment = _lengths(scrape, _PROMPTS, "vllm:prompt_tokens_total")
    draft.set("workload.prompts", {"unique": prompts}, comment)
    draft.set("workload.outputs", *_lengths(scrape, _OUTPUTS, "vllm:generation_tokens_total"))


def _lengths(scrape: Scrape, name: str, counter: str) -> tuple[dict[str, Any], str]:
    """A distribution, and where it is from."""
    histogram = scrape.histogram(name)
    if histogram is not None and histogram.total > 0 and len(histogram.bounds) > 1:
        fitted = fit_lognormal(histogram)
        lognormal: dict[str, Any] = {"mean": fitted.mean, "sigma": fitted.sigma}
        if fitted.max is not None:
            lognormal["max"] = fitted.max
        drawn = LogNormal(**lognormal).mean_tokens
        comment = (
            f"{name}: its mean, sigma by its buckets, whose shares are met within "
            f"{fitted.largest_gap:.1%}; mean of what is drawn {drawn:,.1f}"
        )
        return {"lognormal": lognormal}, comment
    total = scrape.total(counter)
    if not total:
        raise UserError(f"{scrape.name}: got neither {name} nor {counter}, expected one of them")
    mean = float(f"{total / scrape.num_requests:.6g}")
    comment = f"{counter} / request_success_total; sigma is ASSUMED, for {name} is not there"
    return {"lognormal": {"mean": mean, "sigma": _ASSUMED_SIGMA}}, comment


def _context(scrape: Scrape, draft: Draft) -> None:
    """The buckets of lengths are 1, 2, 5, 10, ... up to max_model_len."""
    histogram = scrape.histogram(_PROMPTS)
    if histogram is None or len(histogram.bounds) < 2:
        return
    last = int(histogram.bounds[-2])
    step = {"1": 2, "2": 5, "5": 10}.get(str(last).rstrip("0"))
    if step is None or last < EngineConfig.block_size:
        return
    after = last // int(str(last)[0]) * step
    comment = f"the buckets of lengths end at {last:,}: it is from that to {after - 1:,}; REPLACE"
    draft.set("engine.max_model_len", after - 1, comment)


def _not_said(scrape: Scrape, draft: Draft) -> None:
    if (hit_share := scrape.prefix_hit_share) is not None:
        draft.note(
            f"{hit_share:.1%} of the prompt tokens were prefix cache hits; prompts here share "
            "nothing: say what they do (workload.prompts.shared, workload.sessions)."
        )
    draft.note(
        "Not in the metrics, left at kvsim's default: engine.max_num_seqs, "
        "engine.max_num_batched_tokens, engine.async_scheduling, deployment but what is below; "
        "kvsim import vllm-log has them."
    )
