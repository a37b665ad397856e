"""`kvsim import metrics` and the parts of `kvsim diff` that read a scrape of vLLM.

The scrapes are written here, in the form of vLLM's /metrics.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from sim.errors import UserError
from sim.scenario.file import load_scenario
from sim.vllm_import.from_metrics import draft_of_metrics, fit_lognormal
from sim.vllm_import.histogram import Histogram, shares_of
from sim.vllm_import.scrape import Scrape, read_scrape
from sim.vllm_import.simulated import read_run
from workloads import LogNormal
from workloads.source import Source

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LABELS = f'engine="0",model_name="{MODEL}"'
LENGTHS = [m * 10**e for e in range(4) for m in (1, 2, 5)]
TIMES = [0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.25, 0.5, 1.0, 2.5]


def histogram_text(name: str, values, bounds, labels: str = LABELS) -> str:
    """Lines of a histogram of these values, by a loop of its own."""
    lines = []
    for bound in [*bounds, math.inf]:
        le = "+Inf" if math.isinf(bound) else float(bound)
        count = sum(1 for value in values if value <= bound)
        lines.append(f'vllm:{name}_bucket{{{labels},le="{le}"}} {float(count)}')
    lines += [
        f"vllm:{name}_sum{{{labels}}} {sum(values)}",
        f"vllm:{name}_count{{{labels}}} {float(len(values))}",
    ]
    return "\n".join(lines) + "\n"


def scrape_text(
    prompts, outputs, *, engine: str = "0", blocks: object = 2001, model: str = MODEL
) -> str:
    labels = f'engine="{engine}",model_name="{model}"'
    return (
        "# HELP vllm:prompt_tokens_total Number of prefill tokens processed.\n"
        "# TYPE vllm:prompt_tokens_total counter\n"
        f'vllm:cache_config_info{{block_size="16",cache_dtype="fp8",enable_prefix_caching="True",'
        f'engine="{engine}",gpu_memory_utilization="0.85",num_gpu_blocks="{blocks}"}} 1.0\n'
        + histogram_text("request_prompt_tokens", prompts, LENGTHS, labels)
        + histogram_text("request_generation_tokens", outputs, LENGTHS, labels)
        + f"vllm:prompt_tokens_total{{{labels}}} {sum(prompts)}\n"
        f"vllm:generation_tokens_total{{{labels}}} {sum(outputs)}\n"
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} {len(prompts) - 1}\n'
        f'vllm:request_success_total{{{labels},finished_reason="length"}} 1.0\n'
    )


SMALL = "process_start_time_seconds 1.7e+09\n" + scrape_text([10, 30, 200], [4, 5, 6])


def read(text: str, earlier: str | None = None, seconds: float | None = None) -> Scrape:
    before = None if earlier is None else Source("before.txt", earlier)
    return read_scrape(Source("after.txt", text), before, seconds)


def settings(scrape: Scrape) -> dict:
    return yaml.safe_load(draft_of_metrics(scrape).text())


def refused(text: str, earlier: str | None = None) -> str:
    with pytest.raises(UserError) as error:
        draft_of_metrics(read(text, earlier)).text()
    message = str(error.value)
    assert "\n" not in message
    return message


# --- histograms ---


def test_quantile_by_hand():
    """Ten values, four up to 1 and nine up to 3: rank 5 lies a fifth into the bucket 1 to 3."""
    histogram = Histogram("h", (1.0, 3.0, math.inf), (4.0, 9.0, 10.0), 20.0)
    assert histogram.mean == 2.0
    assert histogram.quantile(0.5) == pytest.approx((1.4, 1.0, 3.0))
    assert histogram.quantile(0.2) == pytest.approx((0.5, 0.0, 1.0))
    assert histogram.quantile(0.99) == (3.0, 3.0, math.inf)
    assert histogram.last_filled == math.inf


def test_values_lie_in_the_bucket_of_their_quantile():
    """Whatever the values, the exact percentile is between the bounds that are given."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        values = rng.lognormal(rng.normal(0, 2), rng.uniform(0.1, 2), size=rng.integers(1, 200))
        bounds = np.unique(rng.lognormal(0, 3, size=8))
        cumulative = [float((values <= bound).sum()) for bound in [*bounds, math.inf]]
        histogram = Histogram("h", (*bounds, math.inf), tuple(cumulative), float(values.sum()))
        for share in (0.5, 0.9, 0.99):
            exact = np.sort(values)[math.ceil(share * len(values) - 1e-9) - 1]
            found = histogram.quantile(share)
            assert found.low <= found.value <= found.high
            assert found.low <= exact <= found.high
        assert np.allclose(histogram.shares, shares_of(values, bounds.tolist()))


@pytest.mark.parametrize(("mean", "sigma"), [(900, 0.8), (200, 0.3), (5000, 1.5), (30, 1.0)])
def test_lognormal_is_found_again(mean, sigma):
    values = LogNormal(mean, sigma).sample(20_000, np.random.default_rng(3))
    bounds = (*LENGTHS, math.inf)
    cumulative = tuple(float((values <= bound).sum()) for bound in bounds)
    fitted = fit_lognormal(Histogram("h", bounds, cumulative, float(values.sum())))
    assert fitted.mean == pytest.approx(values.mean(), rel=1e-5)
    assert fitted.sigma == pytest.approx(sigma, abs=0.04)
    assert fitted.largest_gap < 0.02


# --- what becomes of a scrape ---


def test_scenario_of_a_scrape():
    found = settings(read(SMALL, seconds=12))
    assert found["model"] == "llama-3.1-8b"
    assert found["engine"]["block_size"] == 16
    assert found["engine"]["num_blocks"] == 2000  # 2,001 less the null block
    assert found["engine"]["enable_prefix_caching"] is True
    assert found["deployment"] == {"gpu_memory_utilization": 0.85, "kv_cache_dtype": "fp8"}
    assert found["workload"]["arrivals"] == {"poisson": {"rate": 0.25}}
    assert found["workload"]["prompts"]["unique"]["lognormal"]["mean"] == 80
    assert found["workload"]["prompts"]["unique"]["lognormal"]["max"] == 200
    assert found["workload"]["outputs"]["lognormal"]["mean"] == 5


def test_v0_has_no_null_block():
    """Nor a label of the engine, which V1 has."""
    found = settings(read(SMALL.replace('engine="0",', "")))
    assert found["engine"]["num_blocks"] == 2001


def test_early_v1_is_known_by_what_it_counts():
    """It has a null block too, before its metrics are labelled with the engine."""
    text = SMALL.replace('engine="0",', "")
    counted = f'vllm:gpu_prefix_cache_queries_total{{model_name="{MODEL}"}} 5\n'
    assert settings(read(text))["engine"]["num_blocks"] == 2001
    assert settings(read(text + counted))["engine"]["num_blocks"] == 2000


def test_context_is_at_most_what_the_next_bucket_would_say():
    """Buckets go 1, 2, 5, ... up to max_model_len, here to 5,000: it is below 10,000."""
    assert settings(read(SMALL))["engine"]["max_model_len"] == 9999


def test_one_engine_of_several_gets_its_share():
    text = scrape_text([10] * 4, [5] * 4) + scrape_text([20] * 4, [5] * 4, engine="1", blocks=1001)
    found = settings(read(text, seconds=4))
    assert found["engine"]["num_blocks"] == 1000
    assert found["workload"]["arrivals"] == {"poisson": {"rate": 1.0}}
    assert found["workload"]["prompts"]["unique"]["lognormal"]["mean"] == 15


def test_without_times_the_rate_is_asked_for():
    text = draft_of_metrics(read(SMALL)).text()
    assert "rate: 1.0}}  # requests/s: REPLACE; a scrape does not say when it was" in text


def test_times_of_samples_give_the_rate():
    """Three requests in 6 s since the start of the process, in 3 s between two scrapes."""
    counter = f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} 2'
    timed = SMALL.replace(counter, f"{counter} 1700000006000")
    assert settings(read(timed))["workload"]["arrivals"] == {"poisson": {"rate": 0.5}}
    before = "process_start_time_seconds 1.7e+09\n" + scrape_text([10], [5])
    stamp = f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} 0'
    before = before.replace(stamp, f"{stamp} 1700000003000")
    assert read(timed, before).duration_s == 3


def test_only_what_came_after_the_earlier_scrape_counts():
    first, then = [10, 20], [100, 110, 120]
    scrape = read(scrape_text(first + then, [5] * 5), scrape_text(first, [5] * 2))
    histogram = scrape.histogram("vllm:request_prompt_tokens")
    assert histogram == Histogram(
        "vllm:request_prompt_tokens",
        (*map(float, LENGTHS), math.inf),
        tuple(float(sum(v <= b for v in then)) for b in [*LENGTHS, math.inf]),
        float(sum(then)),
    )
    assert scrape.num_requests == 3


def test_lengths_without_histograms_are_said_to_be_assumed():
    text = "".join(line for line in SMALL.splitlines(True) if "_tokens_" not in line)
    text += (
        f"vllm:prompt_tokens_total{{{LABELS}}} 240\nvllm:generation_tokens_total{{{LABELS}}} 15\n"
    )
    draft = draft_of_metrics(read(text)).text()
    assert yaml.safe_load(draft)["workload"]["prompts"]["unique"]["lognormal"]["mean"] == 80
    assert "sigma is ASSUMED" in draft


def test_blocks_that_are_not_known_yet_are_left_out():
    assert "num_blocks" not in settings(read(SMALL.replace('"2001"', '"None"')))["engine"]


# --- what is wrong with a scrape ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html><body>404 Not Found</body></html>\n", "after.txt: is HTML, expected"),
        ('{"status": "success"}\n', "after.txt: is JSON, expected"),
        ("\n", "after.txt: is empty"),
        ("sglang:num_requests_total 3\n", "expected vllm:...; it has sglang:num_requests_total"),
        (SMALL[: SMALL.index("le=") + 4], "line 5: got 'vllm:request_prompt_tokens_"),
        (SMALL + "vllm:x{a=b} 1\n", "got 'vllm:x{a=b} 1', expected `name{label="),
        (SMALL + "vllm:x 1_0\n", "got 'vllm:x 1_0', expected"),
        (SMALL + SMALL, "with the labels of line 1, expected one scrape"),
        (SMALL.replace('le="+Inf"', 'le="9e9"'), 'has no le="+Inf", expected one'),
        (SMALL.replace('le="5.0"', 'le="five"'), "got le='five', expected a number"),
        (SMALL.replace("_sum{", "_gone{"), "vllm:request_prompt_tokens_sum: missing beside"),
        (
            SMALL.replace(',le="50.0"} 2.0', ',le="50.0"} 0.0'),
            "got 0, expected at least the 1 of a",
        ),
        (SMALL.replace("} 240\n", "} NaN\n"), "got nan, expected a number from 0"),
        (SMALL + scrape_text([1], [1], engine="1", model="other"), "2 models (meta-llama/"),
        (scrape_text([1], [1]).replace("} 1.0\n", "} 0.0\n"), "no request has ended in it"),
    ],
)
def test_what_is_no_scrape_is_one_line(text, message):
    assert message in refused(text)


def test_counters_that_were_set_back_are_refused():
    counter = f"vllm:prompt_tokens_total{{{LABELS}}}"
    later = SMALL.replace(f"{counter} 240", f"{counter} 230")
    number = later.splitlines().index(f"{counter} 230") + 1
    assert (
        f"line {number}: vllm:prompt_tokens_total: got 230, less than the 240 of before.txt, "
        f"line {number}"
    ) in refused(later, SMALL)


def test_another_start_of_the_server_is_refused():
    later = SMALL.replace("1.7e+09", "1.8e+09")
    assert "got 1.8e+09, not the 1.7e+09 of before.txt" in refused(later, SMALL)


def test_labels_with_escapes_and_braces_are_read():
    sample = (
        r'vllm:request_success_total{model_name="a\"}, b=\\1",finished_reason="x"} 2 1700000000'
    )
    scrape = read(sample + "\n")
    assert scrape.models == [r'a"}, b=\1']


# --- a run against a scrape ---


@pytest.fixture(scope="module")
def finished(kvsim_of_module):
    """A run of two systems, and the requests of one of them as a scrape would have them."""
    import pandas as pd

    kvsim = kvsim_of_module
    small = (kvsim.folder / "small.yaml").read_text("utf-8")
    two = "systems: {a: {}, b: {max_num_seqs: 1}}\n"
    (kvsim.folder / "two.yaml").write_text(small.replace("small", "two") + two, "utf-8")
    done = kvsim("run", "two.yaml", "--quiet")
    assert done.returncode == 0, done.stderr
    folder = next(Path(kvsim.folder / "runs").glob("two-*"))
    rows = pd.read_csv(folder / "requests.csv")
    rows = rows[rows["system"] == "b"]
    ttft = ((rows["first_token_ns"] - rows["arrival_ns"]) / 1e9).tolist()
    tpot = ((rows["finished_ns"] - rows["first_token_ns"]) / 3e9).tolist()
    text = (
        scrape_text(rows["prompt_tokens"].tolist(), rows["output_tokens"].tolist())
        + histogram_text("time_to_first_token_seconds", ttft, TIMES)
        + histogram_text("request_time_per_output_token_seconds", tpot, TIMES)
        + histogram_text("time_per_output_token_seconds", [2 * t for t in tpot], TIMES)
        + f"vllm:num_preemptions_total{{{LABELS}}} 10\n"
        + f"vllm:prefix_cache_queries_total{{{LABELS}}} 100\n"
        + f"vllm:prefix_cache_hits_total{{{LABELS}}} 25\n"
    )
    (kvsim.folder / "m.txt").write_text(text, "utf-8")
    return kvsim, str(folder)


def test_run_equals_the_scrape_of_itself(finished):
    """All means, counts and shares agree, and percentiles lie in their buckets."""
    kvsim, folder = finished
    done = kvsim("diff", folder, "m.txt", "--system", "b", "--json")
    found = json.loads(done.stdout)
    for name in ("time_to_first_token_seconds", "request_time_per_output_token_seconds"):
        rows = [row for row in found["metrics"] if row["metric"] == f"vllm:{name}"]
        assert [row["what"] for row in rows] == ["mean", "p50", "p90", "p99"]
        assert rows[0]["difference"] == pytest.approx(0, abs=1e-9)
        assert all(row["in_bucket"] for row in rows[1:])
    for shares in found["shares"]:
        assert shares["vllm"] == pytest.approx(shares["kvsim"])
    by_name = {(row["metric"], row["what"]): row for row in found["metrics"]}
    assert by_name["vllm:prompt_tokens_total", "per request"]["difference"] == 0
    assert by_name["vllm:num_preemptions_total", "per request"]["vllm"] == 2
    assert by_name["vllm:prefix_cache_hits_total", "share of queries"]["vllm"] == 0.25
    assert "vllm:request_queue_time_seconds" in found["missing"]


def test_gaps_between_tokens_have_the_name_of_the_version(finished):
    """The older one is time_per_output_token_seconds; here it is half in the simulation."""
    kvsim, folder = finished
    found = json.loads(kvsim("diff", folder, "m.txt", "--system", "b", "--json").stdout)
    row = next(r for r in found["metrics"] if r["metric"] == "vllm:time_per_output_token_seconds")
    assert (row["what"], row["difference"]) == ("mean", pytest.approx(-0.5))


def test_table_has_the_bucket_beside_the_percentile(finished):
    kvsim, folder = finished
    lines = kvsim("diff", folder, "m.txt", "--system", "b").stdout.splitlines()
    assert lines[0].endswith("system b: 5 requests")
    assert any(line.split()[:1] == ["p99"] and " to " in line and "=" in line for line in lines)


def test_which_system_has_to_be_said(finished):
    kvsim, folder = finished
    for args, message in (
        ((), "has the systems a, b; choose one by --system"),
        (("--system", "c"), "--system c: "),
    ):
        done = kvsim("diff", folder, "m.txt", *args)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_points_of_a_sweep_are_refused(finished):
    kvsim, _ = finished
    sweep = ("--set", "sweep.engine.max_num_seqs=[1, 2]")
    assert kvsim("run", "small.yaml", "--quiet", *sweep).returncode == 0
    folder = next((kvsim.folder / "runs").glob("small-*"))
    done = kvsim("diff", str(folder), "m.txt")
    assert done.returncode == 2
    assert "has 2 points of a sweep of engine.max_num_seqs, expected one" in done.stderr


def test_an_output_of_one_token_has_a_tpot_of_0(finished):
    """As vLLM observes it. Of one to five tokens, in steps of 10 ms."""
    kvsim, _ = finished
    lengths = ("--set", "workload.outputs={uniform: {low: 1, high: 5}}", "--set", "name=short")
    done = kvsim("run", "small.yaml", "--quiet", "--set", "workload.requests=40", *lengths)
    assert done.returncode == 0, done.stderr
    run = read_run(next((kvsim.folder / "runs").glob("short-*")), None)
    num_short = int((run.requests["output_tokens"] == 1).sum())
    assert 0 < num_short < 40
    assert sorted(run.tpot_s()) == pytest.approx([0] * num_short + [0.01] * (40 - num_short))


def test_requests_of_several_outputs_are_refused(finished):
    kvsim, _ = finished
    several = ("--set", "workload.n=2", "--set", "name=several")
    assert kvsim("run", "small.yaml", "--quiet", *several).returncode == 0
    folder = next((kvsim.folder / "runs").glob("several-*"))
    with pytest.raises(UserError, match=r"workload\.n: got 2, expected 1: vLLM counts each output"):
        read_run(folder, None)


def test_folder_that_is_no_run_is_refused(finished):
    kvsim, _ = finished
    done = kvsim("diff", "nowhere", "m.txt")
    assert (done.returncode, done.stderr) == (
        2,
        "kvsim: nowhere: is no folder that `kvsim run` has left\n",
    )


def test_command_writes_a_scenario_of_the_metrics(kvsim):
    (kvsim.folder / "m.txt").write_text(SMALL, "utf-8")
    done = kvsim("import", "metrics", "m.txt", "--seconds", "6", "--out", "mine.yaml")
    assert done.returncode == 0, done.stderr
    assert load_scenario(kvsim.folder / "mine.yaml").workload.requests == 1000
