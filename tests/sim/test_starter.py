"""`kvsim init`: a first scenario that runs as it is, and its schema beside it."""

import json

import pytest

from sim.api import Scenario, simulate
from sim.scenario.file import load_scenario

TRACE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-01-01 09:00:00.0000000,10,5
2024-01-01 09:00:01.0000000,20000,5
"""


@pytest.fixture
def started(kvsim):
    """The command's folder once `kvsim init first.yaml` has been there."""
    done = kvsim("init", "first.yaml")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return kvsim.folder


def test_schema_that_it_names_lies_beside_it(started):
    first_line = (started / "first.yaml").read_text("utf-8").splitlines()[0]
    named = first_line.removeprefix("# yaml-language-server: $schema=")
    assert json.loads((started / named).read_text("utf-8"))["title"] == "Scenario of kvsim"


def test_runs_and_shows_what_the_systems_differ_in(started):
    fewer = ("workload.requests=120", "replications=1")
    summary = simulate(Scenario.load(started / "first.yaml", *fewer)).summary
    tokens_per_s = dict(zip(summary["system"], summary["output_tokens_per_s"], strict=True))
    assert tokens_per_s["static"] < tokens_per_s["continuous"] < tokens_per_s["prefix sharing"]


def test_command_in_its_comment_names_the_file(started):
    assert "#   kvsim run first.yaml\n" in (started / "first.yaml").read_text("utf-8")


@pytest.mark.slow
def test_plan_accepts_it_as_it_is(kvsim, started):
    promises = ("--slo", "ttft_p99<2s,tpot_p99<100ms", "--system", "continuous")
    done = kvsim("plan", "first.yaml", *promises, "--json", "--no-neighbours")
    assert json.loads(done.stdout)["best"]["answer"] > 0


def test_file_that_is_there_stays(kvsim):
    before = (kvsim.folder / "small.yaml").read_text("utf-8")
    done = kvsim("init", "small.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kvsim: small.yaml: is there, expected a new file\n"
    assert (kvsim.folder / "small.yaml").read_text("utf-8") == before
    assert not (kvsim.folder / "scenario.schema.json").exists()


def test_trace_is_replayed_with_room_for_its_longest_request(kvsim):
    (kvsim.folder / "trace.csv").write_text(TRACE, "utf-8")
    (kvsim.folder / "below").mkdir()
    done = kvsim("init", "below/mine.yaml", "--trace", "trace.csv")
    assert done.returncode == 0, done.stderr
    scenario = load_scenario(kvsim.folder / "below" / "mine.yaml")
    assert scenario.workload.trace == str(kvsim.folder / "below" / ".." / "trace.csv")
    assert scenario.engine.max_model_len == 32768  # of 20,005
    run = simulate(Scenario.load(kvsim.folder / "below" / "mine.yaml", "replications=1"))
    assert list(run.summary["requests"]) == [2, 2, 2]


def test_path_of_a_trace_may_have_file_in_it(kvsim):
    (kvsim.folder / "MYFILE.csv").write_text(TRACE, "utf-8")
    done = kvsim("init", "st.yaml", "--trace", "MYFILE.csv")
    assert done.returncode == 0, done.stderr
    assert "\n  trace: MYFILE.csv\n" in (kvsim.folder / "st.yaml").read_text("utf-8")
