"""Fits of steps whose constants are known, of a recording of vLLM, and of files with mistakes."""

import numpy as np
import pytest

from sim.errors import UserError
from sim.latency.build import build_latency
from sim.latency.fitted import fit, fit_files, predicted_s, residuals
from sim.latency.linear import LinearLatency
from sim.latency.timed_steps import (
    MeasuredSteps,
    TimedStep,
    measured_steps,
    read_steps,
    write_steps,
)
from workloads.errors import WorkloadError

KNOWN = LinearLatency(
    step_s=0.012,
    per_decode_s=4e-4,
    per_decode_doubling_s=7e-4,
    per_context_token_s=1.5e-6,
    per_prefill_s=2e-3,
    per_prefill_token_s=3e-4,
    per_prefill_pair_s=2e-7,
)


def shapes(rng, count):
    """Decodes, their context, and up to three chunks, in any mixture."""
    for _ in range(count):
        num_decodes = int(rng.integers(0, 40))
        context = int(rng.integers(1, 900)) * num_decodes
        num_chunks = int(rng.integers(0, 4))
        chunks = [(int(rng.integers(1, 300)), int(rng.integers(0, 500))) for _ in range(num_chunks)]
        yield num_decodes, context, chunks


def timed(latency, count=400, noise=0.0):
    rng = np.random.default_rng(1)
    steps = []
    for num_decodes, context, chunks in shapes(rng, count):
        seconds = latency.seconds(num_decodes, context, chunks) * rng.uniform(1 - noise, 1 + noise)
        steps.append(TimedStep(num_decodes, context, chunks, False, round(seconds * 1e9)))
    return measured_steps(steps)


def weighted_lstsq(steps, weights):
    matrix = np.column_stack([np.ones(len(steps)), *steps.shape.values()])
    return np.linalg.lstsq(matrix * weights[:, None], steps.duration_s * weights, rcond=None)[0]


def constants_of(latency):
    """In the order of the columns."""
    return [
        latency.step_s,
        latency.per_decode_s,
        latency.per_context_token_s,
        latency.per_prefill_token_s,
        latency.per_decode_doubling_s,
        latency.per_prefill_s,
        latency.per_prefill_pair_s,
        latency.wake_s,
    ]


def test_known_constants_are_recovered():
    found = fit(timed(KNOWN))
    assert constants_of(found.latency) == pytest.approx(constants_of(KNOWN), rel=1e-5)
    assert found.residuals.percentile_90 < 1e-5


def test_steps_after_a_pause_tell_what_waking_up_costs():
    steps = [TimedStep(n, 10 * n, [], n % 2 == 0, 5_000_000 + n * 1000) for n in range(1, 30)]
    woken = [s._replace(duration_ns=s.duration_ns + 700_000 * s.after_idle) for s in steps]
    assert fit(measured_steps(woken)).latency.wake_ns == pytest.approx(700_000, rel=1e-4)


def test_noise_does_not_bias_the_total():
    """Durations up to half off: weights from them would make the model 8 % too fast."""
    found = fit(timed(KNOWN, 3000, noise=0.5))
    assert found.residuals.total == pytest.approx(0, abs=1e-6)
    assert constants_of(found.latency)[0] == pytest.approx(KNOWN.step_s, rel=0.1)


def test_agrees_with_lstsq_where_no_constant_would_be_negative():
    """Weighted by the fitted durations, plain least squares finds the same."""
    steps = timed(KNOWN, noise=0.02)
    del steps.shape["after_idle"]
    found = fit(steps)
    plain = weighted_lstsq(steps, 1 / np.sqrt(predicted_s(found.latency, steps)))
    assert (plain > 0).all()
    assert constants_of(found.latency)[:-1] == pytest.approx(plain.tolist(), rel=1e-5)


def test_no_constant_is_negative():
    """Steps that get shorter by their decodes: a cost of 0 fits best."""
    steps = [TimedStep(n, n, [(5, 0)], False, 9_000_000 - 100_000 * n) for n in range(1, 30)]
    assert min(constants_of(fit(measured_steps(steps)).latency)) == 0


def test_residuals_by_hand():
    """A model of 10 ms on steps of 8, 10 and 20 ms, the last with prefill."""
    steps = [
        TimedStep(1, 5, [], False, 8_000_000),
        TimedStep(1, 6, [], False, 10_000_000),
        TimedStep(0, 0, [(9, 0)], False, 20_000_000),
    ]
    found = residuals(LinearLatency(step_s=0.01), measured_steps(steps))
    assert (found.num_steps, found.median) == (3, pytest.approx(0.25))
    assert found.percentile_90 == pytest.approx(0.25 + 0.8 * 0.25)  # between 0.25 and 0.5
    assert found.total == pytest.approx(30 / 38 - 1)
    assert (found.decodes, found.prefills) == pytest.approx((20 / 18 - 1, -0.5))


def test_measured_steps_count_chunks_and_pairs():
    """Two chunks: 3 tokens after 10 look at 11 + 12 + 13, 2 tokens at 1 + 2."""
    steps = measured_steps([TimedStep(15, 90, [(3, 10), (2, 0)], True, 5_000_000)])
    assert {name: column.tolist() for name, column in steps.shape.items()} == {
        "decode_seqs": [15],
        "decode_context_tokens": [90],
        "prefill_tokens": [5],
        "decode_doublings": [4],
        "prefill_seqs": [2],
        "prefill_pairs": [39],
        "after_idle": [1],
    }


def test_written_steps_are_read_again(tmp_path):
    steps = timed(KNOWN, 50)
    write_steps(tmp_path / "steps.csv", steps)
    again = read_steps([str(tmp_path / "steps.csv")])
    assert list(again.shape) == list(steps.shape)
    assert all(
        again.shape[name] == pytest.approx(steps.shape[name], abs=1e-6) for name in steps.shape
    )
    assert again.duration_s == pytest.approx(steps.duration_s, abs=1e-9)
    assert [path.name for path in tmp_path.iterdir()] == ["steps.csv"]


def test_steps_cannot_be_written_into_nowhere(tmp_path):
    with pytest.raises(UserError, match=r"nowhere/steps\.csv: no such file"):
        write_steps(tmp_path / "nowhere" / "steps.csv", timed(KNOWN, 5))


HEADER = "decode_seqs,decode_context_tokens,prefill_tokens,duration_ms"
ROWS = "\n".join(f"{n},{n * n},{n % 3 * 7},{10 + n}" for n in range(6))


def write(tmp_path, text, name="steps.csv"):
    (tmp_path / name).write_text(text, "utf-8")
    return str(tmp_path / name)


def test_scenario_reads_its_files_together(tmp_path, new_scenario):
    """A prefill token costs 2 ms in one file, a decode 1 ms in the other, a step 5 ms in both."""
    prefills = "\n".join(f"0,0,{n},{5 + 2 * n}" for n in range(1, 6))
    decodes = "\n".join(f"{n},{n * n},0,{5 + n}" for n in range(1, 6))
    files = [
        write(tmp_path, f"{HEADER}\n{prefills}\n", "prefills.csv"),
        write(tmp_path, f"{HEADER}\n{decodes}\n", "decodes.csv"),
    ]
    latency = build_latency(new_scenario(latency={"kind": "fitted", "files": files})).latency
    assert latency.decode_times_ns(10, 100, 1)[0] == pytest.approx(15_000_000, rel=1e-6)
    assert latency.seconds(1, 1, [(100, 0)]) == pytest.approx(0.206, rel=1e-6)


def test_other_columns_are_passed_over(tmp_path):
    rows = "\n".join(f"x,{row}" for row in ROWS.splitlines())
    assert len(read_steps([write(tmp_path, f"start,{HEADER}\n{rows}\n")])) == 6


# What is in the file -> what the one line names.
MISTAKES = {
    "": ("is empty",),
    HEADER: ("no rows",),
    "decode_seqs,duration_ms\n1,2\n": ("line 1", "prefill_tokens"),
    f"{HEADER}\n{ROWS}\n1,2,many,4": ("line 8", "prefill_tokens", "'many'", "whole number"),
    f"{HEADER}\n{ROWS}\n-1,2,3,4": ("line 8", "decode_seqs", "'-1'", "from 0"),
    f"{HEADER}\n{ROWS}\n1.5,2,3,4": ("line 8", "decode_seqs", "'1.5'", "whole number"),
    f"{HEADER}\n{ROWS}\n1,,3,4": ("line 8", "decode_context_tokens", "''"),
    f"{HEADER}\n{ROWS}\n1,2,3,nan": ("line 8", "duration_ms", "'nan'", "milliseconds"),
    f"{HEADER}\n{ROWS}\n1,2,3,inf": ("line 8", "duration_ms", "'inf'"),
    f"{HEADER}\n{ROWS}\n1,2,3,1e400": ("line 8", "duration_ms", "'1e400'"),
    f"{HEADER}\n{ROWS}\n1,2,3,0": ("line 8", "duration_ms", "'0'"),
    f"{HEADER}\n{ROWS}\n1,2,3": ("line 8", "3 fields", "4"),
    f"{HEADER}\n1,2,3,4\n2,3,4,5": ("2 steps", "4"),
}  # fmt: skip - a row of the table a line


@pytest.mark.parametrize("text", MISTAKES)
def test_mistake_in_a_file_is_one_line(tmp_path, text):
    path = write(tmp_path, text)
    with pytest.raises((UserError, WorkloadError)) as caught:
        fit_files([path])
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert [part for part in MISTAKES[text] if part not in message] == [], message


def test_missing_file_is_named(tmp_path):
    with pytest.raises(WorkloadError, match=r"none\.csv: .*[Nn]o such file"):
        fit_files([str(tmp_path / "none.csv")])


def test_files_must_have_the_same_optional_columns(tmp_path):
    first = write(tmp_path, f"{HEADER}\n{ROWS}\n", "first.csv")
    rows = "\n".join(f"{row},1" for row in ROWS.splitlines())
    second = write(tmp_path, f"{HEADER},prefill_seqs\n{rows}\n", "second.csv")
    with pytest.raises(UserError, match=r"first\.csv: lacks the column prefill_seqs that .*second"):
        read_steps([first, second])


def test_recording_of_vllm(data_dir):
    """The constants that the README of the recording has from its two runs, roughly.

    It weights by the measured durations, which makes the model 4 % too fast; the cost of a chunk,
    of which there are few, differs most.
    """
    folder = data_dir / "validation" / "vllm-cpu-small-llama"
    runs = ("mixed_load_steps", "load_low")
    found = fit_files([str(folder / run / "steps.csv") for run in runs])
    assert found.latency.step_s == pytest.approx(14.5e-3, rel=0.1)
    assert found.latency.per_prefill_token_s == pytest.approx(0.365e-3, rel=0.05)
    assert found.latency.per_decode_s == pytest.approx(0.51e-3, rel=0.15)
    assert found.latency.per_context_token_s == pytest.approx(0.001e-3, rel=0.2)
    assert found.residuals.median < 0.12


def test_measured_weights_give_what_the_readme_has(data_dir):
    """The same columns, weighted as the README says: its constants, to its digits."""
    folder = data_dir / "validation" / "vllm-cpu-small-llama"
    runs = ("mixed_load_steps", "load_low")
    steps: MeasuredSteps = read_steps([str(folder / run / "steps.csv") for run in runs])
    constants = weighted_lstsq(steps, 1 / np.sqrt(steps.duration_s)) * 1e3
    assert constants.tolist() == pytest.approx([14.5, 0.51, 0.001, 0.365, 2.9], rel=0.02)
