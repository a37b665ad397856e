"""Workloads by name, mixes of several, and what a scenario may not say of them."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from sim import catalogue
from sim.errors import UserError
from sim.run_folder import folder_for
from sim.scenario.file import dump_scenario, load_scenario, points
from sim.simulate import simulate
from sim.sources import build_workload
from workloads import WorkloadError

PRESETS = catalogue.names("workloads")


@pytest.fixture
def load(tmp_path):
    """Loads a scenario with this workload: `load("{preset: chat}", "seed=3")`."""

    def scenario(workload: str, *overrides: str):
        path = tmp_path / "s.yaml"
        path.write_text(
            f"name: s\nengine: {{max_model_len: 300000, num_blocks: 40000}}\nworkload: {workload}\n"
        )
        return load_scenario(path, list(overrides))

    return scenario


def preset(name: str, more: str = "") -> str:
    return f"{{preset: {name}, requests: 60, arrivals: {{poisson: {{rate: 1}}}}{more}}}"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_served(load, name):
    records = simulate(load(preset(name)), "default")
    assert set(records.requests["finish_reason"]) == {"stop"}


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_what_it_stands_for(load, name):
    """The same requests when all its settings are written out."""
    named = load(preset(name))
    written = json.dumps(
        {
            **catalogue.load_workload(name).settings,
            "requests": 60,
            "arrivals": {"poisson": {"rate": 1}},
        }
    )
    one, other = build_workload(named), build_workload(load(written))
    assert (one.prompt_tokens == other.prompt_tokens).all()
    assert (one.segment_ids == other.segment_ids).all()
    assert named.workload.with_preset() == load(written).workload


def test_what_is_said_beside_a_preset_decides_where_a_run_belongs(load):
    """A think time of 0 is another workload than the preset's, though it is the default."""
    plain = load(preset("chat", ", sessions: {turns: 2}"))
    at_once = load(preset("chat", ", sessions: {turns: 2, think_time_s: 0}"))
    swept = [
        load(
            preset("chat", f", sessions: {{turns: 2{more}}}"),
            "sweep.workload.preset=[chat, retrieval]",
        )
        for more in ("", ", think_time_s: 0")
    ]
    folders = {folder_for(one, Path("runs")).name for one in (plain, at_once, *swept)}
    assert len(folders) == 4
    mix = "{mix: {a: %s}}"
    assert (
        len(
            {
                folder_for(load(mix % preset("chat", more)), Path("runs")).name
                for more in (", sessions: {turns: 2}", ", sessions: {turns: 2, think_time_s: 0}")
            }
        )
        == 2
    )


def test_a_dumped_scenario_is_the_one_that_ran(load, tmp_path):
    for scenario in (
        load(preset("chat", ", sessions: {turns: 2}")),
        load(preset("chat", ", sessions: {turns: 2}"), "sweep.workload.preset=[chat]"),
    ):
        path = tmp_path / "again.yaml"
        path.write_text(dump_scenario(scenario))
        one, other = build_workload(scenario), build_workload(load_scenario(path))
        assert one.think_time_ns.tolist() == other.think_time_ns.tolist()
        assert one.think_time_ns.any()


def test_own_parts_win_and_leave_the_others(load):
    """prompts and sessions key by key, a distribution as a whole."""
    settings = catalogue.load_workload("chat").settings
    spec = load(
        preset("chat", ", prompts: {unique: 7}, outputs: 9"), "workload.sessions.turns=3"
    ).workload.with_preset()
    assert spec.prompts.unique.fixed == 7
    assert spec.prompts.shared.groups == settings["prompts"]["shared"]["groups"]
    assert spec.outputs.fixed == 9
    assert spec.sessions.turns.fixed == 3
    assert spec.sessions.think_time_s.exponential.mean == 30


def test_presets_can_be_swept(load):
    swept = points(load(preset("chat"), "sweep.workload.preset=[chat, summarisation]"))
    prompts = [build_workload(point).prompt_tokens.mean() for _, point in swept]
    assert prompts[1] == build_workload(load(preset("summarisation"))).prompt_tokens.mean()
    assert prompts[0] != prompts[1]


def test_resolved_scenario_loads_as_the_same(load, tmp_path):
    scenario = load(MIX)
    path = tmp_path / "again.yaml"
    path.write_text(dump_scenario(scenario))
    one, other = build_workload(scenario), build_workload(load_scenario(path))
    assert (one.prompt_tokens == other.prompt_tokens).all()
    assert one.class_names == other.class_names == ("talk", "search")


MIX = """{requests: 200, arrivals: {poisson: {rate: 1}}, mix: {
  talk: {share: 3, preset: chat, priority: 1}, search: {share: 1, preset: retrieval}}}"""


def test_mix_by_shares(load):
    workload = build_workload(load(MIX))
    assert workload.class_names == ("talk", "search")
    assert set(workload.priority[workload.class_numbers == 0].tolist()) == {1}
    of_sessions = workload.class_numbers[workload.previous < 0]
    num, num_talks = len(of_sessions), int((of_sessions == 0).sum())
    assert abs(num_talks - 0.75 * num) < 4 * math.sqrt(num * 0.75 * 0.25)  # standard errors


def test_share_can_be_swept_and_leaves_what_a_source_draws(load):
    """The first requests of a source are the same, however many there are of them."""
    few, many = (build_workload(load(MIX, f"workload.mix.search.share={n}")) for n in (1, 9))
    found = [one.prompt_tokens[one.class_numbers == 1] for one in (few, many)]
    num = min(map(len, found))
    assert num > 20
    assert (found[0][:num] == found[1][:num]).all()


def test_sources_of_one_kind_draw_differently(load):
    sources = "a: {share: 1, preset: chat}, b: {share: 1, preset: chat}"
    mix = f"{{requests: 100, {A}, mix: {{{sources}}}}}"
    workload = build_workload(load(mix))
    a, b = (workload.output_tokens[workload.class_numbers == number] for number in (0, 1))
    assert not np.array_equal(a[:20], b[:20])


def test_sources_with_times_of_their_own(load, tmp_path):
    (tmp_path / "t.csv").write_text(
        "arrival_s,prompt_tokens,output_tokens\n5,10,2\n6,10,2\n9,10,2\n"
    )
    mix = """{mix: {log: {trace: t.csv},
      drawn: {requests: 3, arrivals: {constant: {rate: 1}}, prompts: {unique: 7}, outputs: 2}}}"""
    workload = build_workload(load(mix))
    assert (workload.arrival_ns // 10**9).tolist() == [0, 1, 1, 2, 3, 4]
    assert workload.prompt_tokens.tolist() == [10, 10, 7, 7, 7, 10]


def test_a_trace_without_times_takes_those_of_the_mix(load, tmp_path):
    (tmp_path / "t.csv").write_text("prompt_tokens,output_tokens\n" + "10,2\n" * 100)
    sources = "log: {share: 1, trace: t.csv}, chat: {share: 1, preset: chat}"
    workload = build_workload(load(f"{{requests: 60, {A}, mix: {{{sources}}}}}"))
    assert len(workload) == 60
    assert set(workload.prompt_tokens[workload.class_numbers == 0].tolist()) == {10}


def test_sessions_that_the_model_length_ends_are_made_up_for(load):
    """Tasks of agents leave no room for a second turn, so there must be more sessions."""
    mix = "agents: {share: 9, preset: tool-agents}, chat: {share: 1, preset: chat}"
    scenario = load(f"{{requests: 300, {A}, mix: {{{mix}}}}}", "engine.max_model_len=4096")
    workload = build_workload(scenario)
    assert len(workload) == 300
    assert any("agents: " in note and "ended early" in note for note in workload.notes)


def test_a_trace_that_is_too_short_for_its_share_is_named(load, tmp_path):
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n1,10,2\n")
    sources = "log: {share: 1, trace: t.csv}, chat: {share: 1, preset: chat}"
    with pytest.raises(WorkloadError, match=r"workload\.mix: log: got 1 single requests, expected"):
        build_workload(load(f"{{requests: 60, {A}, mix: {{{sources}}}}}"))


def test_fewer_requests_than_asked_for_are_noted(load):
    source = "a: {requests: 3, preset: retrieval, arrivals: {constant: {rate: 1}}}"
    workload = build_workload(load(f"{{requests: 9, mix: {{{source}}}}}"))
    assert workload.notes == ("9 requests asked for, the mix gives 3",)


def test_what_is_null_is_not_taken_from_the_preset(load):
    workload = build_workload(load(preset("chat", ", sessions: null, prompts: {shared: null}")))
    assert workload.previous is None
    assert (np.diff(workload.segment_offsets) == 1).all()
    assert build_workload(load(preset("chat", ", sessions: null, n: 2"))).num_outputs == 2


def test_think_times_beyond_the_clock_are_a_mistake(load):
    source = "prompts: {unique: 3}, outputs: 2, sessions: {turns: 12, think_time_s: 1e9}"
    with pytest.raises(WorkloadError, match=r"think times: got a mean of 1e\+09 s, expected less"):
        build_workload(load(f"{{requests: 60, {A}, {source}}}"))


A = "arrivals: {poisson: {rate: 1}}"


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("{preset: chatt, requests: 3, %s}", "workload.preset: got 'chatt', expected a preset: "),
        ("{preset: chat, trace: x.csv}", "workload: expected either trace or preset, not both"),
        ("{preset: chat, %s}", "workload: expected a trace, or all of .*; missing: requests"),
        ("{prompts: {}, outputs: 3, requests: 3, %s}", "workload.prompts.unique: missing"),
        ("{preset: chat, requests: 3, n: 2, %s}", "workload.n: got 2 with sessions, expected 1"),
        (
            "{mix: {a: {preset: chat}}, requests: 3, %s}",
            "mix.a.share: got none, expected its",
        ),
        ("{mix: {a: {preset: chat, share: 1}}, requests: 3}", "mix.a.share: got 1, expected none"),
        (
            "{mix: {a: {preset: chat, share: 1, %s}}, requests: 3, %s}",
            "mix.a.arrivals: got some, expected none, for the mix has them",
        ),
        ("{mix: {a: {share: 1, outputs: 3}}, requests: 3, %s}", "mix.a: expected a trace, or all"),
        ("{mix: {a: {share: 1, preset: chat}}, %s}", "workload.requests: got none with a mix"),
        (
            "{mix: {a: {share: 1, preset: chat}}, outputs: 3, requests: 3, %s}",
            "workload.mix: got outputs beside it",
        ),
        ("{mix: {a: {preset: chat, requests: 3}}}", "mix.a: expected .*missing: arrivals"),
        (
            "{mix: {a: {share: 1, preset: chat, requests: 9}}, requests: 3, %s}",
            "mix.a.requests: got 9, expected none, for the mix has a number",
        ),
        (
            "{mix: {a: {share: 1, preset: chat, format: csv}}, requests: 3, %s}",
            "mix.a.format: got one without a trace",
        ),
        (
            "{mix: {a: {share: 1, prompts: {}, outputs: 3}}, requests: 3, %s}",
            "mix.a.prompts.unique: missing",
        ),
        (
            "{preset: chat, requests: 3, %s, classes: {a: {share: 1, slo: {ttft: 1}}}}",
            "classes.a.slo.ttft: unknown key, did you mean ttft_s",
        ),
    ],
)
def test_mistakes_are_named(load, workload, message):
    with pytest.raises(UserError, match=re.compile(f"^.*s.yaml: .*{message}")):
        load(workload.replace("%s", A))


def test_command_shows_meaning_resemblance_and_settings(kvsim):
    words = " ".join(kvsim("workloads", COLUMNS="250").stdout.split())
    for name in PRESETS:
        assert re.search(rf"\b{name} ", words)
    shown = json.loads(kvsim("workloads", "--json").stdout)
    assert {one["name"] for one in shown} == set(PRESETS)
    assert all(one["resembles"] for one in shown)


def test_trace_command_describes_what_a_scenario_sends(kvsim, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(f"name: s\nengine: {{max_model_len: 16384}}\nworkload: {preset('chat')}\n")
    out = kvsim("trace", str(path)).stdout
    assert out.startswith(f"{path}: workload of a scenario\n60 requests\n")
    found = json.loads(kvsim("trace", str(path), "--json").stdout)
    assert found["num_requests"] == 60
    assert found["sharing"]["token_share"] > 0
