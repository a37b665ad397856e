"""Which runs a scenario asks for, and how their results are shown side by side."""

import io
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from sim.errors import UserError
from sim.experiment import plan_jobs, run_jobs
from sim.fingerprint import code_digest
from sim.run_folder import folder_for
from sim.tables import summary_tables


def test_jobs_are_every_system_at_every_point_with_every_seed(new_scenario):
    jobs = plan_jobs(
        new_scenario(
            seed=7,
            replications=2,
            systems={"a": {}, "b": {"batching": "static"}},
            sweep={"engine.num_blocks": [64, 32]},
        )
    )
    planned = [
        (job.system, *job.labels.values(), job.scenario.engine.num_blocks, job.scenario.seed)
        for job in jobs
    ]
    assert planned == [
        ("a", 64, 64, 7),
        ("a", 64, 64, 8),
        ("a", 32, 32, 7),
        ("a", 32, 32, 8),
        ("b", 64, 64, 7),
        ("b", 64, 64, 8),
        ("b", 32, 32, 7),
        ("b", 32, 32, 8),
    ]


def test_progress_of_one_job_adds_up_to_one(new_scenario):
    done = []
    run_jobs(plan_jobs(new_scenario()), done.append)
    assert sum(done) == pytest.approx(1)
    assert len(done) > 1


def test_scenario_that_serves_nobody_is_a_mistake(new_scenario):
    """Prompts of 8 tokens, and room for 6."""
    scenario = new_scenario(engine={"max_model_len": 6})
    with pytest.raises(UserError, match=r"none of the requests.*8 tokens.*max_model_len 6"):
        run_jobs(plan_jobs(scenario), lambda _: None)


def test_clock_that_runs_over_is_a_mistake(new_scenario):
    """Steps of 31.7 years: the tenth of a request ends after the year 292."""
    scenario = new_scenario(
        latency={"kind": "constant", "step_time_s": 1e9}, sweep={"workload.outputs": [10]}
    )
    with pytest.raises(UserError, match=r"^default, workload\.outputs=10: .*292 years") as caught:
        run_jobs(plan_jobs(scenario), lambda _: None)
    assert "\n" not in str(caught.value)


def test_changed_code_is_another_run(new_scenario, tmp_path, monkeypatch):
    """Whatever the version says."""
    monkeypatch.setattr("sim.fingerprint.files", lambda _: tmp_path)
    names = []
    for text in ("a = 1", "a = 2", "a = 1"):
        code_digest.cache_clear()
        (tmp_path / "module.py").write_text(text, "utf-8")
        names.append(folder_for(new_scenario(), Path("runs")).name)
    code_digest.cache_clear()
    assert names[0] == names[2] != names[1]


def test_order_of_systems_and_sweep_is_another_run(new_scenario):
    """It is the order of the tables."""
    systems = [("a", {}), ("b", {"batching": "static"})]
    sweep = [("engine.num_blocks", [64, 32]), ("engine.block_size", [8, 16])]
    names = {
        folder_for(new_scenario(systems=dict(s), sweep=dict(w)), Path("runs")).name
        for s in (systems, systems[::-1])
        for w in (sweep, sweep[::-1])
    }
    assert len(names) == 4


def shown(rows: list[dict], label_keys: list[str]) -> list[list[str]]:
    """The words of each line of the tables, empty lines left out."""
    metrics = {
        "output_tokens_per_s": 123.4,
        "ttft_p50_s": 0.01234,
        "ttft_p99_s": 1.5,
        "tpot_p50_s": 0.0089,
        "block_utilisation": 0.256,
        "live_share": 0.25,
        "preemptions": 3,
        "prefix_hit_share": 0.0,
        "refused": 0,
    }
    text = io.StringIO()
    for table in summary_tables(pd.DataFrame([metrics | row for row in rows]), label_keys):
        Console(file=text, width=100).print(table)
    return [line.split() for line in text.getvalue().splitlines() if line.strip()]


def test_row_of_a_table_by_hand():
    """Tokens/s; TTFT at p50 and p99 and TPOT in ms; held and live %; preempted; hits %."""
    *_, row = shown([{"system": "a", "seed": 1}], [])
    assert row == ["a", "123", "12.3", "1500", "8.9", "26", "25", "3", "0"]


def test_refused_requests_have_a_column_where_there_are_any():
    """For all systems, so that they can be compared."""
    *_, a, b = shown([{"system": "a", "seed": 1, "refused": 7}, {"system": "b", "seed": 1}], [])
    assert (a[-1], b[-1]) == ("7", "0")
    assert len(a) == len(b) == 10


def test_what_could_not_be_measured_is_a_dash():
    *_, row = shown([{"system": "a", "seed": 1, "tpot_p50_s": None}], [])
    assert row[4] == "-"


def test_runs_with_other_seeds_are_averaged_and_show_their_interval():
    """100 and 104: 102 ± 12.706 x 2.828 / 1.414, which is 25.4, told as no less than that."""
    rows = [
        {"system": "a", "seed": 1, "output_tokens_per_s": 100.0, "preemptions": 2},
        {"system": "a", "seed": 2, "output_tokens_per_s": 104.0, "preemptions": 4},
    ]
    *_, row = shown(rows, [])
    assert row[:4] == ["a", "102", "±", "26"]
    assert row[-2] == "3"


def test_sweep_has_a_table_for_each_system_in_the_order_of_the_runs():
    key = "workload.arrivals.closed_loop.concurrency"
    rows = [{"system": s, key: users, "seed": 1} for s in ("b", "a") for users in (2, 1)]
    lines = shown(rows, [key])
    assert [line[0] for line in lines if len(line) == 1] == ["b", "a"]
    assert [line[0] for line in lines if line[0] in "12"] == ["2", "1", "2", "1"]
    assert [line[0] for line in lines].count("concurrency") == 2
