"""A scenario whose model is a config.json: where it is looked for, and what of it decides a run."""

import json
from pathlib import Path

import pytest

from sim.errors import UserError
from sim.run_folder import folder_for
from sim.scenario import Scenario
from sim.scenario.deployed import build_deployment
from sim.scenario.file import load_scenario, points

SCENARIO = """\
name: good
latency: {kind: constant, step_time_s: 0.01}
workload:
  requests: 5
  arrivals: {constant: {rate: 10}}
  prompts: {unique: 8}
  outputs: 4
"""

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 172,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 257,
    "torch_dtype": "float16",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Holds tiny.json; the scenarios are elsewhere than the current folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "scenarios"
    folder.mkdir()
    write_model(folder / "tiny.json")
    return folder


def write_model(path: Path, **changed) -> None:
    path.write_text(json.dumps(TINY | changed), "utf-8")


def load(folder: Path, more: str, *overrides: str) -> Scenario:
    path = folder / "s.yaml"
    path.write_text(SCENARIO + more, "utf-8")
    return load_scenario(path, list(overrides))


def d_model(scenario: Scenario) -> int:
    return build_deployment(scenario).model.d_model


def test_file_is_looked_for_beside_the_scenario(folder):
    assert d_model(load(folder, "model: tiny.json")) == 64


def test_file_on_the_command_line_is_looked_for_in_the_current_folder(folder):
    write_model(Path("other.json"), hidden_size=128)
    assert d_model(load(folder, "", "model=other.json")) == 128


def test_swept_files_are_looked_for_beside_the_scenario(folder):
    scenario = load(folder, "sweep: {model: [toy, tiny.json]}")
    assert scenario.sweep["model"] == ["toy", str(folder / "tiny.json")]
    assert [d_model(point) for _, point in points(scenario)] == [64, 64]


def test_model_of_the_catalogue_is_no_path(folder):
    assert load(folder, "model: opt-13b").model == "opt-13b"


@pytest.mark.parametrize("more", ["model: tiny.json", "sweep: {model: [toy, tiny.json]}"])
def test_content_of_the_file_decides_the_run(folder, more):
    scenario = load(folder, more)
    before = folder_for(scenario, folder)
    write_model(folder / "tiny.json", num_hidden_layers=3)
    assert folder_for(scenario, folder) != before


def test_place_of_the_file_does_not_decide_the_run(folder):
    write_model(folder / "same.json")
    tiny, same = load(folder, "model: tiny.json"), load(folder, "model: same.json")
    assert folder_for(tiny, folder) == folder_for(same, folder)


@pytest.mark.parametrize("more", ["model: tiny.json", "sweep: {model: [toy, tiny.json]}"])
def test_mistake_in_the_file_is_one_line_that_names_it(folder, more):
    write_model(folder / "tiny.json", hidden_size=0)
    with pytest.raises(UserError) as caught:
        load(folder, more)
    assert str(caught.value).startswith(f"{folder / 'tiny.json'}: hidden_size: got 0, ")


def test_unknown_name_says_that_it_may_be_a_file(folder):
    with pytest.raises(UserError, match=r"model: got 'tiny', expected .* config\.json"):
        load(folder, "model: tiny")


def test_mapping_that_contains_itself_is_no_path(folder):
    with pytest.raises(UserError, match="contains itself"):
        load(folder, "model: &a {b: *a}")
