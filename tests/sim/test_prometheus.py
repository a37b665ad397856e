"""Results as metrics of Prometheus: valid text, names of vLLM, numbers of the run."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sim.definitions.plain import METRICS
from sim.prometheus.families import families_of_run
from sim.prometheus.text import Family, exposition, number
from sim.scenario.file import load_scenario

DASHBOARD = Path(__file__).parents[2] / "docs" / "dashboards" / "kvsim-vllm.json"
SCENARIO = """\
name: small
model: llama-3.1-8b
latency: {kind: linear, step_s: 0.02, per_prefill_token_s: 0.001}
engine: {block_size: 4, num_blocks: 200, max_model_len: 200, max_num_seqs: 4}
replicas: {count: 2}
replications: 2
workload:
  requests: 60
  arrivals: {poisson: {rate: 20}}
  prompts: {shared: {groups: 2, tokens: 24}, unique: {uniform: {low: 5, high: 60}}}
  outputs: {uniform: {low: 1, high: 40}}
systems:
  plain: {}
  sharing: {enable_prefix_caching: true}
"""
SMALL = """\
name: small
latency: {kind: constant, step_time_s: 0.01}
workload:
  requests: 5
  arrivals: {constant: {rate: 10}}
  prompts: {unique: 8}
  outputs: 4
"""


@pytest.fixture(scope="module")
def text(kvsim_of_module):
    """What the command prints, of two systems, two seeds and two replicas."""
    (kvsim_of_module.folder / "mine.yaml").write_text(SCENARIO, "utf-8")
    done = kvsim_of_module("run", "mine.yaml", "--format", "prometheus", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    (kvsim_of_module.folder / "metrics.prom").write_text(done.stdout, "utf-8")
    return done.stdout


@pytest.fixture(scope="module")
def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.fixture(scope="module")
def folder(kvsim_of_module, text):
    (name,) = kvsim_of_module.left()
    return kvsim_of_module.folder / "runs" / name


def total(families, family: str, sample: str, **labels: str) -> float:
    return sum(
        s.value
        for s in families[family].samples
        if s.name == sample and labels.items() <= s.labels.items()
    )


def test_types_and_labels_are_those_of_vllm(families):
    assert families["vllm:time_to_first_token_seconds"].type == "histogram"
    assert families["vllm:generation_tokens"].type == "counter"
    assert families["vllm:num_requests_running"].type == "gauge"
    labels = families["vllm:kv_cache_usage_perc"].samples[0].labels
    assert labels == {"model_name": "llama-3.1-8b", "engine": "0", "system": "plain", "seed": "1"}


def test_every_sample_is_there_once(families):
    keys = [(s.name, tuple(sorted(s.labels.items()))) for f in families.values() for s in f.samples]
    assert len(keys) == len(set(keys))


def test_histogram_counts_the_requests_of_the_run(families, folder):
    rows = pd.read_csv(folder / "requests.csv")
    chosen = rows[(rows["system"] == "sharing") & (rows["seed"] == 2)]
    ttft_s = (chosen["first_token_ns"] - chosen["arrival_ns"]) / 1e9
    name, labels = "vllm:time_to_first_token_seconds", {"system": "sharing", "seed": "2"}
    assert total(families, name, f"{name}_count", **labels) == 60
    assert total(families, name, f"{name}_sum", **labels) == pytest.approx(ttft_s.sum())
    for bound in (0.04, 0.1, 0.25):
        found = total(families, name, f"{name}_bucket", le=str(bound), **labels)
        assert found == (ttft_s <= bound).sum()


def test_gaps_between_tokens_have_the_count_and_the_mean_of_the_summary(families, folder):
    summary = pd.read_csv(folder / "summary.csv")
    row = summary[(summary["system"] == "plain") & (summary["seed"] == 1)].iloc[0]
    for name in ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"):
        count = total(families, name, f"{name}_count", system="plain", seed="1")
        sum_s = total(families, name, f"{name}_sum", system="plain", seed="1")
        assert count == row["output_tokens"] - row["finished"]
        assert sum_s / count == pytest.approx(row["itl_mean_s"])


def test_lengths_have_bounds_up_to_the_context(families):
    samples = families["vllm:request_prompt_tokens"].samples
    bounds = list(dict.fromkeys(s.labels["le"] for s in samples if "le" in s.labels))
    expected = ["1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "100.0", "200.0", "+Inf"]
    assert bounds == expected


def test_counters_add_up_over_the_engines(families, folder):
    summary = pd.read_csv(folder / "summary.csv").set_index(["system", "seed"])
    row = summary.loc[("sharing", 1)]
    for name, column in (
        ("vllm:generation_tokens", "output_tokens"),
        ("vllm:num_preemptions", "preemptions"),
        ("vllm:prefix_cache_queries", "prefix_query_tokens"),
        ("vllm:prefix_cache_hits", "prefix_hit_tokens"),
        ("vllm:request_success", "finished"),
    ):
        assert total(families, name, f"{name}_total", system="sharing", seed="1") == row[column]


def test_gauges_are_the_means_over_time(families, folder):
    rows = pd.read_csv(folder / "replicas.csv")
    chosen = rows[(rows["system"] == "plain") & (rows["seed"] == 1) & (rows["replica"] == 1)]
    name = "vllm:kv_cache_usage_perc"
    usage = total(families, name, name, system="plain", seed="1", engine="1")
    assert usage == pytest.approx(chosen["block_utilisation"].item())


def test_percentiles_are_exact_under_names_of_kvsim(families, folder):
    summary = pd.read_csv(folder / "summary.csv").set_index(["system", "seed"])
    labels = {"system": "plain", "seed": "2", "quantile": "0.99"}
    found = total(families, "kvsim:ttft_seconds", "kvsim:ttft_seconds", **labels)
    assert found == summary.loc[("plain", 2), "ttft_p99_s"]


def test_every_column_of_the_summary_has_a_meaning(folder):
    columns = set(pd.read_csv(folder / "summary.csv").columns) - {"system", "seed"}
    assert columns - METRICS.keys() == set()
    assert METRICS.keys() - columns == {"slo_share", "goodput_per_s"}  # nobody is promised anything


@pytest.mark.parametrize("system", ["plain", "sharing"])
def test_run_differs_from_its_own_metrics_by_buckets_alone(kvsim_of_module, folder, system):
    done = kvsim_of_module("diff", str(folder), "metrics.prom", "--system", system, "--json")
    found = json.loads(done.stdout)
    assert found["scrape_requests"] == found["requests"] == 120
    for row in found["metrics"]:
        if row["bucket"] is None:
            assert row["kvsim"] == pytest.approx(row["vllm"], rel=1e-9), row
        elif "inter_token" not in row["metric"]:  # of which there is a percentile a seed
            assert row["in_bucket"], row
    for shares in found["shares"]:
        assert shares["vllm"] == pytest.approx(shares["kvsim"])


def exported(folder):
    """The families of a run folder by name, read back from their text."""
    made = exposition(families_of_run(folder, load_scenario(folder / "scenario.yaml")))
    return {family.name: family for family in text_string_to_metric_families(made)}


def test_swept_keys_are_labels(new_run):
    families = exported(new_run(f"{SMALL}sweep: {{engine.block_size: [4, 8]}}\n"))
    samples = [sample for family in families.values() for sample in family.samples]
    sizes = {sample.labels["engine_block_size"] for sample in samples}
    assert sizes == {"4", "8"}


def test_refused_requests_are_in_no_metric_of_vllm(new_run):
    lengths = SMALL.replace("unique: 8", "unique: {uniform: {low: 1, high: 30}}")
    many = lengths.replace("requests: 5", "requests: 50")
    families = exported(new_run(f"{many}engine: {{num_blocks: 5, block_size: 4}}\n"))
    refused = total(families, "kvsim:refused", "kvsim:refused_total")
    ended = total(families, "vllm:request_success", "vllm:request_success_total")
    assert refused > 0
    assert refused + ended == 50


def test_labels_are_escaped():
    family = Family("a", "gauge", "meaning")
    family.add({"name": 'say "no"\\\n'}, 1)
    (parsed,) = text_string_to_metric_families(exposition([family]))
    assert parsed.samples[0].labels == {"name": 'say "no"\\\n'}


def test_value_that_is_not_known_has_no_sample():
    family = Family("a", "gauge", "meaning")
    family.add({}, float("nan"))
    assert exposition([family]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1.0"), (0.001, "0.001"), (1e6, "1e+06"), (2e6, "2e+06"), (float("inf"), "+Inf")],
)
def test_bounds_are_written_as_the_client_of_vllm_writes_them(value, text):
    assert number(value) == text


def test_json_and_prometheus_contradict_each_other(kvsim):
    done = kvsim("run", "small.yaml", "--json", "--format", "prometheus")
    assert done.returncode == 2
    assert (
        done.stderr == "kvsim: --json: got --format prometheus beside it, expected one of the two\n"
    )


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_dashboard_asks_only_for_what_is_exported(families):
    """But for the variables, which are asked for by one of the same metrics."""
    exported = {s.name for family in families.values() for s in family.samples}
    asked = set(re.findall(r"(?:vllm|kvsim):\w+", DASHBOARD.read_text("utf-8")))
    assert asked - exported == set()
    shown = {name.partition("_bucket")[0] for name in asked}
    assert {"vllm:time_to_first_token_seconds", "vllm:kv_cache_usage_perc"} <= shown


def test_dashboard_reads_a_run_as_totals_and_a_vllm_as_chosen():
    of_runs = [each for each in expressions() if 'system=~"$system"' in each]
    assert len(of_runs) > 10
    assert [each for each in of_runs if "rate(" in each or "$over" in each] == []


def test_dashboard_has_a_real_and_a_simulated_line_in_each_panel():
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        if targets := [target["expr"] for target in panel.get("targets", [])]:
            sides = {"vllm" if "$vllm" in each else "kvsim" for each in targets}
            assert sides == ({"kvsim"} if panel["title"].startswith("kvsim") else {"vllm", "kvsim"})
