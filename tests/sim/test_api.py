"""The interface for programs: the examples of docs/planning.md, and that it is what commands do."""

import re

import pandas as pd
import pytest

from sim import api
from sim.errors import UserError


@pytest.fixture
def scenario(kvsim):
    return api.Scenario.load(kvsim.folder / "small.yaml")


def test_load_takes_settings_as_the_command_line_does(kvsim):
    loaded = api.Scenario.load(kvsim.folder / "small.yaml", "engine.block_size=8", "seed=4")
    assert (loaded.engine.block_size, loaded.seed) == (8, 4)
    with pytest.raises(UserError, match=r"engine\.block_sise: unknown key"):
        api.Scenario.load(kvsim.folder / "small.yaml", "engine.block_sise=8")


def test_simulate_gives_the_summary_that_run_writes(kvsim, scenario):
    run = api.simulate(scenario)
    kvsim("run", "small.yaml", "--quiet")
    (written,) = (kvsim.folder / "runs").glob("*/summary.csv")
    pd.testing.assert_frame_equal(
        run.summary.dropna(axis=1), pd.read_csv(written).dropna(axis=1), check_dtype=False
    )
    assert len(run.results[0].records.requests) == 5


@pytest.mark.slow
def test_sweep_gives_the_table_of_the_command(kvsim, scenario):
    table = api.sweep(
        scenario, {"engine.block_size": [4, 8]}, seeds=2, folder=kvsim.folder / "kept"
    )
    kvsim("sweep", "small.yaml", "--set", "engine.block_size=4,8", "--seeds", "2", "--quiet")
    written = pd.read_csv(kvsim.folder / "sweeps/small/table.csv")
    pd.testing.assert_frame_equal(table.dropna(axis=1), written.dropna(axis=1), check_dtype=False)
    assert len(list((kvsim.folder / "kept").rglob("*.json"))) == 4


@pytest.mark.parametrize(
    ("values", "seeds", "message"),
    [
        ({"engine.num_blocks": []}, 1, "values: sweep.engine.num_blocks: got [], expected"),
        ({"engine.num_blocks": 8}, 1, "values: engine.num_blocks: got 8, expected a list of"),
        ({"engine.num_blocks": "auto"}, 1, "values: engine.num_blocks: got 'auto', expected a"),
        ({"engine.num_blocs": [8, 16]}, 1, "unknown key, did you mean num_blocks?"),
        ({"engine.num_blocks": [8, 16]}, 0, "seeds: got 0, expected 1 or more"),
    ],
)
def test_sweep_says_in_a_line_what_values_are_none(scenario, values, seeds, message):
    with pytest.raises(UserError, match=re.escape(message)) as mistake:
        api.sweep(scenario, values, seeds=seeds)
    assert len(str(mistake.value).splitlines()) == 1


def test_a_plan_has_a_whole_answer_and_says_it_in_a_line(kvsim):
    scenario = api.Scenario.load(kvsim.folder / "small.yaml", "workload.requests=200")
    found = api.plan(scenario, "ttft_p99<10s", find="replicas", seeds=(2, 2))
    assert (found.answer, type(found.answer)) == (1, int)
    assert repr(found) == (
        "<Plan of default: lowest number of replicas that keeps every promise: 1 replica>"
    )


@pytest.mark.slow
def test_plan_has_an_answer_a_curve_and_flags(scenario):
    scenario = api.Scenario.parse(
        {
            **scenario.model_dump(exclude_unset=True),
            "engine": {"max_num_seqs": 2},
            "workload": {
                "requests": 300,
                "arrivals": {"poisson": {"rate": 20}},
                "prompts": {"unique": 8},
                "outputs": 4,
            },
        }
    )
    found = api.plan(scenario, "ttft_p99<1s")
    assert found.answer is not None
    assert 40 < found.answer < 60
    curve = found.curve()
    assert set(curve["rate"]) == {found.goal.values[place] for place in found.boundary.tried}
    assert "--max-num-seqs 2" in api.vllm_command(found.scenario, "default")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 3.0}, "got one with --find rate, expected none"),
        ({"seeds": (5, 4)}, "seeds: got 5, at most 4; expected 2 or more, and no less"),
        ({"seeds": (1, 4)}, "seeds: got 1, at most 4"),
    ],
)
def test_plan_refuses_what_the_command_does(scenario, settings, message):
    with pytest.raises(UserError, match=message):
        api.plan(scenario, "ttft_p99<1s", **settings)


def test_examples_of_the_documents_run(root, monkeypatch):
    """The block of docs/planning.md, on fewer requests."""
    page = (root / "docs/planning.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    code = code.replace('"runner=replay"', '"runner=replay", "workload.requests=40"')
    monkeypatch.chdir(root)
    names: dict = {}
    exec(code, names)  # our own page
    assert len(names["table"]) == 3 * 2 * 3
    assert names["found"].goal.name == "concurrency"
