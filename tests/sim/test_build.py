"""What the keys of a scenario become: compared with the same things made without one."""

import numpy as np
import pytest

import workloads as w
from engine import Engine, ReplayEngine, Request, SamplingParams
from sim.build import build_engine
from sim.scenario.deployed import build_config
from sim.simulate import simulate
from sim.sources import build_workload

SEED = 3
SYNTHETIC = {
    "requests": 50,
    "arrivals": {"poisson": {"rate": 5}},
    "prompts": {"unique": 8},
    "outputs": 4,
}


@pytest.fixture
def build(new_scenario):
    """The workload of a scenario in which these keys are others."""

    def build(**changed) -> w.Workload:
        return build_workload(new_scenario(seed=SEED, workload=SYNTHETIC | changed))

    return build


@pytest.mark.parametrize(
    ("spec", "arrivals"),
    [
        ({"constant": {"rate": 5}}, w.ConstantRate(5)),
        ({"poisson": {"rate": 5}}, w.Poisson(5)),
        ({"gamma": {"rate": 5, "cv": 2.5}}, w.Gamma(5, 2.5)),
        ({"weibull": {"rate": 5, "shape": 0.5}}, w.Weibull(5, 0.5)),
        (
            {"bursts": {"rate": 2, "burst_rate": 9, "mean_calm_s": 3, "mean_burst_s": 1}},
            w.Bursts(2, 9, mean_calm_s=3, mean_burst_s=1),
        ),
        ({"diurnal": {"rate": 5, "peak": 1.5, "period_s": 4}}, w.Diurnal(5, 1.5, 4)),
    ],
)
def test_arrivals(build, spec, arrivals):
    expected = arrivals.times_ns(50, w.stream(SEED, "arrivals"))
    assert build(arrivals=spec).arrival_ns.tolist() == expected.tolist()


def test_closed_loop(build):
    workload = build(arrivals={"closed_loop": {"concurrency": 3, "think_time_s": 0.5}})
    assert (workload.arrival_ns, workload.closed_loop) == (None, w.ClosedLoop(3, 0.5))


LENGTHS = [
    (7, w.Fixed(7)),
    ({"uniform": {"low": 2, "high": 9}}, w.Uniform(2, 9)),
    (
        {"lognormal": {"mean": 20, "sigma": 1.5, "min": 9, "max": 40}},
        w.LogNormal(20, 1.5, min=9, max=40),
    ),
    ({"lognormal": {"mean": 20, "sigma": 0.5}}, w.LogNormal(20, 0.5)),
]


@pytest.mark.parametrize(("spec", "lengths"), LENGTHS)
def test_prompt_and_output_lengths(build, spec, lengths):
    workload = build(prompts={"unique": spec}, outputs=spec)
    prompts = lengths.sample(50, w.stream(SEED, "prompt lengths"))
    outputs = lengths.sample(50, w.stream(SEED, "output lengths"))
    assert workload.prompt_tokens.tolist() == prompts.tolist()
    assert workload.output_tokens.tolist() == outputs.tolist()


def test_lengths_of_a_file(build, tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("# tokens\n3\n\n5\n", "utf-8")
    workload = build(outputs={"empirical": {"file": str(path)}})
    assert set(workload.output_tokens.tolist()) == {3, 5}


def test_groups_share_their_system_prompts(build):
    """Three contents stand first in all prompts, and each is as long as was drawn for it."""
    shared = {"groups": 3, "tokens": {"uniform": {"low": 10, "high": 99}}}
    workload = build(prompts={"shared": shared, "unique": 8})
    first = workload.segment_offsets[:-1]
    groups = dict(
        zip(
            workload.segment_ids[first].tolist(),
            workload.segment_tokens[first].tolist(),
            strict=True,
        )
    )
    expected = w.Uniform(10, 99).sample(3, w.stream(SEED, "group lengths"))
    assert groups == dict(enumerate(expected.tolist()))


def test_output_limit_is_the_longest_output_unless_it_is_said(build):
    assert set(build(outputs={"uniform": {"low": 1, "high": 9}}).max_new_tokens) == {9}
    assert set(build(max_new_tokens=3).max_new_tokens) == {3}


@pytest.fixture
def trace(root):
    return str(root / "scenarios" / "samples" / "azure_form.csv")


def test_trace_is_cut_to_its_first_requests(new_scenario, trace):
    whole = w.read_trace(w.read_source(trace))
    workload = build_workload(new_scenario(workload={"trace": trace, "requests": 7}))
    assert workload.prompt_tokens.tolist() == whole.prompt_tokens[:7].tolist()
    assert workload.arrival_ns.tolist() == whole.arrival_ns[:7].tolist()


def test_requests_of_a_trace_state_the_limit_of_the_scenario(new_scenario, trace):
    workload = build_workload(new_scenario(workload={"trace": trace, "max_new_tokens": 11}))
    assert set(workload.max_new_tokens) == {11}


def test_requests_of_a_trace_may_else_fill_the_model(new_scenario, trace):
    engine = {"max_model_len": 5000}
    workload = build_workload(new_scenario(workload={"trace": trace}, engine=engine))
    assert (workload.prompt_tokens + workload.max_new_tokens == 5000).all()


def tokens_of(scenario) -> list[int]:
    """What the scenario's runner says to its first request."""
    workload = build_workload(scenario)
    config = build_config(scenario, "default")
    engine = build_engine(scenario, config, workload, stepwise=True)
    sampling = SamplingParams(ignore_eos=True)
    engine.add_request(Request(0, workload.prompt(0), int(workload.max_new_tokens[0]), sampling))
    return [output.token_id for output in engine.stream(0)]


def test_toy_lm_is_that_of_the_scenario(new_scenario):
    """Other weights, other words; the length is the workload's in any case."""
    first, same, other = (
        tokens_of(new_scenario(runner="toy-lm", toy_lm={"seed": seed})) for seed in (1, 1, 2)
    )
    assert first == same
    assert first != other
    assert len(first) == len(other) == 4


def test_replay_hands_out_the_answers_of_the_workload(new_scenario):
    """All but the last, in whose place the end of the text stands."""
    scenario = new_scenario(runner="replay")
    answer = list(build_workload(scenario).answer(0))
    assert tokens_of(scenario)[:-1] == answer[:-1]


def test_only_tokens_that_need_not_be_computed_are_taken_many_at_once(new_scenario):
    classes = []
    for runner, stepwise in (("replay", False), ("replay", True), ("toy-lm", False)):
        scenario = new_scenario(runner=runner)
        config, workload = build_config(scenario, "default"), build_workload(scenario)
        classes.append(type(build_engine(scenario, config, workload, stepwise=stepwise)))
    assert classes == [ReplayEngine, Engine, Engine]


def test_simulated_users_think(new_scenario):
    """Answers take 40 ms, thoughts 50: the one user sends at 0, 90, 180, ... ms."""
    arrivals = {"closed_loop": {"concurrency": 1, "think_time_s": 0.05}}
    workload = SYNTHETIC | {"requests": 4, "arrivals": arrivals}
    requests = simulate(new_scenario(workload=workload), "default").requests
    assert requests["arrival_ns"].tolist() == [i * 90_000_000 for i in range(4)]


def test_simulated_toy_lm_does_not_end_by_itself(new_scenario):
    """The end of text is one of 257 tokens: in 2,000 of them it would have come, once or more."""
    workload = SYNTHETIC | {"requests": 4, "outputs": 500}
    requests = simulate(new_scenario(runner="toy-lm", workload=workload), "default").requests
    assert np.array_equal(requests["output_tokens"], [500] * 4)
