"""`kvsim validate` on runs whose truth is known, and on the real ones of KVSIM_DATA."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from sim import catalogue
from sim.errors import UserError
from sim.metrics import summarise
from sim.scenario import Scenario
from sim.scenario.deployed import build_config
from sim.simulate import serve, simulate
from sim.validation.case import MeasuredBy
from sim.validation.fit_host import fit_host_cost
from sim.validation.folder_name import parse_folder_name
from sim.validation.host_cost import ASSUMED, default_host_cost
from sim.validation.predict import predict, predict_all, with_latency
from sim.validation.report import rows_frame
from sim.validation.rows import read_rows
from sim.validation.runs import read_run
from sim.validation.score import over_rows, relative_errors
from sim.validation.step_times import choose, find_profile

ROOFLINE = {"kind": "roofline", "overhead_s": 0.002, "per_sequence_s": 0.00005}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rtx4090-llama-3.1-8b", ("rtx-4090", "llama-3.1-8b", "auto")),
        ("h100-llama-70b-fp8-closedloop", ("h100-80gb", "llama-3.3-70b", "fp8")),
        ("h100-64gb-llama-3.1-8b-burst", ("h100-64gb", "llama-3.1-8b", "auto")),
        ("a100-40gb-static-batch", ("a100-40gb", None, "auto")),
        ("h200-qwen3-32b-closed-loop", ("h200", "qwen3-32b", "auto")),
        ("rtxpro6000-qwen3-30b-a3b-dp2ep2", ("rtx-pro-6000", "qwen3-30b-a3b", "auto")),
        ("rtxpro6000-llama-3.1-8b-tp2", ("rtx-pro-6000", "llama-3.1-8b", "auto")),
        ("h100-llama-70b-fp8-tp4-burst", ("h100-80gb", "llama-3.3-70b", "fp8")),
        # GPUs whose names begin like others'.
        ("a10-llama-2-7b", ("a10", "llama-2-7b", "auto")),
        ("a10g-llama-2-7b", ("a10g", "llama-2-7b", "auto")),
        ("a100-static-batch", ("a100-80gb", None, "auto")),
        ("a100-80gb-pcie-static-batch", ("a100-80gb-pcie", None, "auto")),
        ("gh200-static-batch", ("gh200", None, "auto")),
        ("h20-qwen2.5-0.5b", ("h20", "qwen2.5-0.5b", "auto")),
        ("h100-pcie-llama-3.1-8b-burst", ("h100-pcie", "llama-3.1-8b", "auto")),
        ("h100-nvl-llama-70b", ("h100-nvl", "llama-3.3-70b", "auto")),
        ("mi300x-static-batch", ("mi300x", None, "auto")),
        ("l40s-static-batch", ("l40s", None, "auto")),
        ("rtx3090-llama-3.1-8b", ("rtx-3090", "llama-3.1-8b", "auto")),
        ("rtx6000ada-gpt-j-6b", ("rtx-6000-ada", "gpt-j-6b", "auto")),
        ("v100-opt-13b", ("v100-32gb", "opt-13b", "auto")),
    ],
)
def test_a_folder_name_says_gpu_model_and_quantization(name, expected):
    assert parse_folder_name(name) == expected


@pytest.mark.parametrize("name", catalogue.names("hardware"))
@pytest.mark.parametrize("hyphen", ["-", ""])
def test_every_gpu_is_found_in_a_folder_name(name, hyphen):
    folder = name.replace("-", hyphen) + "-llama-3.1-8b-tp2"
    assert parse_folder_name(folder) == (name, "llama-3.1-8b", "auto")


def test_a_folder_name_without_a_gpu_is_refused():
    with pytest.raises(UserError, match=r"my-run: no GPU at the beginning .* rtx-4090"):
        parse_folder_name("my-run")


# --- recorded runs ---


@pytest.fixture
def scenario(new_scenario) -> Scenario:
    """A loaded engine whose pool is too small, with prefix sharing."""
    return new_scenario(
        hardware="rtx-4090",
        engine={
            "num_blocks": 600,
            "max_num_seqs": 16,
            "enable_prefix_caching": True,
            "async_scheduling": True,
        },
        latency=ROOFLINE,
        workload={
            "requests": 60,
            "arrivals": {"poisson": {"rate": 20}},
            "prompts": {"unique": {"uniform": {"low": 20, "high": 900}}},
            "outputs": 60,
        },
    )


@pytest.fixture
def run_folder(tmp_path, scenario) -> Path:
    """What this very simulator would have recorded of that engine, as a folder."""
    folder = tmp_path / "rtx4090-llama-3.1-8b"
    folder.mkdir()
    requests = simulate(scenario, "default").requests
    columns = {
        "queued_s": requests["arrival_ns"] / 1e9,
        "prompt_tokens": requests["prompt_tokens"],
        "output_tokens": requests["output_tokens"],
        "first_token_s": requests["first_token_ns"] / 1e9,
        "last_token_s": requests["finished_ns"] / 1e9,
    }
    pd.DataFrame(columns).to_csv(folder / "requests.csv", index=False, float_format="%.9f")
    settings = {
        "engine_version": "0.32",
        "block_size": 16,
        "num_gpu_blocks": 601,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 2048,
        "max_model_len": 4096,
        "prefix_caching": True,
        "scheduler": {"async_scheduling": True},
    }
    (folder / "engine.json").write_text(json.dumps(settings))
    return folder


def test_a_run_of_the_simulator_itself_is_predicted_without_error(run_folder):
    """Arrivals, lengths, settings and step times all come back as they were."""
    (point,) = read_run(run_folder).points
    scored = predict(point, ROOFLINE)
    assert scored.errors == pytest.approx(dict.fromkeys(scored.errors, 0), abs=1e-6)
    assert {"ttft_mean_s", "tpot_p99_s", "e2e_p50_s", "output_tokens_per_s"} <= set(scored.errors)
    assert scored.mape == pytest.approx({"ttft": 0, "tpot": 0, "e2e": 0}, abs=1e-6)


def test_the_null_block_of_vllm_is_not_one_of_the_pool(run_folder):
    (point,) = read_run(run_folder).points
    assert build_config(point.scenario, "default").num_blocks == 600


def test_equal_chains_of_blocks_hit_the_cache(run_folder):
    """Two prompts with the same first block: the second computes 16 tokens less."""
    requests = pd.read_csv(run_folder / "requests.csv").iloc[:2].copy()
    requests["queued_s"] = [0.0, 10.0]
    requests["first_token_s"], requests["last_token_s"] = [1.0, 11.0], [2.0, 12.0]
    requests["prompt_tokens"] = 40
    requests["output_tokens"] = 3
    requests.to_csv(run_folder / "requests.csv", index=False)
    lines = [json.dumps({"request_id": i, "block_ids": [7, 8 + i]}) for i in range(2)]
    (run_folder / "prefix_blocks.jsonl").write_text("\n".join(lines))
    (point,) = read_run(run_folder).points
    scenario = with_latency(point.scenario, ROOFLINE)
    assert summarise(serve(scenario, "default", point.workload))["prefix_hit_tokens"] == 16


def test_peers_are_scored_like_ourselves(run_folder):
    """A peer that says twice of every time is off by 100 % everywhere."""
    requests = pd.read_csv(run_folder / "requests.csv")
    ttft_s = requests["first_token_s"] - requests["queued_s"]
    decoding_s = requests["last_token_s"] - requests["first_token_s"]
    peer = {
        "ttft_ms": 2e3 * ttft_s,
        "tpot_ms": 2e3 * decoding_s / (requests["output_tokens"] - 1).clip(lower=1),
        "e2e_ms": 2e3 * (requests["last_token_s"] - requests["queued_s"]),
        "end_s": 2 * requests["last_token_s"],
    }
    pd.DataFrame(peer).to_csv(run_folder / "peer_other.csv", index=False)
    errors = read_run(run_folder).peers["other"]
    assert errors["ttft_mean_s"] == pytest.approx(1)
    assert errors["e2e_p99_s"] == pytest.approx(1)
    assert errors["e2e_mape"] == pytest.approx(1)
    assert errors["output_tokens_per_s"] == pytest.approx(-0.5)


def test_two_replicas_are_refused(run_folder):
    (run_folder / "engine.json").write_text('{"data_parallel_size": 2}')
    with pytest.raises(UserError, match=r"data_parallel_size is 2; one replica is modelled"):
        read_run(run_folder)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("engine.json", "{", "engine.json: not json"),
        ("engine.json", "[]", "engine.json: expected an object"),
        ("engine.json", '{"block_size": 0}', "block_size: got 0, expected a whole number from 1"),
        ("engine.json", '{"scheduler": 3}', "scheduler: got 3, expected an object"),
        ("engine.json", '{"engine_version": "x"}', "vllm_version: got 'x', expected a version"),
        ("requests.csv", "prompt_tokens\n3\n", "no column 'output_tokens'"),
        ("prefix_blocks.jsonl", '{"block_ids": ["a"]}', "expected block_ids, a list of whole"),
        ("prefix_blocks.jsonl", '{"block_ids": []}', "1 lines, expected 60"),
    ],
)
def test_a_damaged_run_is_named_in_a_line(run_folder, file, text, message):
    (run_folder / file).write_text(text)
    with pytest.raises(UserError, match=message) as error:
        read_run(run_folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "seconds"), [("first_token_s", -1.0), ("last_token_s", 0.0)])
def test_times_that_cannot_be_are_refused(run_folder, name, seconds):
    path = run_folder / "requests.csv"
    requests = pd.read_csv(path)
    requests.loc[4, name] = max(requests.loc[4, "queued_s"] + seconds, 0)
    requests.to_csv(path, index=False)
    with pytest.raises(UserError, match=r"requests\.csv, line 6: expected that a request comes"):
        read_run(run_folder)


def test_settings_of_the_engine_reach_the_scenario(run_folder):
    """In vLLM's words."""
    path = run_folder / "engine.json"
    more = {"dtype": "half", "kv_cache_dtype": "fp8_e4m3", "scheduler": {"policy": "priority"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    scenario = read_run(run_folder).points[0].scenario
    assert (scenario.deployment.dtype, scenario.deployment.kv_cache_dtype) == ("float16", "fp8")
    assert scenario.engine.policy == "priority"


@pytest.mark.parametrize(
    ("setting", "quantization"),
    [
        ({}, "auto"),
        ({"quantization": "fp8"}, "fp8"),
        ({"quantization": "awq_marlin"}, "int4"),
        ({"model": "someone/Llama-3.1-8B-Instruct-AWQ"}, "int4"),
        ({"model": "someone/Llama-3.1-8B-FP8"}, "fp8"),
    ],
)
def test_weights_are_quantized_as_the_engine_says(run_folder, setting, quantization):
    path = run_folder / "engine.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | setting))
    assert read_run(run_folder).points[0].scenario.deployment.quantization == quantization


def test_run_of_single_tokens_is_scored_without_tpot(kvsim, run_folder):
    path = run_folder / "requests.csv"
    requests = pd.read_csv(path).assign(output_tokens=1)
    requests["last_token_s"] = requests["first_token_s"]
    requests.to_csv(path, index=False)
    done = kvsim("validate", str(run_folder), "--latency", "roofline", "--out", "v", "--json")
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)[0]["rows"][0]["error"]
    assert {name.partition("_")[0] for name in errors} == {"ttft", "e2e", "output"}


@pytest.mark.slow
def test_cases_after_one_that_is_none_are_validated(kvsim, run_folder):
    done = kvsim("validate", "nowhere", str(run_folder), "--latency", "roofline", "--out", "v")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("kvsim: nowhere: no measured runs")
    assert "TTFT" in done.stdout


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"quantization": "zzz"}, "quantization: got 'zzz', expected one of fp8, int4, awq, gptq"),
        ({"gpu_memory_utilization": 2}, "gpu_memory_utilization: got 2.0, expected less than"),
        ({"chunked_prefill": False}, "chunked_prefill is false; prefills in chunks are modelled"),
        (
            {"model": "Qwen/Qwen3-32B"},
            "model: got Qwen/Qwen3-32B, but the folder's name says llama",
        ),
        ({"model": 3}, "model: got 3, expected text"),
        ({"kv_cache_dtype": "fp4"}, "deployment.kv_cache_dtype: got 'fp4', expected"),
    ],
)
def test_settings_that_are_not_modelled_or_contradict_are_refused(run_folder, setting, message):
    path = run_folder / "engine.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | setting))
    with pytest.raises(UserError, match=message):
        read_run(run_folder)


def test_a_time_that_is_none_is_named_by_file_line_and_column(run_folder):
    path = run_folder / "requests.csv"
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace(lines[3].split(",")[3], "soon")
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"'first_token_s', line 4: got 'soon', expected a"):
        read_run(run_folder)


# --- tables of runs ---


def write_points(tmp_path: Path, name: str, rows: list[dict]) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    pd.DataFrame(rows).to_csv(folder / "points.csv", index=False)
    return folder


CLOSED_LOOP = {
    "backend_version": "0.12.0",
    "tp": 2,
    "isl": 200,
    "osl": 30,
    "concurrency": 4,
    "ttft_ms": 50.0,
    "tpot_ms": 10.0,
}


def test_a_closed_loop_sends_ten_requests_for_each_client(tmp_path):
    case = read_rows(write_points(tmp_path, "h100-qwen3-32b-closedloop", [CLOSED_LOOP]))
    (point,) = case.points
    records = simulate(with_latency(point.scenario, ROOFLINE), "default")
    assert len(records.requests) == 40
    assert (records.requests["arrival_ns"] == 0).sum() == 4
    assert (records.requests["prompt_tokens"] == 200).all()


def test_dated_rows_draw_lengths_from_four_fifths_up(tmp_path):
    row = {**CLOSED_LOOP, "measured": "2025-10-29", "isl": 1000}
    del row["backend_version"]
    (point,) = read_rows(write_points(tmp_path, "h100-llama-70b-fp8-closedloop", [row])).points
    prompts = simulate(with_latency(point.scenario, ROOFLINE), "default").requests["prompt_tokens"]
    assert 800 <= prompts.min() < prompts.max() <= 1000


def test_a_closed_loop_of_the_simulator_itself_is_predicted_without_error(tmp_path):
    folder = write_points(tmp_path, "h100-qwen3-32b-closedloop", [CLOSED_LOOP])
    (point,) = read_rows(folder).points
    truth = summarise(simulate(with_latency(point.scenario, ROOFLINE), "default"))
    row = {
        **CLOSED_LOOP,
        "ttft_ms": truth["ttft_mean_s"] * 1e3,
        "tpot_ms": truth["tpot_mean_s"] * 1e3,
    }
    pd.DataFrame([row]).to_csv(folder / "points.csv", index=False)
    (point,) = read_rows(folder).points
    assert predict(point, ROOFLINE).errors == pytest.approx(
        {"ttft_mean_s": 0, "tpot_mean_s": 0}, abs=1e-9
    )


BURST = {
    "num_requests": 30,
    "max_num_seqs": 10,
    "prompt_tokens": 12,
    "output_tokens": 5.02,
    "num_kv_tokens": 3200,
    "output_tokens_per_s": 100.0,
    **{f"ttft_{part}_ms": 100.0 for part in ("mean", "p50", "p99")},
    **{f"{n}_{part}_ms": 0.0 for n in ("tpot", "itl") for part in ("mean", "p50", "p99")},
}


def test_a_burst_comes_at_once_to_as_many_slots_and_blocks_as_the_row_says(tmp_path):
    folder = write_points(tmp_path, "h100-64gb-llama-3.1-8b-burst", [BURST])
    (point,) = read_rows(folder).points
    records = simulate(with_latency(point.scenario, ROOFLINE), "default")
    assert records.requests["arrival_ns"].max() == 0
    assert records.steps["running"].max() == 10
    assert build_config(point.scenario, "default").num_blocks == 3200 // 16 - 1


def test_a_gap_of_zero_is_absent_not_measured(tmp_path):
    folder = write_points(tmp_path, "h100-64gb-llama-3.1-8b-burst", [BURST])
    (point,) = read_rows(folder).points
    assert set(point.measured) == {
        "ttft_mean_s",
        "ttft_p50_s",
        "ttft_p99_s",
        "output_tokens_per_s",
    }


STATIC = {"tp": 1, "input_len": 64, "output_len": 16, "batch_size": 8, "latency_s": 1.0}


def test_a_static_batch_is_timed_to_its_last_token(tmp_path):
    rows = [{"model": "meta-llama/Llama-2-7b-hf", **STATIC}]
    (point,) = read_rows(write_points(tmp_path, "a100-static-batch", rows)).points
    scored = predict(point, ROOFLINE)
    records = simulate(with_latency(point.scenario, ROOFLINE), "default")
    assert scored.predicted == {"span_s": records.requests["finished_ns"].max() / 1e9}
    assert point.scenario.model == "llama-2-7b"


def test_rows_of_unknown_models_are_counted_and_left_out(tmp_path):
    known = {"model": "meta-llama/Llama-2-7b-hf", **STATIC}
    rows = [known, {**known, "model": "nobody/Nothing-9B"}, {**known, "model": "nobody/Nothing-9B"}]
    case = read_rows(write_points(tmp_path, "a100-static-batch", rows))
    assert len(case.points) == 1
    assert case.skipped[0].startswith("2 rows: got 'nobody/Nothing-9B'")


def test_rows_with_parts_of_a_gpu_are_left_out_and_empty_cells_take_the_default(tmp_path):
    burst = {
        **dict.fromkeys(("num_requests", "max_num_seqs", "prompt_tokens", "output_tokens"), 4),
        "output_tokens_per_s": 100,
        **{f"{n}_{p}_ms": 9 for n in ("ttft", "tpot", "itl") for p in ("mean", "p50", "p99")},
    }
    rows = [{**burst, "tp": tp} for tp in (None, 2, 1.5)]
    case = read_rows(write_points(tmp_path, "h100-llama-3.1-8b-burst", rows))
    deployed = [point.scenario.deployment.tensor_parallel_size for point in case.points]
    assert deployed == [1, 2]
    assert case.skipped == ["1 row: tp: got 1.5, expected a whole number from 1 to 1,000,000"]


def test_a_table_of_no_known_kind_is_refused_with_the_kinds(tmp_path):
    folder = write_points(tmp_path, "h100-llama-2-7b", [{"a": 1}])
    with pytest.raises(UserError, match=r"of no known kind; expected .*closed loop: tp, isl"):
        read_rows(folder)


@pytest.mark.parametrize(("num_blocks", "is_limited"), [(1_000, True), (10_000, False)])
def test_rows_that_wait_for_blocks_are_told_apart(tmp_path, num_blocks, is_limited):
    """32 clients with 2,200 tokens each come to need 4,400 blocks of 16."""
    row = {**CLOSED_LOOP, "isl": 2_000, "osl": 200, "concurrency": 32}
    folder = write_points(tmp_path, "h100-qwen3-32b-closedloop", [row])
    (point,) = read_rows(folder).points
    data = point.scenario.model_dump(mode="json", exclude_none=True)
    data["engine"]["num_blocks"] = num_blocks
    point = replace(point, scenario=Scenario.parse(data))
    assert predict(point, ROOFLINE).is_kv_limited is is_limited


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tp": 0}, "tp: got 0, expected a whole number from 1 to 1,000,000"),
        ({"isl": 0}, "isl: got 0, expected a whole number from 1"),
        ({"backend_version": "x"}, "engine.vllm_version: got 'x'"),
        ({"ttft_ms": 0, "tpot_ms": 0}, "nothing was measured"),
    ],
)
def test_a_row_that_cannot_be_is_left_out_with_the_reason(tmp_path, changed, message):
    rows = [CLOSED_LOOP, {**CLOSED_LOOP, **changed}]
    case = read_rows(write_points(tmp_path, "h100-qwen3-32b-closedloop", rows))
    assert len(case.points) == 1
    (reason,) = case.skipped
    assert reason.startswith("1 row: ")
    assert message in reason


# --- the command ---


def test_command_prints_errors_as_json_and_leaves_rows_and_figures(kvsim, tmp_path):
    folder = write_points(tmp_path, "h100-qwen3-32b-closedloop", [CLOSED_LOOP])
    done = kvsim("validate", str(folder), "--latency", "roofline", "--out", "v", "--json")
    (case,) = json.loads(done.stdout)
    (row,) = case["rows"]
    assert row["real"] == {"ttft_mean_s": 0.05, "tpot_mean_s": 0.01}
    assert row["error"]["tpot_mean_s"] == row["predicted"]["tpot_mean_s"] / 0.01 - 1
    found = {path.name for path in (kvsim.folder / "v").iterdir()}
    assert found == {"rows.csv", "scatter.png", "scatter.svg"}


def test_command_replaces_no_folder_but_an_earlier_validation(kvsim, tmp_path):
    folder = write_points(tmp_path, "h100-qwen3-32b-closedloop", [CLOSED_LOOP])
    (kvsim.folder / "mine").mkdir()
    (kvsim.folder / "mine" / "precious").write_text("x")
    done = kvsim("validate", str(folder), "--latency", "roofline", "--out", "mine")
    assert done.returncode == 2
    assert "mine: is there and no earlier validation" in done.stderr
    assert (kvsim.folder / "mine" / "precious").read_text() == "x"


@pytest.mark.slow
def test_command_replaces_an_earlier_validation(kvsim, tmp_path):
    folder = write_points(tmp_path, "h100-qwen3-32b-closedloop", [CLOSED_LOOP])
    for _ in range(2):
        done = kvsim("validate", str(folder), "--latency", "roofline", "--out", "v")
        assert done.returncode == 0, done.stderr


def test_command_leaves_rows_also_where_nobody_reads_what_it_prints(kvsim, tmp_path):
    folder = write_points(tmp_path, "h100-qwen3-32b-closedloop", [CLOSED_LOOP])
    read, write = os.pipe()
    os.close(read)
    argv = kvsim.argv("validate", str(folder), "--latency", "roofline", "--out", "v")
    with os.fdopen(write, "w") as closed:
        subprocess.run(
            argv,
            cwd=kvsim.folder,
            stdout=closed,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    assert (kvsim.folder / "v" / "rows.csv").is_file()


def test_counts_stay_whole_beside_cases_that_have_none(tmp_path):
    rows = read_rows(write_points(tmp_path, "h100-qwen3-32b-closedloop", [CLOSED_LOOP])).points
    frame = rows_frame("x", [predict(point, ROOFLINE) for point in rows])
    both = pd.concat([frame, frame.drop(columns="tp")])
    assert both.to_csv(index=False).splitlines()[1].split(",")[1] == "2"


def test_steps_to_fit_are_not_passed_over_for_another_kind(kvsim):
    done = kvsim("validate", "nowhere", "--latency", "roofline", "--fit", "steps.csv")
    assert done.returncode == 2
    assert done.stderr == "kvsim: --fit: expected --latency fitted, got roofline\n"


def test_command_names_a_folder_without_runs(kvsim):
    done = kvsim("validate", "nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("kvsim: nowhere: no measured runs; expected requests.csv")


# --- errors and constants ---


def test_errors_are_relative_to_what_was_measured():
    assert relative_errors({"a": 11.0, "b": 1.0}, {"a": 10.0}) == {"a": pytest.approx(0.1)}


def test_errors_over_rows_by_hand(tmp_path):
    """-10 %, +20 % and +60 %: median |error| 20 %, median error +20 %, 90 % below 52 %."""
    rows = [{**CLOSED_LOOP, "concurrency": c} for c in (1, 2, 3)]
    points = read_rows(write_points(tmp_path, "h100-qwen3-32b-closedloop", rows)).points
    scored = [predict(point, ROOFLINE) for point in points]
    for one, error in zip(scored, (-0.1, 0.2, 0.6), strict=True):
        one.errors.clear()
        one.errors["tpot_mean_s"] = error
    row = over_rows(scored).loc["tpot_mean_s"]
    assert row.to_dict() == pytest.approx(
        {"rows": 3, "median_absolute": 0.2, "median_signed": 0.2, "p90_absolute": 0.52}
    )


def test_the_host_cost_of_runs_made_with_it_is_found_again(tmp_path):
    """To a tenth: the time of a token has some steps with prefills in it, which the fit ignores."""
    rows = [{**CLOSED_LOOP, "osl": 200, "concurrency": c} for c in (2, 8, 24, 64)]
    folder = write_points(tmp_path, "h100-qwen3-32b-closedloop", rows)
    truth = [
        summarise(simulate(with_latency(point.scenario, ROOFLINE), "default"))
        for point in read_rows(folder).points
    ]
    for row, metrics in zip(rows, truth, strict=True):
        row["ttft_ms"], row["tpot_ms"] = (metrics[f"{n}_mean_s"] * 1e3 for n in ("ttft", "tpot"))
    pd.DataFrame(rows).to_csv(folder / "points.csv", index=False)
    free = ROOFLINE | {"overhead_s": 0.0, "per_sequence_s": 0.0}
    scored = list(predict_all(read_rows(folder).points, free))
    cost = fit_host_cost("x", scored)
    assert cost.overhead_s == pytest.approx(0.002, rel=0.1)
    assert cost.per_sequence_s == pytest.approx(0.00005, rel=0.1)
    assert cost.source == "fitted on x, 4 rows"


def test_a_cost_that_was_fitted_on_the_case_itself_is_told(tmp_path):
    """The default of asynchronous servers is from the 70B rows: of those it predicts nothing."""
    told = {}
    for name in ("h100-llama-70b-fp8-closedloop", "h100-qwen3-32b-closedloop"):
        folder = write_points(tmp_path, name, [CLOSED_LOOP])
        told[name] = choose(read_rows(folder), folder, "roofline", [], None).is_in_sample
    assert list(told.values()) == [True, False]


def test_a_profile_of_other_weights_is_not_taken(tmp_path):
    (tmp_path / "validation").mkdir()
    folder = write_points(tmp_path / "validation", "h100-llama-70b-fp8-closedloop", [CLOSED_LOOP])
    profile = tmp_path / "profiles" / "h100-llama-70b"
    profile.mkdir(parents=True)
    (profile / "tp2_dense.csv").write_text("layer,tokens,time_us\n")
    scenarios = [point.scenario for point in read_rows(folder).points]
    assert find_profile(folder, scenarios) is None
    profile.rename(tmp_path / "profiles" / "h100-llama-70b-fp8")
    assert find_profile(folder, scenarios) == tmp_path / "profiles" / "h100-llama-70b-fp8"


def test_one_profile_does_not_serve_rows_of_several_models(tmp_path):
    (tmp_path / "validation").mkdir()
    rows = [{"model": name, **STATIC} for name in ("Llama-2-7b", "Llama-3.1-8B")]
    folder = write_points(tmp_path / "validation", "a100-static-batch", rows)
    profile = tmp_path / "profiles" / "a100-llama-2-7b"
    profile.mkdir(parents=True)
    (profile / "tp1_dense.csv").write_text("layer,tokens,time_us\n")
    assert find_profile(folder, [point.scenario for point in read_rows(folder).points]) is None


def test_a_peer_that_says_nothing_of_some_requests_is_refused(run_folder):
    (run_folder / "peer_other.csv").write_text("ttft_ms,tpot_ms,e2e_ms,end_s\n1,1,1,1\n")
    with pytest.raises(UserError, match=r"peer_other.csv: 1 rows, expected 60, one a request"):
        read_run(run_folder)


def test_a_run_of_which_nothing_is_served_is_refused(run_folder):
    (point,) = read_run(run_folder).points
    data = point.scenario.model_dump(mode="json", exclude_none=True)
    data["engine"]["num_blocks"] = 1
    with pytest.raises(UserError, match="none of the requests is served; request 0"):
        predict(replace(point, scenario=Scenario.parse(data)), ROOFLINE)


def test_a_host_that_works_beside_the_gpu_costs_nothing():
    assert default_host_cost(MeasuredBy.ASYNC_ENGINE, "profile")[:2] == (0, 0)
    assert default_host_cost(MeasuredBy.ENGINE, "profile") is ASSUMED


def test_without_a_kind_the_profile_beside_the_case_is_taken(tmp_path, run_folder):
    (tmp_path / "validation").mkdir()
    folder = run_folder.rename(tmp_path / "validation" / run_folder.name)
    profile = tmp_path / "profiles" / "rtx4090-llama-3.1-8b"
    profile.mkdir(parents=True)
    case = read_run(folder)
    assert choose(case, folder, None, [], None).latency["kind"] == "roofline"
    (profile / "tp1_dense.csv").write_text("layer,tokens,time_us\n")
    assert choose(case, folder, None, [], None).latency["folder"] == str(profile)


def test_a_profile_that_is_not_there_is_asked_for_with_its_place(run_folder):
    case = read_run(run_folder)
    with pytest.raises(UserError, match=r"no folder of tables of llama-3.1-8b on rtx-4090 in "):
        choose(case, run_folder, "profile", [], None)


def test_fitted_needs_steps(kvsim):
    done = kvsim("validate", "a", "b", "--latency", "fitted")
    assert done.returncode == 2
    assert done.stderr == "kvsim: --latency fitted: give measured steps with --fit STEPS.csv\n"
