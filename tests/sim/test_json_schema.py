"""The JSON Schema of scenarios: what loads is valid, what an editor should mark is not."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from engine.config import EngineConfig
from sim import catalogue
from sim.scenario.json_schema import FILE, scenario_schema, schema_text
from sim.scenario.keys import set_key
from sim.scenario.yaml_text import parse
from sim.starter.command import starter_text

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "scenarios").rglob("*.yaml"))
VALID: dict[str, Any] = {
    "name": "valid",
    "workload": {
        "requests": 5,
        "arrivals": {"poisson": {"rate": 1}},
        "prompts": {"unique": 8},
        "outputs": 4,
    },
}

# Key path -> a value that a scenario takes there.
TAKEN: dict[str, list[Any]] = {
    "engine.num_blocks": ["auto", 100],
    "engine.vllm_version": ["0.11.0"],
    "latency": ["roofline", {"kind": "constant", "step_time_s": 0.1}],
    "replicas": [2, {"count": 2, "router": "least-kv"}],
    "systems": [["vllm", "orca-max"], {"small": {"preset": "vllm", "max_num_seqs": 8}}],
    "sweep": [{"engine.block_size": [8, 16]}, {"systems.default.num_blocks": [1]}],
    "model": ["llama-3.1-8b", "models/mine/config.json"],
    "workload.outputs": [{"uniform": {"low": 1, "high": 9}}, {"empirical": {"file": "x.txt"}}],
    "workload.preset": catalogue.names("workloads"),
    "workload.sessions": [{"turns": 3, "think_time_s": {"exponential": {"mean": 2}}}, None],
    "workload.classes": [{"gold": {"share": 1, "slo": {"ttft_s": 1}}}],
    "workload.trace": ["traces/mine.csv.gz"],
}
# Key path -> mistakes there.
MISTAKES: dict[str, list[Any]] = {
    "name": [3, "a/b"],
    "seed": [-1, "one"],
    "sed": [1],
    "model": ["llama-3.1-9b"],
    "hardware": ["a100"],
    "engine.blok_size": [16],
    "engine.block_size": ["many", 0, 1.5],
    "engine.num_blocks": ["all", 0],
    "engine.batching": ["dynamic"],
    "engine.enable_prefix_caching": ["yes"],
    "engine.vllm_version": [0.11],
    "deployment.dtype": ["float8"],
    "deployment.gpu_memory_utilization": [1.5],
    "latency": ["rooflin", {"kind": "constant"}, {"kind": "fitted", "step_time_s": 1}],
    "replicas": [0, {"router": "random"}],
    "systems": [["vlm"], {"small": {"max_num_seq": 8}}, {"small": {"max_model_len": 8}}],
    "sweep": [{"engine.block_size": 8}, {"name": ["a"]}, {"engine.block_size": []}],
    "workload.request": [5],
    "workload.arrivals": [
        {"posson": {"rate": 1}},
        {"poisson": {}},
        {"poisson": {"rate": 1}, "constant": {"rate": 1}},
        {},
        3,
    ],
    "workload.outputs": ["long", {"lognormal": {"mean": 3}}, {"normal": {"mean": 3}}],
    "workload.preset": ["chats"],
    "workload.format": ["azur"],
    "workload.classes": [{"gold": {"priority": 1}}],
}


@pytest.fixture(scope="module")
def mistakes_in():
    """Finds what is wrong with plain data, by the schema alone."""
    schema = scenario_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    return lambda data: [error.message for error in validator.iter_errors(data)]


def changed(key_path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(VALID)
    set_key(data, key_path.split("."), value, "test")
    return data


def pairs(table: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(key, value, id=f"{key}={value}"[:60])
        for key, values in table.items()
        for value in values
    ]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenario_is_valid_and_names_the_schema(path, mistakes_in):
    text = path.read_text("utf-8")
    assert mistakes_in(parse(text, str(path))) == []
    named = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / named).resolve() == ROOT / "scenarios" / FILE


def test_shipped_schema_is_that_of_the_code():
    """Else: kvsim schema > scenarios/scenario.schema.json"""
    assert (ROOT / "scenarios" / FILE).read_text("utf-8") == schema_text()


def test_starter_is_valid(mistakes_in):
    assert mistakes_in(parse(starter_text(), "starter")) == []


@pytest.mark.parametrize(("key", "value"), pairs(TAKEN))
def test_what_a_scenario_takes_is_valid(key, value, mistakes_in):
    assert mistakes_in(changed(key, value)) == []


@pytest.mark.parametrize(("key", "value"), pairs(MISTAKES))
def test_mistake_is_marked(key, value, mistakes_in):
    assert mistakes_in(changed(key, value)) != []


def test_every_key_says_what_it_means():
    silent = list(_silent_keys(scenario_schema(), "scenario"))
    assert silent == []


def _silent_keys(node: Any, where: str):
    if isinstance(node, list):
        for child in node:
            yield from _silent_keys(child, where)
    if not isinstance(node, dict):
        return
    for key, of_key in node.get("properties", {}).items():
        if len(of_key.get("description", "")) < 5:
            yield f"{where}.{key}"
    for name, child in node.items():
        if name not in ("default", "enum"):
            yield from _silent_keys(child, name)


def test_engine_has_the_defaults_of_the_engine():
    of_engine = scenario_schema()["$defs"]["EngineSettings"]["properties"]
    defaults = {key: of_key["default"] for key, of_key in of_engine.items()}
    assert defaults == json.loads(json.dumps(vars(EngineConfig())))


def test_schema_is_printed(kvsim):
    done = kvsim("schema")
    assert (done.returncode, done.stdout) == (0, schema_text())
