"""Calibration and twins of tiny models: that they are whole and consistent, never how fast."""

import json

import pytest

from sim.errors import UserError
from sim.latency.fitted import fit
from sim.latency.timed_steps import read_steps
from sim.scenario.file import load_scenario
from sim.twin import calibrate
from sim.twin.calibrate import time_steps
from sim.twin.command import calibrate_scenario, twin_scenario
from sim.twin.live import CpuClock
from sim.twin.twin import check_can_be_twinned, run_twin, serve_live

TINY = """\
name: tiny
runner: toy-lm
toy_lm: {num_layers: 1, d_model: 8, num_heads: 2, num_kv_heads: 1, head_size: 4, d_ff: 8}
engine: {block_size: 4, num_blocks: 64, max_num_seqs: 4, max_num_batched_tokens: 16}
workload:
  requests: 12
  arrivals: {poisson: {rate: 200}}
  prompts: {unique: {uniform: {low: 2, high: 30}}}
  outputs: {uniform: {low: 2, high: 9}}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes s.yaml; calibrations are as short as they can be."""
    monkeypatch.setattr(calibrate, "BUDGET_S", 0.0)
    monkeypatch.setattr(calibrate, "FEWEST_ROUNDS", 1)
    monkeypatch.setattr(calibrate, "TOKENS_PER_USER", 20)
    path = tmp_path / "s.yaml"

    def write(text=TINY):
        path.write_text(text, "utf-8")
        return path

    return write


def test_calibration_has_steps_of_all_kinds(write):
    steps = time_steps(load_scenario(write()), "default")
    assert {step.num_decodes for step in steps} >= {0, 1, 2, 3, 4}
    assert max(step.num_decodes for step in steps) == 4
    assert any(step.prefills and step.num_decodes for step in steps)
    assert any(context for step in steps for _, context in step.prefills)
    assert any(step.after_idle for step in steps)
    assert min(step.duration_ns for step in steps) > 0


@pytest.mark.slow
def test_twin_of_several_outputs_serves_them_all(write):
    scenario = load_scenario(write(), ["workload.n=2"])
    assert max(step.num_decodes for step in time_steps(scenario, "default")) == 4
    records, _, _ = serve_live(scenario, "default", CpuClock)
    assert records.num_outputs == 2
    assert (records.requests["output_tokens"] > 2).all()


def test_calibration_of_a_static_batch_ends(write):
    static = TINY.replace(
        "engine: {", "engine: {batching: static, batch_size: 3, max_wait_s: 0.001, "
    )
    steps = time_steps(load_scenario(write(static)), "default")
    assert max(step.num_decodes for step in steps) == 3


def test_users_who_never_pause_leave_no_idle_engine_to_calibrate(write):
    closed = TINY.replace("poisson: {rate: 200}", "closed_loop: {concurrency: 2}")
    steps = time_steps(load_scenario(write(closed)), "default")
    assert not any(step.after_idle for step in steps)
    assert max(step.num_decodes for step in steps) == 2


def test_calibration_of_what_cannot_be_served_is_a_mistake(write):
    with pytest.raises(UserError, match="none of the requests can be served"):
        time_steps(load_scenario(write(TINY.replace("num_blocks: 64", "num_blocks: 1"))), "default")


def test_twin_is_of_the_same_requests(write):
    twin = run_twin(load_scenario(write()), "default")
    for row in (twin.simulated, twin.at_its_speed):
        assert row["finished"] == twin.real["finished"] == 12
        assert row["output_tokens"] == twin.real["output_tokens"]
    assert 0 < twin.busy_share <= 1
    assert 0 < twin.cpu_share < 1.1


def test_twin_at_its_speed_has_the_real_time_of_steps(write):
    """With one request at a time, the steps are the same, and so is the time of all of them."""
    alone = TINY.replace("poisson: {rate: 200}", "closed_loop: {concurrency: 1}")
    twin = run_twin(load_scenario(write(alone)), "default")
    assert twin.at_its_speed["steps"] == twin.real["steps"]
    assert twin.at_its_speed["span_s"] == pytest.approx(twin.real["span_s"], rel=1e-3)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (TINY.replace("toy-lm", "replay", 1), ("runner", "replay", "toy-lm")),
        (TINY + "sweep: {engine.block_size: [4, 8]}\n", ("sweep", "engine.block_size", "none")),
        (TINY + "replications: 3\n", ("replications", "3", "1")),
    ],
)
def test_what_cannot_be_twinned_is_one_line(write, text, parts):
    with pytest.raises(UserError) as caught:
        check_can_be_twinned(load_scenario(write(text)), "s.yaml")
    (line,) = str(caught.value).splitlines()
    assert line.startswith("s.yaml: ")
    assert [part for part in parts if part not in line] == []


@pytest.mark.slow
def test_twin_prints_a_table_for_each_system(write, capsys):
    systems = "systems: {one: {}, two: {enable_prefix_caching: true}}\n"
    twin_scenario(write(TINY + systems), [], as_json=False, in_cpu_time=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.strip() in ("one", "two")] == ["one", "two"]
    assert sum(line.startswith("TTFT p90 ms") for line in lines) == 2
    table = lines[: lines.index("") - 5]
    assert max(map(len, table)) <= 80


@pytest.mark.slow
def test_twin_in_json_has_the_errors_of_the_table(write, capsys):
    twin_scenario(write(), ["workload.requests=5"], as_json=True, in_cpu_time=True)
    (twin,) = json.loads(capsys.readouterr().out)
    real, simulated = twin["real"]["e2e_mean_s"], twin["simulated"]["e2e_mean_s"]
    assert twin["errors"]["e2e_mean_s"] == pytest.approx(simulated / real - 1)


def test_calibrate_writes_what_a_scenario_reads(write, tmp_path, capsys):
    """The fit of the file is the one that was printed."""
    out = tmp_path / "steps.csv"
    calibrate_scenario(write(), [], out)
    printed = capsys.readouterr().out
    steps = read_steps([str(out)])
    assert f"fitted to {len(steps)} steps" in printed
    reading = load_scenario(write(TINY + "latency: {kind: fitted, files: [steps.csv]}\n"))
    assert reading.latency.files == [str(out)]
    assert fit(steps).latency.step_s > 0


@pytest.mark.parametrize("out", [".", "nowhere/steps.csv"])
def test_calibrate_finds_a_wrong_out_before_the_work(write, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sim.twin.command.time_steps", lambda *_: pytest.fail("worked first"))
    with pytest.raises(UserError, match="--out"):
        calibrate_scenario(write(), [], type(tmp_path)(out))


def test_calibrate_overrides_nothing_without_a_scenario(tmp_path):
    with pytest.raises(UserError, match="--set"):
        calibrate_scenario(None, ["seed=2"], tmp_path / "steps.csv")
