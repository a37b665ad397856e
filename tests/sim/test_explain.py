"""`kvsim explain`: what it says of a run and of one request, and of mistakes."""

import json
import shutil

import pandas as pd
import pytest

from sim.attribution import DECODE_PARTS, TTFT_PARTS
from sim.explain.bands import Band, band, verdict
from sim.explain.timeline import timeline
from sim.explain.words import WORDS
from sim.one_run import OneRun
from sim.plots.attribution import attribution

# Steps of 10 ms. The second request of each pair finds no slot, or no blocks, for 190 ms.
SCENARIO = """\
name: queues
latency: {kind: constant, step_time_s: 0.01}
engine: {block_size: 4, num_blocks: 8, max_model_len: 32}
workload:
  requests: 2
  arrivals: {constant: {rate: 1000}}
  prompts: {unique: 12}
  outputs: 20
systems:
  slots: {max_num_seqs: 1}
  blocks: {reserve_full_isl: false, watermark: 0.9}
"""


@pytest.fixture(scope="module")
def run_folder(kvsim_of_module):
    kvsim = kvsim_of_module
    (kvsim.folder / "queues.yaml").write_text(SCENARIO, "utf-8")
    done = kvsim("run", "queues.yaml", "--quiet", "--set", "replications=2")
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = kvsim.left()
    return f"runs/{name}"


def explained(kvsim, *args: str) -> dict:
    done = kvsim("explain", *args, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def mistake(kvsim, *args: str) -> str:
    """The one line that is said of it."""
    done = kvsim("explain", *args)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line.removeprefix("kvsim: ")


@pytest.mark.parametrize(
    ("system", "words", "setting"),
    [("slots", "wait for a slot", "max_num_seqs"), ("blocks", "wait for KV blocks", "num_blocks")],
)
def test_slow_requests_are_told_what_they_wait_for(
    kvsim_of_module, run_folder, system, words, setting
):
    """The first request runs from 1 to 201 ms. The second comes at 2, the step in flight ends at
    11; its own ends at 211: 190 of 209 ms in the queue, which is 91 %."""
    args = (run_folder, "--system", system, "--seed", "1")
    ttft = explained(kvsim_of_module, *args)["ttft"]
    assert ttft["verdict"] == f"the slow requests {words}: 91 % of their TTFT"
    assert setting in ttft["settings"][0]
    done = kvsim_of_module("explain", *args)
    assert f"the slow requests {words}: 91 % of their TTFT\n" in done.stdout


def test_means_of_parts_add_up_to_the_mean(kvsim_of_module, run_folder):
    found = explained(kvsim_of_module, run_folder, "--system", "slots", "--seed", "2")
    assert found["run"] == {"system": "slots", "seed": 2}
    for latency in ("ttft", "e2e"):
        for which in ("all", "slowest"):
            means = found[latency][which]
            assert sum(means["parts_s"].values()) == pytest.approx(means["mean_s"])
    assert found["ttft"]["all"]["requests"] == 2
    assert found["ttft"]["slowest"]["requests"] == 1


def test_life_of_a_request_is_told_in_order(kvsim_of_module, run_folder):
    args = (run_folder, "1", "--system", "slots", "--seed", "1")
    done = kvsim_of_module("explain", *args)
    assert (done.returncode, done.stderr) == (0, "")
    title, empty, *events = done.stdout.splitlines()
    assert (title, empty) == ("request 1 of system slots, seed 1", "")
    assert [line.split() for line in events] == [
        line.split()
        for line in (
            "0.002000 s  arrives: a prompt of 12 tokens, 1 run, 0 wait since the last step began",
            "0.201000 s  is admitted, after 9 ms step in flight, 190 ms queued for a slot",
            "0.211000 s  has its first token, after 1 step with 12 prompt tokens of all requests, "
            "10 ms own prefill",
            "0.401000 s  ends (stop) with 20 tokens: 190 ms of decodes",
        )
    ]
    events = explained(kvsim_of_module, *args)["events"]
    assert [event["time_ns"] for event in events] == [2e6, 201e6, 211e6, 401e6]


def test_preemptions_are_told_before_and_after_the_first_token():
    ms = 1_000_000
    facts = dict.fromkeys((*TTFT_PARTS, *DECODE_PARTS), 0) | {
        "arrival_ns": 0,
        "admitted_ns": 0,
        "first_token_ns": 90 * ms,
        "finished_ns": 190 * ms,
        "prompt_tokens": 8,
        "output_tokens": 3,
        "cached_tokens": 4,
        "preemptions": 2,
        "ttft_preempted_ns": 30 * ms,
        "ttft_recompute_ns": 20 * ms,
        "ttft_prefill_ns": 40 * ms,
        "decode_preempted_ns": 80 * ms,
        "decode_steps_ns": 20 * ms,
        "finish_reason": "length",
    }
    steps = pd.DataFrame({"start_ns": [0], "steps": [1], "prefill_tokens": [8]})
    assert [event.words for event in timeline(pd.Series(facts), steps)] == [
        "arrives: a prompt of 8 tokens, the engine idles",
        "is admitted with 4 tokens from the prefix cache, after no wait",
        "is preempted and waits 30 ms until it runs again, and computes again what it lost, in "
        "20 ms (preempted 2 times in all)",
        "has its first token, after 1 step with 8 prompt tokens of all requests, 40 ms own prefill",
        "is preempted and waits 80 ms until it runs again (preempted 2 times in all)",
        "ends (length) with 3 tokens: 20 ms of decodes",
    ]


def test_run_has_to_be_one(kvsim_of_module, run_folder):
    assert mistake(kvsim_of_module, run_folder, "--seed", "1") == (
        f"{run_folder}: has 2 such runs, expected one of --system slots, blocks"
    )
    assert mistake(kvsim_of_module, run_folder, "--system", "none") == (
        f"{run_folder}: has no run with system=none, expected one of --system slots, blocks; "
        "--seed 1, 2"
    )
    assert mistake(kvsim_of_module, run_folder, "--at", "seed=1") == (
        "--at: got 'seed=1', expected KEY=VALUE of a sweep"
    )


@pytest.mark.slow
def test_point_of_a_sweep_is_chosen_by_its_values(kvsim):
    (kvsim.folder / "queues.yaml").write_text(SCENARIO, "utf-8")
    sweep = "sweep={engine.num_blocks: [8, 16]}"
    assert kvsim("run", "queues.yaml", "--quiet", "--set", sweep).returncode == 0
    folder = f"runs/{kvsim.left()[0]}"
    assert mistake(kvsim, folder, "--system", "slots") == (
        f"{folder}: has 2 such runs, expected one of --at engine.num_blocks=8, 16"
    )
    found = explained(kvsim, folder, "--system", "slots", "--at", "engine.num_blocks=16")
    assert found["run"] == {"system": "slots", "engine.num_blocks": "16", "seed": 1}


def test_mistakes_name_what_was_expected(kvsim_of_module, run_folder):
    args = (run_folder, "7", "--system", "slots", "--seed", "1")
    assert mistake(kvsim_of_module, *args) == f"{run_folder}: got request 7, expected one of 0 to 1"
    assert mistake(kvsim_of_module, "nowhere") == (
        "nowhere: is no folder that `kvsim run` has left"
    )


@pytest.mark.parametrize("name", ["requests.csv", "steps.csv", "scenario.yaml"])
def test_a_file_that_is_not_as_the_run_left_it_is_named(
    kvsim_of_module, run_folder, tmp_path, name
):
    """A row less, a setting changed: what is said would be of no run."""
    folder = tmp_path / "copy"
    shutil.copytree(kvsim_of_module.folder / run_folder, folder)
    lines = (folder / name).read_text("utf-8").splitlines(keepends=True)
    (folder / name).write_text("".join(lines[:-1]), "utf-8")
    assert mistake(kvsim_of_module, str(folder)) == (
        f"{folder / name}: is missing or has changed since; remove the folder and run it again"
    )


def test_folder_of_an_earlier_version_is_named(kvsim_of_module, tmp_path):
    (tmp_path / "run.json").write_text("{}", "utf-8")
    assert mistake(kvsim_of_module, str(tmp_path)).startswith(
        f"{tmp_path / 'run.json'}: is damaged, or of another version; "
    )


def hand_made_requests() -> pd.DataFrame:
    """Of 100, request i has a TTFT of i + 1 s, all prefill but for the last, which waits half."""
    parts = dict.fromkeys((*TTFT_PARTS, *DECODE_PARTS), [0] * 100)
    times_ns = [i * 10**9 for i in range(1, 101)]
    parts["ttft_prefill_ns"] = [*times_ns[:-1], 50 * 10**9]
    parts["ttft_slots_ns"] = [0] * 99 + [50 * 10**9]
    return pd.DataFrame(
        {"arrival_ns": 0, "first_token_ns": times_ns, "finished_ns": times_ns, **parts}
    )


def test_band_has_the_requests_at_a_percentile_and_above():
    requests = hand_made_requests()
    assert band(requests, "ttft", 0).requests == 100
    assert band(requests, "ttft", 0).mean_s == 50.5
    slow = band(requests, "ttft", 99)
    assert (slow.requests, slow.least_s, slow.mean_s) == (2, 99, 99.5)
    assert slow.parts_s["ttft_prefill_ns"] == 74.5
    assert slow.parts_s["ttft_slots_ns"] == 25


def test_verdict_names_two_parts_where_none_is_half():
    parts_s = dict.fromkeys(TTFT_PARTS, 0.0)
    parts_s |= {"ttft_blocks_ns": 4.0, "ttft_prefill_ns": 3.5, "ttft_step_ns": 2.5}
    assert verdict(Band(1, 10.0, 10.0, parts_s), "ttft") == (
        "the slow requests wait for KV blocks (40 %) and compute their prompts (35 %): "
        "most of their TTFT"
    )


def test_every_part_has_words():
    assert set(WORDS) == {*TTFT_PARTS, *DECODE_PARTS}


def test_figure_has_a_bar_for_each_band():
    """All, and 51, 11 and 2 of 100 requests; only the last waits, 50 s."""
    figure = attribution([OneRun("a", {}, 1, hand_made_requests(), pd.DataFrame())])
    (axes,) = figure.axes
    widths = {
        bars.get_label(): [round(bar.get_width(), 2) for bar in bars] for bars in axes.containers
    }
    sums_s = [5050, sum(range(50, 101)), sum(range(90, 101)), 199]
    waits = [round(100 * 50 / sum_s, 2) for sum_s in sums_s]
    assert widths["queued for a slot"] == waits
    assert widths["own prefill"] == [round(100 - 100 * 50 / sum_s, 2) for sum_s in sums_s]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "all: 50.5 s",
        "p50 and above: 75 s",
        "p90 and above: 95 s",
        "p99 and above: 99.5 s",
    ]
