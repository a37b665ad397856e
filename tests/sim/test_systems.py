"""Serving systems by name: presets of settings, in scenarios and on the command line."""

import json
import re

import pytest

from engine.kv_manager import KVUsage
from sim import catalogue
from sim.errors import UserError
from sim.scenario.deployed import build_config
from sim.scenario.file import load_scenario
from sim.simulate import simulate

SCENARIO = """\
name: s
latency: {kind: constant, step_time_s: 0.01}
engine: {max_model_len: 64, num_blocks: 64, block_size: 4, max_num_batched_tokens: 128}
workload:
  requests: 30
  arrivals: {constant: {rate: 50}}
  prompts: {unique: {uniform: {low: 1, high: 30}}}
  outputs: {uniform: {low: 1, high: 30}}
"""


@pytest.fixture
def load(tmp_path):
    """Loads the scenario with other systems: `load("[vllm]", "systems.vllm.num_blocks=9")`."""

    def scenario(systems: str, *overrides: str):
        path = tmp_path / "s.yaml"
        path.write_text(f"{SCENARIO}systems: {systems}\n")
        return load_scenario(path, list(overrides))

    return scenario


@pytest.mark.parametrize("name", catalogue.names("systems"))
def test_every_preset_serves_everything(load, name):
    """Every slot of the pool is in one class of the ledger at every step."""
    scenario = load(f"[{name}]")
    records = simulate(scenario, name)
    assert set(records.requests["finish_reason"]) == {"stop"}
    num_slots = build_config(scenario, name).num_slots
    assert set(records.steps[list(KVUsage._fields)].sum(axis=1)) == {num_slots}


def test_list_of_names_stands_for_the_presets(load):
    short, long = (
        load("[vllm, orca-max]"),
        load("{vllm: {preset: vllm}, orca-max: {preset: orca-max}}"),
    )
    assert short == long


def test_own_settings_win_over_those_of_the_preset_and_these_over_the_engine_s(load):
    scenario = load(
        "{a: {preset: sarathi}, b: {preset: sarathi, max_num_batched_tokens: 32}, c: {}}"
    )
    budgets = [build_config(scenario, name).max_num_batched_tokens for name in "abc"]
    assert budgets == [512, 32, 128]


def test_preset_of_a_list_can_be_overridden_on_the_command_line(load):
    scenario = load("[vllm, orca-max]", "systems.vllm.num_blocks=9")
    assert [build_config(scenario, name).num_blocks for name in scenario.systems] == [9, 64]


def test_unknown_preset_is_named_with_those_there_are(load):
    expected = "got 'orca', expected a preset: .*vllm.*orca-max"
    with pytest.raises(UserError, match=expected):
        load("[vllm, orca]")


def test_setting_that_does_not_fit_the_preset_is_named(load):
    with pytest.raises(UserError, match=r"orca-max.max_num_batched_tokens: got 32, expected"):
        load("[orca-max]", "engine.max_num_batched_tokens=32")


def test_command_shows_meaning_and_settings(kvsim):
    words = " ".join(kvsim("systems", COLUMNS="200").stdout.split())
    for name in catalogue.names("systems"):
        assert re.search(rf"\b{name} ", words)
    (orca,) = (s for s in json.loads(kvsim("systems", "--json").stdout) if s["name"] == "orca-max")
    assert orca["engine"]["reservation"] == "max"
    assert "max_model_len tokens for every request" in orca["meaning"]
