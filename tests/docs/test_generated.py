"""The pages that are made of the code are as it is now, and it is as it says."""

from pathlib import Path

import pandas as pd
import pytest

from docs.generate import PAGES
from sim.definitions import SWEEP_TABLES, TABLES
from sim.experiment import plan_jobs, run_job
from sim.scenario.file import load_scenario
from sim.steady import Warmup, measure
from sim.sweep.run import Measured, as_frame
from tests.docs.pages import ROOT

# All that gives a table a column of its own.
EVERYTHING = """\
name: everything
latency: {kind: constant, step_time_s: 0.01}
replicas: 2
engine: {enable_prefix_caching: true}
workload:
  requests: 4
  arrivals: {constant: {rate: 10}}
  prompts: {unique: 8}
  outputs: 4
  sessions: {turns: 2}
  classes: {a: {share: 1, priority: 1, slo: {ttft_s: 1}}}
"""


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_the_code_says_now(name: str) -> None:
    """`make docs` writes it anew."""
    assert (ROOT / "docs/reference" / name).read_text("utf-8") == PAGES[name]()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sim.run_command import run_scenario

    folder = tmp_path_factory.mktemp("run")
    (folder / "s.yaml").write_text(EVERYTHING, "utf-8")
    run_scenario(folder / "s.yaml", [], folder, quiet=True, output_format="json", stepwise=False)
    (found,) = folder.glob("everything-*")
    return found


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_defined_and_nothing_else_is(name: str, run: Path) -> None:
    defined = [column for columns in TABLES[name].columns for column in columns.names]
    assert len(defined) == len(set(defined))
    assert set(defined) == set(pd.read_csv(run / name).columns)


def test_every_column_of_a_sweep_is_defined_and_nothing_else_is(run: Path) -> None:
    (job,) = plan_jobs(load_scenario(run / "scenario.yaml"))
    frame = as_frame([Measured(job, measure(run_job(job).records, Warmup()))])
    defined = [name for column in SWEEP_TABLES["table.csv"].columns for name in column.names]
    assert sorted(defined) == sorted(frame.columns)


def test_every_table_is_defined(run: Path) -> None:
    assert {path.name for path in run.glob("*.csv")} == set(TABLES)
