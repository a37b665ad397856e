"""Sessions under the clock: who is sent when, what a prompt finds of the answers before it."""

import numpy as np
import pytest

from sim import build
from sim.errors import UserError
from sim.scenario.file import load_scenario
from sim.simulate import simulate
from sim.sources import build_workload
from sim.twin.twin import check_can_be_twinned

MS = 1_000_000

# Turns of 8 tokens, answers of 4; steps of 10 ms.
CONVERSATIONS = {
    "requests": 6,
    "arrivals": {"constant": {"rate": 10}},
    "prompts": {"unique": 8},
    "outputs": 4,
    "sessions": {"turns": 3, "think_time_s": 0.005},
}
CACHING = {"block_size": 4, "num_blocks": 64, "max_model_len": 128, "enable_prefix_caching": True}


@pytest.fixture
def conversations(new_scenario):
    """A scenario of them: `conversations({"max_num_seqs": 1}, outputs=3)`."""

    def scenario(engine=None, runner="replay", **workload):
        return new_scenario(
            engine=CACHING | (engine or {}), workload=CONVERSATIONS | workload, runner=runner
        )

    return scenario


def stamps(records):
    columns = records.requests[["arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"]]
    return [tuple(time / MS for time in row) for row in columns.itertuples(index=False)]


@pytest.fixture
def both(assert_equal_records):
    """What a scenario leaves, which is the same with every step by itself."""

    def run(scenario):
        records = simulate(scenario, "default")
        assert_equal_records(records, simulate(scenario, "default", stepwise=True))
        return records

    return run


def test_turns_are_sent_after_answers_and_thought(conversations, both):
    """The first session starts at 100, the second at 200, and meets the third turn of the first."""
    records = both(conversations())
    assert stamps(records) == [
        (100, 100, 110, 140),
        (145, 145, 155, 185),
        (190, 190, 200, 230),
        (200, 200, 210, 240),
        (245, 245, 255, 285),
        (290, 290, 300, 330),
    ]


def test_turn_without_thought_is_in_the_step_after_the_answer(conversations, both):
    records = both(conversations(sessions={"turns": 2}, requests=2))
    assert stamps(records) == [(100, 100, 110, 140), (140, 140, 150, 180)]


def test_user_of_a_closed_loop_has_one_session_after_another(conversations, both):
    loop = {"closed_loop": {"concurrency": 1, "think_time_s": 0.1}}
    records = both(conversations(arrivals=loop, requests=4, sessions={"turns": 2}))
    assert [row[0] for row in stamps(records)] == [0, 40, 180, 220]


def test_prompt_finds_the_answers_before_it_but_for_their_last_tokens(conversations, both):
    """Of 8, 8 + 4 + 8, 8 + 4 + 8 + 4 + 8: the last token of an answer is never fed, so 11 and 23
    tokens are there, in full blocks 8 and 20."""
    requests = both(conversations()).requests
    assert requests["cached_tokens"].tolist() == [0, 8, 20] * 2
    assert requests["unseen_tokens"].tolist() == [4, 8, 8] * 2


def test_blocks_of_one_token_find_all_that_was_fed(conversations, both):
    requests = both(conversations({"block_size": 1, "num_blocks": 256})).requests
    assert requests["cached_tokens"].tolist() == [0, 11, 23] * 2


def test_refused_turn_does_not_hold_up_the_session(conversations, both):
    """Each needs room for 4 more: the third, of 32 + 4 - 1 slots, has no 9 of 8 blocks."""
    records = both(conversations({"num_blocks": 8}, requests=3))
    assert records.requests["finish_reason"].tolist() == ["stop", "stop", "refused"]


def test_session_that_outgrows_the_model_is_noted(conversations, both):
    records = both(conversations({"max_model_len": 32}))
    assert records.notes == ("2 sessions ended early at max_model_len 32: 2 requests fewer",)
    assert len(records.requests) == 4


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
def test_toy_lm_and_replay_hold_the_same_blocks(conversations, assert_equal_records, policy):
    """Where prompts quote answers and memory is short, to the step."""
    settings = {"policy": policy, "num_blocks": 24}
    workload = {"requests": 40, "outputs": {"uniform": {"low": 1, "high": 12}}}
    workload["arrivals"] = {"closed_loop": {"concurrency": 5}}
    toy, replay = (
        simulate(conversations(settings, runner, **workload), "default")
        for runner in ("toy-lm", "replay")
    )
    assert replay.requests["evicted_tokens"].any()
    assert replay.requests["preemptions"].any()
    assert_equal_records(toy, replay)


def test_toy_lm_says_the_same_with_and_without_shared_answers(conversations, monkeypatch):
    """What it reads of an answer that is shared is what it would have computed itself."""
    said: dict[bool, dict[tuple[int, int], int]] = {True: {}, False: {}}
    for caching, tokens in said.items():
        scenario = conversations({"enable_prefix_caching": caching}, "toy-lm", requests=12)

        class Watching(build.TeacherForcingRunner):
            def run(self, step, tokens=tokens):
                sampled = [chunk.seq for chunk in step.chunks if chunk.samples]
                for seq, token in zip(sampled, self._student.run(step), strict=True):
                    tokens[seq.request.request_id, seq.num_output_tokens] = token
                return self._teacher.run(step)

        monkeypatch.setattr(build, "TeacherForcingRunner", Watching)
        records = simulate(scenario, "default")
        assert records.requests["cached_tokens"].any() == caching
    assert len(said[True]) == 12 * 4
    assert said[True] == said[False]


def test_four_equal_turns_hit_what_their_lengths_say(new_scenario):
    """An unlimited cache of blocks of one token: of turn k's prompt, all but its own new turn and
    the last token of the answer before."""
    scenario = new_scenario(
        engine={"block_size": 1, "num_blocks": 200_000, "enable_prefix_caching": True},
        workload={
            "requests": 400,
            "arrivals": {"poisson": {"rate": 3}},
            "prompts": {"unique": {"uniform": {"low": 256, "high": 512}}},
            "outputs": {"uniform": {"low": 4, "high": 8}},
            "sessions": {"turns": 4},
        },
    )
    workload = build_workload(scenario)
    requests = simulate(scenario, "default").requests
    answers = np.where(workload.previous < 0, 0, workload.output_tokens[workload.previous])
    turns = workload.segment_tokens[workload.segment_offsets[1:] - 1]
    hits = np.where(workload.previous < 0, 0, workload.prompt_tokens - turns - 1)
    assert answers.max() == 8
    assert requests["cached_tokens"].tolist() == hits.tolist()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sessions: {turns: 0}", "workload.sessions.turns"),
        ("sessions: {turns: 2, think_time_s: -1}", "workload.sessions.think_time_s.fixed: got -1"),
        ("sessions: {think_time_s: 1}", "workload.sessions.turns: missing"),
        ("sessions: {turns: 2, rounds: 3}", "workload.sessions.rounds: unknown key"),
    ],
)
def test_mistakes_are_named(tmp_path, line, message):
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: s\nworkload:\n  requests: 4\n  arrivals: {constant: {rate: 1}}\n"
        f"  prompts: {{unique: 4}}\n  outputs: 4\n  {line}\n"
    )
    with pytest.raises(UserError, match=message):
        load_scenario(path)


def test_session_goes_on_with_one_output(new_scenario):
    with pytest.raises(ValueError, match="n: got 2 with sessions, expected 1"):
        new_scenario(workload=CONVERSATIONS | {"n": 2})


def test_trace_has_no_sessions(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nworkload: {trace: t.csv, sessions: {turns: 2}}\n")
    with pytest.raises(UserError, match="workload: expected either trace or sessions, not both"):
        load_scenario(path)


def test_turns_can_be_set_in_their_short_form(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: s\nworkload:\n  requests: 4\n  arrivals: {constant: {rate: 1}}\n"
        "  prompts: {unique: 4}\n  outputs: 4\n  sessions: {turns: 2}\n"
    )
    scenario = load_scenario(path, ["workload.sessions.turns.fixed=4"])
    assert build_workload(scenario).first_of_sessions.tolist() == [0]


def test_twin_refuses_sessions(conversations):
    with pytest.raises(UserError, match="workload: got sessions, expected none"):
        check_can_be_twinned(conversations(runner="toy-lm"), "s.yaml")
