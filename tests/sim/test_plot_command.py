"""`kvsim plot`: one figure of a run that is there."""

import numpy as np
import pandas as pd
import pytest

from sim.binned import binned
from sim.plots.run_figures import FIGURES

SCENARIO = """\
name: seen
latency: {kind: constant, step_time_s: 0.01}
engine: {block_size: 4, num_blocks: 24, max_num_seqs: 4, max_model_len: 64}
workload:
  requests: 12
  arrivals: {poisson: {rate: 50}}
  prompts: {shared: {groups: 1, tokens: 8}, unique: 5}
  outputs: {uniform: {low: 2, high: 12}}
systems:
  plain: {}
  sharing: {enable_prefix_caching: true}
replications: 2
sweep: {workload.arrivals.poisson.rate: [20, 50]}
"""


@pytest.fixture(scope="module")
def run_folder(kvsim_of_module):
    kvsim = kvsim_of_module
    (kvsim.folder / "seen.yaml").write_text(SCENARIO, "utf-8")
    done = kvsim("run", "seen.yaml", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = kvsim.left()
    return f"runs/{name}"


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_drawn_from_the_folder_as_the_run_drew_it(kvsim_of_module, run_folder, name):
    kvsim = kvsim_of_module
    done = kvsim("plot", run_folder, "--figure", name, "--out", f"{name}.png")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    at_once = kvsim.folder / run_folder / "figures" / f"{name}.png"
    if at_once.exists():
        assert (kvsim.folder / f"{name}.png").read_bytes() == at_once.read_bytes()


def test_the_suffix_says_the_format_and_repeats_are_equal_bytes(kvsim_of_module, run_folder):
    kvsim = kvsim_of_module
    for out in ("a.svg", "b.svg"):
        assert kvsim("plot", run_folder, "--figure", "queues", "--out", out).returncode == 0
    first = (kvsim.folder / "a.svg").read_bytes()
    assert first.startswith(b"<?xml")
    assert first == (kvsim.folder / "b.svg").read_bytes()


def test_a_point_of_the_sweep_can_be_chosen(kvsim_of_module, run_folder):
    kvsim = kvsim_of_module
    for rate in (20, 50):
        point = f"workload.arrivals.poisson.rate={rate}"
        args = ("--figure", "kv_memory", "--at", point, "--out", f"at{rate}.svg")
        assert kvsim("plot", run_folder, *args).returncode == 0
    assert (kvsim.folder / "at20.svg").read_bytes() != (kvsim.folder / "at50.svg").read_bytes()


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            ("--figure", "nope", "--out", "x.png"),
            "--figure: got 'nope', expected one of thr",
        ),
        (("--figure", "queues", "--out", "x.gif"), "--out: got 'x.gif', expected a name ending in"),
        (
            ("--figure", "queues", "--out", "x.png", "--at", "rate=1"),
            "--at: got 'rate=1', expected KEY=VALUE of workload.arrivals.poisson.rate",
        ),
        (
            ("--figure", "queues", "--out", "x.png", "--at", "workload.arrivals.poisson.rate=9"),
            "no request is served at workload.arrivals.poisson.rate=9",
        ),
    ],
)
def test_mistakes_are_one_line(kvsim_of_module, run_folder, args, line):
    done = kvsim_of_module("plot", run_folder, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_figure_that_a_run_does_not_have_says_what_it_needs(kvsim_of_module, run_folder):
    kvsim = kvsim_of_module
    settings = ("sweep={}", "systems={plain: {}}", "replications=1")
    args = ("--quiet", *(word for setting in settings for word in ("--set", setting)))
    before = set(kvsim.left())
    assert kvsim("run", "seen.yaml", *args).returncode == 0
    (name,) = set(kvsim.left()) - before
    for figure, needs in (("throughput", "a sweep"), ("prefix_cache", "enable_prefix_caching")):
        done = kvsim("plot", f"runs/{name}", "--figure", figure, "--out", "x.png")
        assert done.returncode == 2
        assert needs in done.stderr


def test_bins_are_the_means_over_time_summed_over_replicas():
    """Replica 0: 4 for 1 s, then 1 for 3 s. Replica 1: 10 for 2 s, then 0. Two bins of 2 s."""
    steps = pd.DataFrame(
        {
            "replica": [0, 0, 1, 1],
            "duration_ns": np.array([1, 3, 2, 2]) * 10**9,
            "running": [4, 1, 10, 0],
        }
    )
    edges_s, means = binned(steps, ["running"])
    assert edges_s.tolist() == [0, 2, 4]
    assert means.tolist() == [[12.5, 1.0]]
