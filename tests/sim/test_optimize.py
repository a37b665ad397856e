"""Several settings at once: what is best is found without trying all of a grid."""

import json
import math
import os
from importlib.util import find_spec

import pytest

from sim.plan.evaluate import Evaluator
from sim.plan.goals import find_goal
from sim.plan.optimize import look_around, look_at
from sim.plan.slo import Promises, parse_slos
from sim.scenario import Scenario
from sim.scenario.file import with_settings
from sim.steady import Warmup
from sim.sweep.store import Store

SLO = ("--slo", "ttft_p99<1s,tpot_p99<50ms", "--no-neighbours")
LOAD = ("--set", "workload.arrivals={poisson: {rate: 20}}", "--set", "workload.requests=300")
SEATS = ("--set", "engine.max_num_seqs=1,2,4,8")
IDLE = (  # which do not matter: little of the pool is ever used
    *("--set", "engine.block_size=4,8,16"),
    *("--set", "engine.watermark=0,0.01,0.02,0.03,0.04"),
)


@pytest.fixture
def optuna():
    if find_spec("optuna") is None:
        pytest.skip("optuna is not installed: make extras")


def in_place(scenario: Scenario) -> Scenario:
    return scenario


def evaluator_of(folder, **more) -> Evaluator:
    promises = Promises(parse_slos("ttft_p99<1s"))
    return Evaluator("default", promises, Store(folder), Warmup.parse("auto"), **more)


def looks_at(scenario, tmp_path, num_trials):
    return look_around(scenario, in_place, "rate", evaluator_of(tmp_path), num_trials, {})


@pytest.mark.slow
def test_the_best_of_60_is_found_by_20_and_again_with_the_same_bytes(kvsim, optuna):
    """A step takes 10 ms whoever runs, so the rate grows with the places: 8 are best."""
    args = ("plan", "small.yaml", *SLO, *LOAD, *SEATS, *IDLE, "--optimize", "--quiet")
    done, again = (kvsim(*args, "--json", "--out", out) for out in ("a", "b"))
    assert done.returncode == 0, done.stderr
    assert again.stdout == done.stdout
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        for folder in (kvsim.folder / out / "small" for out in ("a", "b"))
    )
    assert first == second
    found = json.loads(done.stdout)
    assert [one["settings"]["engine.max_num_seqs"] for one in found["alternatives"]] == [8] * 3
    tried = [one["settings"] for one in found["alternatives"] + found["tried_coarsely"]]
    assert len({json.dumps(one) for one in tried}) == len(tried) == 20
    table = kvsim(*args, "--out", "a")
    assert "17 more, tried coarsely" in table.stdout


def test_a_small_grid_is_tried_as_a_whole_and_what_cannot_be_is_counted(
    new_scenario, tmp_path, optuna
):
    """Without chunks a prompt of any length must fit in a step, and 64 tokens are too few."""
    scenario = with_settings(
        new_scenario(),
        {
            "sweep": {
                "engine.enable_chunked_prefill": [True, False],
                "engine.max_num_batched_tokens": [64, 8192],
            }
        },
    )
    looks, impossible = looks_at(scenario, tmp_path, 50)
    assert len(looks) == 3
    assert len(impossible) == 1
    merits = [look.merit for look in looks]
    assert merits == sorted(merits, reverse=True)


def test_what_is_worse_than_the_best_costs_a_glance(new_scenario, tmp_path):
    """With steps of 400 ms no 50 requests a second are served, as two runs show."""
    scenario = new_scenario(
        engine={"max_num_seqs": 2},
        latency={"kind": "constant", "step_time_s": 0.4},
        workload={
            "requests": 300,
            "arrivals": {"poisson": {"rate": 20}},
            "prompts": {"unique": 8},
            "outputs": 4,
        },
    )
    runs: list[None] = []
    evaluator = evaluator_of(tmp_path, on_run=lambda: runs.append(None))
    look = look_at({}, find_goal(scenario, "rate", "default"), evaluator, 50.0, {})
    assert not look.is_kept
    assert 50 <= look.value < 56
    assert look.merit == -math.inf
    assert look.ratio > 1
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--optimize",), "--optimize: got no choice, expected --set with several values of a key"),
        (("--trials", "3"), "--trials: got 3 without --optimize, expected both"),
    ],
)
def test_mistakes_are_one_line(kvsim, args, message):
    done = kvsim("plan", "small.yaml", *SLO, *args, "--quiet")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert message in line


def test_optuna_that_is_not_installed_is_one_line(kvsim):
    folder = kvsim.folder / "missing" / "optuna"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join([str(folder.parent), os.environ.get("PYTHONPATH", "")])
    done = kvsim("plan", "small.yaml", *SLO, *SEATS, "--optimize", "--quiet", PYTHONPATH=path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "Optuna is not installed, expected pip install 'kvsim[optimize]'" in line
