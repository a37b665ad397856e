"""How near predictions are to real runs: what docs/validation.md says, held to its promise.

No constant was tuned on the case that a test is about, but where the test says so. Bounds are the
goals, or about twice what is reached where that is far better, so that a mistake shows.
"""

import os
from functools import cache
from pathlib import Path

import pytest

from sim.validation.case import MeasuredBy
from sim.validation.command import Validated, validate_case
from sim.validation.fit_host import fit_host_cost
from sim.validation.host_cost import HostCost, default_host_cost
from sim.validation.score import over_rows

DATA = os.environ.get("KVSIM_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="needs the measured runs of KVSIM_DATA"),
]
TIMES = [f"{metric}_{part}_s" for metric in ("ttft", "tpot", "e2e") for part in ("mean", "p50")]
TAILS = [f"{metric}_{part}_s" for metric in ("ttft", "tpot", "e2e") for part in ("p90", "p99")]


def folder(name: str) -> Path:
    return Path(DATA or "") / "validation" / name


@cache
def validated(name: str, kind: str) -> Validated:
    return validate_case(folder(name), kind, [], None)


def errors(name: str, kind: str) -> dict[str, float]:
    """Of the only run in a folder."""
    (scored,) = validated(name, kind).scored
    return scored.errors


def medians(found: Validated, *, is_kv_limited: bool = False) -> dict[str, float]:
    """Median absolute error over rows, by metric."""
    rows = [one for one in found.scored if one.is_kv_limited is is_kv_limited]
    return over_rows(rows)["median_absolute"].to_dict()


def test_rtx_4090_by_its_profile_within_1_5_percent():
    found = errors("rtx4090-llama-3.1-8b", "profile")
    off = {name: found[name] for name in [*TIMES, *TAILS, "output_tokens_per_s"]}
    assert {name: error for name, error in off.items() if abs(error) > 0.015} == {}


def test_rtx_pro_6000_by_its_profile_and_an_assumed_host():
    """Means; TTFT within 8 %, the others within 4 %."""
    found = errors("rtxpro6000-llama-3.1-8b", "profile")
    assert abs(found["ttft_mean_s"]) < 0.08
    for name in ("tpot_mean_s", "e2e_mean_s", "output_tokens_per_s"):
        assert abs(found[name]) < 0.04, name


def test_rtx_pro_6000_by_its_profile_and_its_own_host():
    """Means within 2 % with the host's cost fitted on the case itself."""
    name = "rtxpro6000-llama-3.1-8b"
    free = validate_case(folder(name), "profile", [], HostCost(0.0, 0.0, ""))
    own = fit_host_cost(name, free.scored)
    (scored,) = validate_case(folder(name), "profile", [], own).scored
    for metric in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s", "output_tokens_per_s"):
        assert abs(scored.errors[metric]) < 0.02, metric


@pytest.mark.parametrize("name", ["rtx4090-llama-3.1-8b", "rtxpro6000-llama-3.1-8b"])
@pytest.mark.parametrize(("kind", "within"), [("roofline", 0.05), ("roofline-common", 0.12)])
def test_traces_by_roofline(name, kind, within):
    """Within 5 % with the shares that the GPU was measured to reach, 12 % with common ones."""
    found = errors(name, kind)
    assert abs(found["e2e_mean_s"]) < within
    assert abs(found["output_tokens_per_s"]) < within


def test_closed_loop_by_measured_kernels():
    """70B with its own host cost: TPOT 4 %, TTFT 6 %; Qwen3-32B with that: 7 % and 20 %.

    The step budget of the Qwen3-32B rows is not recorded; it was chosen by them.
    """
    pytest.importorskip("aiconfigurator_core", reason="needs the extra silicon")
    llama = validated("h100-llama-70b-fp8-closedloop", "silicon")
    assert medians(llama)["tpot_mean_s"] < 0.04
    assert medians(llama)["ttft_mean_s"] < 0.06
    assert medians(llama, is_kv_limited=True)["ttft_mean_s"] < 0.3
    qwen = validated("h100-qwen3-32b-closedloop", "silicon")
    assert medians(qwen)["tpot_mean_s"] < 0.07
    assert medians(qwen)["ttft_mean_s"] < 0.2
    assert medians(qwen, is_kv_limited=True)["ttft_mean_s"] < 0.3


@pytest.mark.parametrize(
    ("name", "tpot", "ttft", "limited_ttft"),
    [
        ("h100-llama-70b-fp8-closedloop", 0.06, 0.07, 0.17),
        ("h100-qwen3-32b-closedloop", 0.06, 0.2, 0.3),
    ],
)
def test_closed_loop_by_roofline(name, tpot, ttft, limited_ttft):
    """Goals are 12 %, 25 % and 30 %. Host cost and step budget as by measured kernels."""
    found = validated(name, "roofline")
    assert medians(found)["tpot_mean_s"] < tpot
    assert medians(found)["ttft_mean_s"] < ttft
    assert medians(found, is_kv_limited=True)["ttft_mean_s"] < limited_ttft


def test_the_rows_that_memory_limits_are_the_right_ones():
    """Those whose TTFT is tens of seconds: with 2 GPUs, long sequences and many clients."""
    found = validated("h100-llama-70b-fp8-closedloop", "roofline")
    limited = [one.point.labels for one in found.scored if one.is_kv_limited]
    assert [(row["tp"], row["isl"], row["osl"], row["concurrency"]) for row in limited] == [
        (2, 1024, 8192, 64),
        (2, 8192, 1024, 32),
        (2, 8192, 1024, 64),
    ]


def test_a_burst_by_roofline():
    """TPOT within 4 % with a host cost fitted on the case itself."""
    found = validated("h100-64gb-llama-3.1-8b-burst", "roofline")
    assert medians(found)["tpot_mean_s"] < 0.04


@pytest.mark.parametrize("name", ["a100-40gb-static-batch", "h100-static-batch"])
def test_static_batches_by_roofline(name):
    """Within 10 %; the host's cost was fitted on the H100's rows."""
    assert medians(validated(name, "roofline"))["span_s"] < 0.1


FITTED = [
    (MeasuredBy.CLIENT_OF_ASYNC_SERVER, "h100-llama-70b-fp8-closedloop", "roofline"),
    (MeasuredBy.CLIENT_OF_ASYNC_SERVER, "h100-llama-70b-fp8-closedloop", "silicon"),
    (MeasuredBy.CLIENT_OF_SYNC_SERVER, "h100-64gb-llama-3.1-8b-burst", "roofline"),
    (MeasuredBy.OFFLINE, "h100-static-batch", "roofline"),
]


@pytest.mark.parametrize(("measured_by", "name", "kind"), FITTED)
def test_host_costs_are_those_that_a_fit_finds(measured_by, name, kind):
    """To 2 %: who changes step times has to fit them again."""
    if kind == "silicon":
        pytest.importorskip("aiconfigurator_core", reason="needs the extra silicon")
    free = validate_case(folder(name), kind, [], HostCost(0.0, 0.0, ""))
    known = default_host_cost(measured_by, kind)
    assert fit_host_cost(name, free.scored)[:2] == pytest.approx(known[:2], rel=0.02)


@pytest.mark.parametrize("run", ["load_low", "mixed_load_steps"])
def test_vllm_on_two_cores_by_steps_fitted_on_both_runs(run):
    """Within 10 %; the fit has seen the steps of these runs, though not when requests came."""
    runs = folder("vllm-cpu-small-llama")
    steps = [runs / name / "steps.csv" for name in ("load_low", "mixed_load_steps")]
    (scored,) = validate_case(runs / run, "fitted", steps, None).scored
    for name in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s"):
        assert abs(scored.errors[name]) < 0.1, name
