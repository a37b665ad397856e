"""The schema: defaults, shorthand, and what is one thing or the other."""

import re

import pytest
from pydantic import ValidationError

from engine import EngineConfig, TransformerConfig
from sim.scenario import Scenario
from sim.scenario.deployed import build_config

SYNTHETIC = {
    "requests": 3,
    "arrivals": {"poisson": {"rate": 2}},
    "prompts": {"unique": 8},
    "outputs": 4,
}


def scenario(**keys) -> Scenario:
    return Scenario.parse({"name": "s", "workload": SYNTHETIC} | keys)


def mistakes(**keys) -> list[tuple[str, ...]]:
    """Where the schema finds something wrong; some checks name the last key in their message."""
    with pytest.raises(ValidationError) as caught:
        scenario(**keys)
    places = []
    for error in caught.value.errors():
        own = re.match(r"(\w+): got ", str(error.get("ctx", {}).get("error", "")))
        places.append((*map(str, error["loc"]), *(own.groups() if own else ())))
    return places


def test_what_is_left_out_has_the_documented_default():
    """Those of docs/scenario.md."""
    plain = scenario()
    assert (plain.seed, plain.replications, plain.runner) == (1, 1, "replay")
    assert (plain.model, plain.hardware) == ("llama-3.1-8b", "a100-80gb")
    assert plain.latency.model_dump() == {
        "kind": "roofline",
        "constants": "gpu",
        "flop_efficiency": None,
        "bandwidth_efficiency": None,
        "overhead_s": 0.001,
        "per_sequence_s": 0,
    }
    assert plain.systems == {"default": {}}
    assert plain.sweep == {}


def test_engine_defaults_are_the_engines_own():
    config = build_config(scenario(), "default")
    assert config == EngineConfig()
    assert type(config) is EngineConfig


def test_toy_lm_defaults_are_the_transformers_own():
    assert TransformerConfig(**vars(scenario().toy_lm)) == TransformerConfig()


def test_systems_override_what_they_name_and_nothing_else():
    both = scenario(
        engine={"block_size": 8, "num_blocks": 99},
        systems={"a": {"block_size": 4}, "b": {"enable_prefix_caching": True}},
    )
    assert build_config(both, "a") == EngineConfig(block_size=4, num_blocks=99)
    assert build_config(both, "b") == EngineConfig(
        block_size=8, num_blocks=99, enable_prefix_caching=True
    )


def test_a_bare_word_is_a_latency_with_its_defaults():
    assert scenario(latency="roofline") == scenario(latency={"kind": "roofline"}) == scenario()


@pytest.mark.parametrize("key", ["outputs", "prompts"])
def test_a_bare_number_is_a_fixed_length(key):
    def workload(length):
        return SYNTHETIC | {key: {"unique": length} if key == "prompts" else length}

    short, long = workload(96), workload({"fixed": 96})
    assert scenario(workload=short) == scenario(workload=long)


def test_a_shared_prompt_may_be_a_bare_number_too():
    def workload(tokens):
        return SYNTHETIC | {"prompts": {"shared": {"groups": 2, "tokens": tokens}, "unique": 8}}

    assert scenario(workload=workload(96)) == scenario(workload=workload({"fixed": 96}))


def test_whole_numbers_are_taken_where_any_number_is():
    assert scenario(workload=SYNTHETIC | {"arrivals": {"poisson": {"rate": 2}}}) == scenario(
        workload=SYNTHETIC | {"arrivals": {"poisson": {"rate": 2.0}}}
    )


@pytest.mark.parametrize("value", [True, 1.0, 1.5, "1", None, [1]])
def test_nothing_but_an_integer_is_one(value):
    """No silent conversions."""
    assert mistakes(engine={"block_size": value}) == [("engine", "block_size")]


@pytest.mark.parametrize("value", ["yes", 1, 0, None])
def test_nothing_but_true_and_false_is_a_flag(value):
    assert mistakes(engine={"enable_prefix_caching": value}) == [
        ("engine", "enable_prefix_caching")
    ]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_are_finite(value):
    assert mistakes(engine={"max_wait_s": value}) == [("engine", "max_wait_s")]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", -1),
        ("replications", 0),
        ("runner", "torch"),
        ("systems", {}),
        ("model", "gpt-7"),
        ("hardware", "tpu"),
        ("systems", {"a": {"max_model_len": 64}}),
        ("sweep", {"seed": [1, 2]}),
        ("sweep", {"replications": [1, 2]}),
        ("sweep", {"name": ["a", "b"]}),
        ("sweep", {"sweep.seed": [1]}),
        ("sweep", {"": [1]}),
        ("name", ""),
        ("name", "a" * 101),
        ("name", "../x"),
        ("name", ".hidden"),
        ("name", "a b"),
    ],
)
def test_value_out_of_range(key, value):
    assert mistakes(**{key: value}) == [(key,)]


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"kind": "constant", "step_time_s": 0}, "step_time_s"),
        ({"kind": "constant", "step_time_s": 1e300}, "step_time_s"),
        ({"kind": "linear", "step_s": -1}, "step_s"),
        ({"kind": "linear", "step_s": 1e10}, "step_s"),
        ({"kind": "linear", "step_s": 1, "per_decode_s": -1}, "per_decode_s"),
        ({"kind": "linear", "step_s": 1, "per_context_token_s": -1}, "per_context_token_s"),
        ({"kind": "linear", "step_s": 1, "per_prefill_token_s": -1}, "per_prefill_token_s"),
        ({"kind": "roofline", "flop_efficiency": 0}, "flop_efficiency"),
        ({"kind": "roofline", "flop_efficiency": 1.01}, "flop_efficiency"),
        ({"kind": "roofline", "bandwidth_efficiency": 0}, "bandwidth_efficiency"),
        ({"kind": "roofline", "bandwidth_efficiency": 1.01}, "bandwidth_efficiency"),
        ({"kind": "roofline", "overhead_s": -0.1}, "overhead_s"),
        ({"kind": "roofline", "overhead_s": 1e300}, "overhead_s"),
        ({"kind": "roofline", "model": "opt-13b"}, "model"),
        ({"kind": "roofline", "constants": "mine"}, "constants"),
        ({"kind": "roofline", "per_sequence_s": -0.1}, "per_sequence_s"),
        ({"kind": "profile"}, "folder"),
        ({"kind": "profile", "folder": "f", "per_sequence_s": 2}, "per_sequence_s"),
        ({"kind": "silicon", "overhead_s": -0.1}, "overhead_s"),
        ({"kind": "silicon", "flop_efficiency": 0.5}, "flop_efficiency"),
    ],
)
def test_latency_out_of_range(spec, where):
    ((*_, last),) = mistakes(latency=spec)
    assert last == where


@pytest.mark.parametrize(
    ("arrivals", "where"),
    [
        ({"constant": {"rate": 0}}, "rate"),
        ({"poisson": {"rate": -1}}, "rate"),
        ({"gamma": {"rate": 1, "cv": 0}}, "cv"),
        ({"gamma": {"rate": 1}}, "cv"),
        ({"gamma": {"rate": 1, "cv": 1e9}}, "cv"),
        ({"weibull": {"rate": 1, "shape": 0.01}}, "shape"),
        ({"diurnal": {"rate": 1, "peak": 2.5, "period_s": 60}}, "peak"),
        ({"diurnal": {"rate": 1, "peak": 1.5}}, "period_s"),
        ({"closed_loop": {"concurrency": 0}}, "concurrency"),
        ({"closed_loop": {"concurrency": 1, "think_time_s": -1}}, "think_time_s"),
        ({"closed_loop": {"concurrency": 1, "think_time_s": 1e300}}, "think_time_s"),
        ({}, "arrivals"),
        ({"poisson": {"rate": 1}, "constant": {"rate": 1}}, "arrivals"),
    ],
)
def test_impossible_arrivals(arrivals, where):
    ((*_, last),) = mistakes(workload=SYNTHETIC | {"arrivals": arrivals})
    assert last == where


@pytest.mark.parametrize(
    ("length", "where"),
    [
        (0, "fixed"),
        ({"fixed": 0}, "fixed"),
        ({"uniform": {"low": 0, "high": 3}}, "low"),
        ({"uniform": {"low": 1}}, "high"),
        ({"uniform": {"low": 5, "high": 3}}, "high"),
        ({"lognormal": {"mean": 0, "sigma": 1}}, "mean"),
        ({"lognormal": {"mean": 5, "sigma": -1}}, "sigma"),
        ({"lognormal": {"mean": 5, "sigma": 0}}, "sigma"),
        ({"lognormal": {"mean": 5, "sigma": 1, "max": 0}}, "max"),
        ({"lognormal": {"mean": 5, "sigma": 1, "min": 4, "max": 3}}, "max"),
        ({"empirical": {}}, "file"),
        ({}, "outputs"),
        ({"fixed": 3, "uniform": {"low": 1, "high": 2}}, "outputs"),
    ],
)
def test_impossible_lengths(length, where):
    ((*_, last),) = mistakes(workload=SYNTHETIC | {"outputs": length})
    assert last == where


@pytest.mark.parametrize("missing", SYNTHETIC)
def test_a_synthetic_workload_needs_all_its_parts(missing):
    parts = {key: value for key, value in SYNTHETIC.items() if key != missing}
    assert mistakes(workload=parts) == [("workload",)]


@pytest.mark.parametrize("extra", ["prompts", "outputs"])
def test_a_trace_replaces_what_it_says_itself(extra):
    assert mistakes(workload={"trace": "x.csv", extra: SYNTHETIC[extra]}) == [("workload",)]


@pytest.mark.parametrize("extra", ["prompts", "outputs"])
def test_rows_replace_prompts_and_outputs(extra):
    when = {key: SYNTHETIC[key] for key in ("requests", "arrivals")}
    assert scenario(workload={"resample": "x.csv", **when}).workload.resample == "x.csv"
    both = {"resample": "x.csv", **when, extra: SYNTHETIC[extra]}
    assert mistakes(workload=both) == [("workload",)]


@pytest.mark.parametrize(
    "extra", [{"n": 2}, {"trace": "x.csv"}, {"sessions": {"turns": 3}}, {"shape": {"repeat": 2}}]
)
def test_rows_stand_beside_neither_a_trace_nor_sessions(extra):
    when = {key: SYNTHETIC[key] for key in ("requests", "arrivals")}
    assert [path[0] for path in mistakes(workload={"resample": "x.csv", **when, **extra})] == [
        "workload"
    ]


@pytest.mark.parametrize("missing", ["requests", "arrivals"])
def test_rows_do_not_say_how_many_requests_come_and_when(missing):
    when = {key: SYNTHETIC[key] for key in ("requests", "arrivals") if key != missing}
    assert mistakes(workload={"resample": "x.csv", **when}) == [("workload",)]


def test_a_trace_may_be_cut_short():
    workload = scenario(workload={"trace": "x.csv", "requests": 7, "max_new_tokens": 9}).workload
    assert (workload.trace, workload.requests, workload.max_new_tokens) == ("x.csv", 7, 9)


def test_a_scenario_does_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        scenario().seed = 2
