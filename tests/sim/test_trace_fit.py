"""Fits of workloads drawn from known settings, and of sessions written down by hand."""

from pathlib import Path

import numpy as np
import pytest

from sim.scenario import Scenario
from sim.sources import build_workload
from sim.trace.comparison import comparison
from sim.trace.fit import drawn, fit, write
from workloads import Source, Trace, read_trace, trace_of_workload

KNOWN = {
    "requests": 4000,
    "arrivals": {"poisson": {"rate": 2.0}},
    "prompts": {
        "shared": {"groups": 3, "tokens": 64},
        "unique": {"uniform": {"low": 10, "high": 50}},
    },
    "outputs": {"uniform": {"low": 5, "high": 25}},
    "sessions": {
        "turns": {"uniform": {"low": 1, "high": 7}},
        "first": {"uniform": {"low": 100, "high": 300}},
        "think_time_s": {"exponential": {"mean": 12.0}},
    },
}


def trace_of(**workload) -> Trace:
    scenario = Scenario.parse(
        {"name": "t", "engine": {"max_model_len": 100_000}, "workload": {**KNOWN, **workload}}
    )
    return trace_of_workload(build_workload(scenario), "kvsim")


def own(*lines: str) -> Trace:
    return read_trace(Source("t.jsonl", "\n".join(lines)), "kvsim")


def values(files: dict[Path, str], part: str) -> np.ndarray:
    (text,) = [text for path, text in files.items() if path.name == f"like-{part}.txt"]
    return np.array(text.split(), dtype=float)


def close(sample: np.ndarray, mean: float, sd: float, num: int) -> bool:
    """Within four standard errors of `num` draws, and one part in a thousand for quantiles."""
    return abs(sample.mean() - mean) < 4 * sd / num**0.5 + mean / 1000


def test_settings_of_sessions_come_back(tmp_path):
    """Uniform integers from a to b: mean (a + b) / 2, variance ((b - a + 1)**2 - 1) / 12."""
    given = trace_of()
    fitted = fit(given, tmp_path / "like.yaml")
    workload = fitted.scenario["workload"]
    num_sessions = int((given.previous < 0).sum())
    num_later = len(given) - num_sessions
    assert close(values(fitted.files, "turns"), 4, 2, num_sessions)
    assert close(values(fitted.files, "first"), 200, (201**2 / 12) ** 0.5, num_sessions)
    assert close(values(fitted.files, "prompts"), 30, (41**2 / 12) ** 0.5, num_later)
    assert close(values(fitted.files, "outputs"), 15, (21**2 / 12) ** 0.5, len(given))
    assert close(values(fitted.files, "think"), 12, 12, num_later)
    assert workload["prompts"]["shared"] == {"groups": 3, "tokens": 64}
    rates = np.array(workload["arrivals"]["windows"]["rates"])
    assert close(rates, 2, 2, num_sessions)
    assert not any(note.startswith("not fitted") for note in fitted.notes)


def test_what_new_turns_add_is_found_to_the_token(tmp_path):
    """Lengths as wide as a single number come back as it."""
    fixed = {
        "prompts": {"unique": 30},
        "outputs": 15,
        "sessions": {"turns": 4, "first": 200, "think_time_s": 2.5},
    }
    workload = fit(trace_of(**fixed), tmp_path / "like.yaml").scenario["workload"]
    assert {key: workload[key] for key in fixed} == fixed


def test_drawn_sessions_resemble_those_of_the_trace(tmp_path):
    """A draw of a fit has as many turns, thinks as long, and shares as much."""
    given, out = trace_of(), tmp_path / "like.yaml"
    write(fit(given, out), out)
    lines = {what: pair for what, *pair in comparison(given, trace_of_workload(drawn(out), "x"))}
    for what in ("sessions/s", "turns per session", "mean think time, s", "prompt tokens, mean"):
        theirs, ours = (float(value.replace(",", "")) for value in lines[what])
        assert ours == pytest.approx(theirs, rel=0.15), what
    found = [pair for what, pair in lines.items() if what.startswith("found by")]
    assert len(found) == 4
    for pair in found:
        theirs, ours = (float(value.rstrip("%")) for value in pair)
        assert ours == pytest.approx(theirs, abs=4)


@pytest.mark.slow
def test_settings_of_requests_with_a_system_prompt_come_back(tmp_path):
    """Of 5 groups of 512 tokens with 256 of their own each: two thirds but of some at the start."""
    given = trace_of(prompts={"shared": {"groups": 5, "tokens": 512}, "unique": 256}, sessions=None)
    out = tmp_path / "like.yaml"
    write(fit(given, out), out)
    again = drawn(out)
    assert set(again.prompt_tokens.tolist()) == {768}
    lines = {what: pair for what, *pair in comparison(given, trace_of_workload(again, "x"))}
    for share in lines["found by a cache of any size"]:
        assert float(share.rstrip("%")) == pytest.approx(66.6, abs=0.3)


def turn(number: int, prompt: str, tokens: int, output: int) -> str:
    return (
        f'{{"arrival_s": 0, "prompt_tokens": {tokens}, "output_tokens": {output}, "session": "a", '
        f'"turn": {number}, "segments": {prompt}, "answer_id": {90 + number}}}'
    )


def test_turns_whose_history_was_cut_are_counted_and_left_out(tmp_path):
    """The second goes on with 20 tokens, the third with half an answer, the fourth begins anew."""
    given = own(
        turn(1, "[[1, 100]]", 100, 10),
        turn(2, "[[1, 100], [91, 10], [2, 20]]", 130, 10),
        turn(3, "[[1, 100], [91, 10], [2, 20], [92, 5]]", 135, 10),
        turn(4, "[[1, 100], [4, 80]]", 180, 10),
    )
    fitted = fit(given, tmp_path / "like.yaml")
    assert sorted(values(fitted.files, "prompts")) == [1, 20]
    assert (
        "not fitted: 1 of 3 later turns have a prompt that does not go on from the one before; "
        "here all do"
    ) in fitted.notes
    assert (
        "1 of 3 later turns have a prompt without all of the answer before: taken as one token "
        "that is new"
    ) in fitted.notes


def test_sessions_of_which_one_begins_by_itself_have_no_system_prompt(tmp_path):
    lines = [
        f'{{"arrival_s": {i}, "prompt_tokens": 40, "output_tokens": 5, "session": "{i}", '
        f'"segments": [[{content}, 30], [{10 + i}, 10]], "answer_id": {20 + i}}}'
        for i, content in enumerate((1, 1, 2))
    ]
    fitted = fit(own(*lines), tmp_path / "like.yaml")
    assert "shared" not in fitted.scenario["workload"]["prompts"]
    assert "not fitted: 2 of 3 sessions begin as another does, here none" in fitted.notes
    alike = fit(own(*lines[:2]), tmp_path / "like.yaml").scenario["workload"]
    assert alike["prompts"] == {"shared": {"groups": 1, "tokens": 30}, "unique": 10}
