"""What a run has left is read back as it was meant."""

import pytest

from sim.explain.selection import select
from sim.plots.command import plot
from sim.rerun import Window, choose, watch
from sim.run_tables import read_table
from sim.shown import read_shown
from sim.watched import Watcher

SCENARIO = """\
name: swept
latency: {kind: constant, step_time_s: 0.01}
engine: {block_size: 4, num_blocks: 8, max_model_len: 32}
workload:
  requests: 3
  arrivals: {constant: {rate: 10}}
  prompts: {unique: 8}
  outputs: 3
"""


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("workload.arrivals.constant.rate", "[0.5, 1, 2]"),
        ("engine.enable_prefix_caching", "[true, false]"),
        ("engine.max_num_seqs", "[1, 2]"),
        ("workload.outputs", "[2, {uniform: {low: 2, high: 4}}]"),
    ],
)
def test_a_run_is_found_by_what_was_swept_as_it_was_written(new_run, tmp_path, key, values):
    folder = new_run(f"{SCENARIO}sweep: {{{key}: {values}}}\n")
    at = [f"{key}={values.strip('[]').split(', ')[0]}"]
    run, requests = select(folder, "default", None, at)
    assert (f"{key}={run[key]}", len(requests)) == (at[0], 3)
    assert watch(choose(folder, "default", None, at), Watcher(), Window())
    assert len(read_shown(folder, at).runs) == 1
    plot(folder, "queues", tmp_path / "queues.svg", at)


def test_times_beyond_the_whole_numbers_of_a_float_are_read_to_the_nanosecond(tmp_path):
    """Also in a column in which a request that was refused has no time."""
    late_ns = 2**53 + 1
    rows = ["system,seed,request,arrival_ns,finished_ns", f"a,1,0,{late_ns},{late_ns}", "a,1,1,5,"]
    (tmp_path / "requests.csv").write_text("\n".join(rows) + "\n", "utf-8")
    table = read_table(tmp_path, "requests")
    assert table["finished_ns"].tolist()[0] == table["arrival_ns"].tolist()[0] == late_ns
