"""Equal seeds give equal bytes, in any process; the toy LM and the replay take the same steps."""

import csv
import itertools
from pathlib import Path

import pytest

from engine import Runner, Step
from engine.runners import ReplayRunner
from sim.build import build_engine
from sim.scenario.deployed import build_config
from sim.simulate import simulate
from sim.sources import build_workload

# All that could depend on an order: sharing, preemption, several systems over several processes.
SCENARIO = """\
name: bytes
runner: toy-lm
engine: {block_size: 4, num_blocks: 24, max_num_seqs: 6, max_num_batched_tokens: 32,
         max_model_len: 64, batch_size: 3}
workload:
  requests: 12
  arrivals: {poisson: {rate: 400}}
  prompts: {shared: {groups: 2, tokens: 9}, unique: {uniform: {low: 1, high: 12}}}
  outputs: {lognormal: {mean: 9, sigma: 0.8, max: 30}}
systems:
  static: {batching: static}
  sharing: {enable_prefix_caching: true}
sweep: {engine.max_num_seqs: [1, 6]}
"""


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def two_runs(kvsim_of_module):
    """The folders of one scenario run twice: with other PYTHONHASHSEEDs, on one core and on all."""
    kvsim = kvsim_of_module
    (kvsim.folder / "bytes.yaml").write_text(SCENARIO, "utf-8")
    folders = []
    for out, environment in {
        "one": {"PYTHONHASHSEED": "1", "LOKY_MAX_CPU_COUNT": "1"},
        "all": {"PYTHONHASHSEED": "31337"},
    }.items():
        done = kvsim("run", "bytes.yaml", "--out", out, "--quiet", **environment)
        assert (done.returncode, done.stderr) == (0, "")
        (name,) = kvsim.left(out)
        folders.append(kvsim.folder / out / name)
    return folders


@pytest.mark.slow
def test_equal_runs_have_equal_names(two_runs):
    assert two_runs[0].name == two_runs[1].name


@pytest.mark.slow
def test_equal_runs_leave_equal_bytes(two_runs):
    """Every file, the toy LM's tokens, tables and figures alike."""
    first, second = map(files_of, two_runs)
    assert list(first) == list(second)
    assert [name for name in first if first[name] != second[name]] == []


@pytest.mark.slow
def test_a_run_leaves_what_is_documented(two_runs):
    assert sorted(files_of(two_runs[0])) == [
        "figures/attribution.png",
        "figures/kv_memory.png",
        "figures/kv_shares.png",
        "figures/latency.png",
        "figures/latency_distribution.png",
        "figures/throughput.png",
        "gaps.csv",
        "requests.csv",
        "run.json",
        "scenario.yaml",
        "steps.csv",
        "summary.csv",
    ]


@pytest.mark.slow
def test_records_of_all_runs_are_in_the_tables(two_runs):
    """2 systems at 2 points of the sweep with 12 requests each."""
    with (two_runs[0] / "requests.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [(row["system"], row["engine.max_num_seqs"], row["request"]) for row in rows]
    systems, points, numbers = ("static", "sharing"), ("1", "6"), map(str, range(12))
    assert keys == list(itertools.product(systems, points, numbers))


SMALL = {
    "engine": {
        "block_size": 4,
        "num_blocks": 24,
        "max_num_seqs": 6,
        "max_num_batched_tokens": 32,
        "max_model_len": 64,
        "batch_size": 3,
    },
    "workload": {
        "requests": 14,
        "arrivals": {"poisson": {"rate": 60}},
        "prompts": {
            "shared": {"groups": 2, "tokens": 9},
            "unique": {"uniform": {"low": 1, "high": 12}},
        },
        "outputs": {"lognormal": {"mean": 12, "sigma": 0.8, "max": 30}},
    },
    "systems": {
        "static": {"batching": "static"},
        "continuous": {},
        "sharing": {"enable_prefix_caching": True},
        "asynchronous": {"enable_prefix_caching": True, "async_scheduling": True},
    },
}


def test_another_seed_gives_other_requests(new_scenario):
    first, second = (simulate(new_scenario(seed=s, **SMALL), "sharing").requests for s in (1, 2))
    for column in ("arrival_ns", "prompt_tokens", "output_tokens"):
        assert first[column].tolist() != second[column].tolist(), column


@pytest.mark.parametrize("runner", ["replay", "toy-lm"])
def test_simulating_again_changes_nothing(new_scenario, runner):
    """In one process: no state is kept from run to run."""
    scenario = new_scenario(runner=runner, **SMALL)
    first, second = (simulate(scenario, "sharing") for _ in range(2))
    assert first.requests.equals(second.requests)
    assert first.steps.equals(second.steps)
    assert first.slot_ns == second.slot_ns


def test_all_systems_see_the_same_requests(new_scenario):
    columns = ["arrival_ns", "prompt_tokens", "output_tokens"]
    static, *others = (
        simulate(new_scenario(**SMALL), system).requests[columns] for system in SMALL["systems"]
    )
    assert all(other.equals(static) for other in others)


class Recording:
    """A runner that notes the chunks and block tables of every step before it is run."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.steps: list[list[tuple]] = []

    def run(self, step: Step) -> list[int]:
        self.steps.append(
            [
                (seq.request.request_id, start, n, samples, *seq.block_table.block_ids)
                for seq, start, n, samples in step.chunks
            ]
        )
        return self.runner.run(step)


@pytest.mark.parametrize("system", SMALL["systems"])
@pytest.mark.parametrize("seed", [1, 2])
def test_toy_lm_and_replay_take_the_same_steps_with_the_same_blocks(
    new_scenario, serve, system, seed
):
    """The one computes every token, the other touches no tensor."""
    logs = {}
    for runner in ("toy-lm", "replay"):
        scenario = new_scenario(runner=runner, seed=seed, **SMALL)
        config = build_config(scenario, system)
        workload = build_workload(scenario)
        recording = Recording(build_engine(scenario, config, workload, stepwise=True).runner)
        assert isinstance(recording.runner, ReplayRunner) == (runner == "replay")
        records = serve(workload, runner=recording, **vars(config))
        logs[runner] = recording.steps
    assert logs["toy-lm"] == logs["replay"]
    assert len(logs["replay"]) > 20
    assert records.requests["preemptions"].any() == (system != "static")
    assert records.requests["cached_tokens"].any() == config.enable_prefix_caching


@pytest.mark.parametrize("system", SMALL["systems"])
def test_toy_lm_and_replay_leave_the_same_records(new_scenario, system):
    toy_lm, replay = (
        simulate(new_scenario(runner=runner, **SMALL), system) for runner in ("toy-lm", "replay")
    )
    assert toy_lm.requests.equals(replay.requests)
    assert toy_lm.steps.equals(replay.steps)
