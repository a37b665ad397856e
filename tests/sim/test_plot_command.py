"""`kvsim plot`: one figure of a run that is there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sim.binned import binned
from sim.errors import UserError
from sim.plots.command import plot
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
    return kvsim.folder / "runs" / name


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_drawn_from_the_folder_as_the_run_drew_it(run_folder, tmp_path, name):
    out = tmp_path / "a.png"
    plot(run_folder, name, out, [])
    at_once = run_folder / "figures" / f"{name}.png"
    assert at_once.exists() == FIGURES[name].is_unasked
    if at_once.exists():
        assert out.read_bytes() == at_once.read_bytes()


def test_the_suffix_says_the_format_and_repeats_are_equal_bytes(run_folder, tmp_path):
    for out in ("a.svg", "b.svg"):
        plot(run_folder, "queues", tmp_path / out, [])
    first = (tmp_path / "a.svg").read_bytes()
    assert first.startswith(b"<?xml")
    assert first == (tmp_path / "b.svg").read_bytes()


def test_a_point_of_the_sweep_can_be_chosen(run_folder, tmp_path):
    for rate in (20, 50):
        point = f"workload.arrivals.poisson.rate={rate}"
        plot(run_folder, "kv_memory", tmp_path / f"at{rate}.svg", [point])
    assert (tmp_path / "at20.svg").read_bytes() != (tmp_path / "at50.svg").read_bytes()


@pytest.mark.parametrize(
    ("name", "out", "at", "line"),
    [
        ("nope", "x.png", [], "--figure: got 'nope', expected one of thr"),
        ("queues", "x.gif", [], "--out: got 'x.gif', expected a name ending in .png or .svg"),
        (
            *("queues", "x.png", ["rate=1"]),
            "--at: got 'rate=1', expected KEY=VALUE of workload.arrivals.poisson.rate",
        ),
        (
            *("queues", "x.png", ["workload.arrivals.poisson.rate=9"]),
            "has no run with workload.arrivals.poisson.rate=9",
        ),
    ],
)
def test_mistakes_are_one_line(run_folder, name, out, at, line):
    with pytest.raises(UserError) as mistake:
        plot(run_folder, name, Path(out), at)
    assert line in str(mistake.value)
    assert len(str(mistake.value).splitlines()) == 1


def test_a_figure_that_a_run_does_not_have_says_what_it_needs(new_run, tmp_path):
    folder = new_run(SCENARIO.partition("  sharing:")[0])
    for name, needs in (("throughput", "a sweep"), ("prefix_cache", "enable_prefix_caching")):
        with pytest.raises(UserError, match=needs):
            plot(folder, name, tmp_path / "x.png", [])


def test_the_command_draws_and_says_where(kvsim, run_folder):
    done = kvsim("plot", str(run_folder), "--figure", "queues", "--out", "a.png")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "written to a.png\n")
    assert (kvsim.folder / "a.png").exists()


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
