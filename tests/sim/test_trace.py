"""`kvsim trace`: what it prints of a trace, what it writes, and what it says of mistakes."""

import json
import os
from pathlib import Path

import pytest
import yaml

DATA = os.environ.get("KVSIM_DATA")

# Two conversations that begin with the same two blocks, five seconds apart, and a third block.
MOONCAKE = """\
{"timestamp": 0, "input_length": 1200, "output_length": 30, "hash_ids": [0, 1, 2]}
{"timestamp": 5000, "input_length": 1100, "output_length": 10, "hash_ids": [0, 1, 3]}
{"timestamp": 5000, "input_length": 512, "output_length": 20, "hash_ids": [4]}
"""


@pytest.fixture
def shown(kvsim):
    """Calls `kvsim trace` on a text."""

    def shown(text: str, *args: str, name: str = "trace.jsonl"):
        (kvsim.folder / name).write_text(text, "utf-8")
        return kvsim("trace", name, *args)

    return shown


def test_trace_by_hand(shown):
    """Three requests in 5 s, two gaps of 5 and 0 s; two blocks of seven are hits, 1,024 tokens of
    2,812."""
    done = shown(MOONCAKE)
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[:3] == [
        "trace.jsonl: Mooncake trace, JSONL",
        "3 requests",
        "5 s from the first to the last, 0.4 requests/s; gaps with a coefficient of variation of 1 "
        "(Poisson: 1), 1 gaps of no time",
    ]
    assert "prompt 937.3 1,100 1,200 1,200 1,200 2,812" in lines
    assert "output 20.0 20 30 30 30 60" in lines
    assert (
        "2 of 7 blocks of 512 tokens were there before: 28.6% of the blocks, 36.4% of the prompt "
        "tokens"
    ) in lines
    assert "5 2,560 36.4% 36.4% 36.4% ████████████████████████" in lines


def test_json_has_the_same_numbers(shown):
    found = json.loads(shown(MOONCAKE, "--json").stdout)
    assert (found["num_requests"], found["arrivals"]["span_s"]) == (3, 5.0)
    assert (found["sharing"]["hit_blocks"], found["sharing"]["num_blocks"]) == (2, 7)
    assert {point["policy"] for point in found["sharing"]["points"]} == {"lru", "lfu", "optimum"}


def test_standard_input_is_a_file_too(kvsim):
    import subprocess

    done = subprocess.run(
        kvsim.argv("trace", "-", "--json"),
        input=MOONCAKE.encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["num_requests"] == 3


LENGTHS = "arrival_s,prompt_tokens,output_tokens\n0.5,1200,30\n5.25,1100,10\n"


@pytest.mark.parametrize(
    ("text", "ending"), [(MOONCAKE, "jsonl"), (LENGTHS, "csv"), (LENGTHS, "jsonl")]
)
def test_converted_trace_has_the_same_requests(shown, kvsim, text, ending):
    done = shown(text, "--convert", f"own.{ending}", "--json")
    before = json.loads(done.stdout)
    assert f"{before['num_requests']} requests written to own.{ending}" in done.stderr
    after = json.loads(kvsim("trace", f"own.{ending}", "--json").stdout)
    for part in ("arrivals", "prompt_tokens", "output_tokens", "sharing"):
        assert after[part] == before[part]
    refused = kvsim("trace", "trace.jsonl", "--convert", f"own.{ending}")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"kvsim: own.{ending}: is there, expected a new file\n"


def test_what_prompts_share_is_not_lost_in_csv(shown, kvsim):
    done = shown(MOONCAKE, "--convert", "own.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "own.csv: CSV has no room for what prompts share" in done.stderr
    assert not (kvsim.folder / "own.csv").exists()


def test_figure_is_written(shown, kvsim):
    done = shown(MOONCAKE, "--figure", "shared.png")
    assert "figure written to shared.png" in done.stderr
    assert (kvsim.folder / "shared.png").read_bytes().startswith(b"\x89PNG")


def test_trace_without_content_shares_nothing(shown):
    done = shown("arrival_s,prompt_tokens,output_tokens\n0,5,5\n1,6,7\n", name="own.csv")
    assert done.stdout.endswith("what prompts hold is not recorded: they share nothing\n")


@pytest.mark.slow
def test_converted_trace_is_simulated_as_the_original(shown, kvsim):
    """With prefix caching: the second prompt finds the two blocks of the first."""
    shown(MOONCAKE, "--convert", "own.jsonl")
    settings = "engine={enable_prefix_caching: true, num_blocks: 4096}"
    rows = []
    for name in ("trace.jsonl", "own.jsonl"):
        workload = f"workload={{trace: {name}}}"
        args = ("--set", workload, "--set", settings, "--format", "json", "--quiet")
        done = kvsim("run", "small.yaml", *args)
        assert done.returncode == 0, done.stderr
        rows.append(json.loads(done.stdout)[0])
    assert rows[0]["prefix_hit_tokens"] == 1024
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_rate_of_a_trace_is_swept(shown, kvsim):
    """Arrivals 5 s apart, half as far, and so the run is shorter by 2.5 s."""
    (kvsim.folder / "own.csv").write_text(LENGTHS)
    workload = "workload={trace: own.csv, shape: {rate_scale: 1}}"
    sweep = "sweep={workload.shape.rate_scale: [1, 2]}"
    args = ("--set", workload, "--set", sweep, "--format", "json")
    done = kvsim("run", "small.yaml", *args)
    assert done.returncode == 0, done.stderr
    spans = [row["span_s"] for row in json.loads(done.stdout)]
    assert spans[0] - spans[1] == pytest.approx(4.75 / 2)
    assert "arrivals 2 times as fast" in done.stderr


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("", (), "trace.jsonl: is empty"),
        ("version https://git-lfs.github.com/spec/v1\n", (), "is a pointer of Git LFS"),
        ("a,b\n1,2\n", (), "of no known format: got the columns a, b, expected one of azure"),
        ('{"a": 1}\n', (), "of no known format: got an object with the keys a, expected"),
        (MOONCAKE, ("--format", "azure"), "expected TIMESTAMP, ContextTokens, GeneratedTokens"),
        (MOONCAKE, ("--format", "azur"), "format: got 'azur', expected one of azure"),
        (
            MOONCAKE,
            ("--convert", "own.txt"),
            "--convert: got 'own.txt', expected a name ending in .csv or .jsonl",
        ),
        (
            MOONCAKE,
            ("--figure", "a.gif"),
            "--figure: got 'a.gif', expected a name ending in .png or .svg",
        ),
        (
            MOONCAKE,
            ("--fit", "a.txt"),
            "--fit: got 'a.txt', expected a name ending in .yaml or .yml",
        ),
        (MOONCAKE, ("--fit", "a.yaml", "--json"), "--fit: got --json beside it, expected one of"),
        (MOONCAKE, ("--block-size", "0"), "'--block-size'"),
    ],
)
def test_mistakes_are_one_line(shown, text, args, message):
    done = shown(text, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(DATA is None, reason="needs the traces of KVSIM_DATA")
@pytest.mark.slow
def test_the_whole_of_mooncake_is_simulated(kvsim):
    """All of its requests, with prefix caching; 96 % of the time the pool is full."""
    path = Path(DATA or "") / "traces/mooncake_fast25/conversation_trace.jsonl.gz"
    engine = "{num_blocks: 60000, max_model_len: 131072, enable_prefix_caching: true}"
    args = ("--set", f"workload={{trace: {path}}}", "--set", f"engine={engine}")
    done = kvsim("run", "small.yaml", *args, "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["requests"], row["finished"]) == (12_031, 12_031)
    assert row["prefix_hit_tokens"] > 0


def test_priorities_of_a_trace_decide_who_is_served_first(kvsim):
    """One at a time: the request of priority 0 comes last and is served second."""
    rows = "arrival_s,prompt_tokens,output_tokens,priority\n0,8,50,5\n0.1,8,5,5\n0.2,8,5,0\n"
    (kvsim.folder / "own.csv").write_text(rows)
    engine = "engine={max_num_seqs: 1, policy: priority}"
    args = ("--set", "workload={trace: own.csv}", "--set", engine, "--quiet")
    done = kvsim("run", "small.yaml", *args)
    assert done.returncode == 0, done.stderr
    (name,) = kvsim.left()
    lines = (kvsim.folder / "runs" / name / "requests.csv").read_text().splitlines()
    header = lines[0].split(",")
    found = [dict(zip(header, line.split(","), strict=True)) for line in lines[1:]]
    assert [row["priority"] for row in found] == ["5", "5", "0"]
    admitted = [float(row["admitted_ns"]) for row in found]
    assert admitted[0] < admitted[2] < admitted[1]


def test_classes_of_a_scenario_stand_in_the_records(kvsim):
    classes = "workload.classes={a: {share: 1}, b: {share: 1, priority: 3}}"
    done = kvsim("run", "small.yaml", "--set", classes, "--set", "workload.requests=40", "--quiet")
    assert done.returncode == 0, done.stderr
    (name,) = kvsim.left()
    lines = (kvsim.folder / "runs" / name / "requests.csv").read_text().splitlines()
    places = [lines[0].split(",").index(column) for column in ("class", "priority")]
    pairs = {tuple(line.split(",")[place] for place in places) for line in lines[1:]}
    assert pairs == {("a", "0"), ("b", "3")}


def test_fitted_workload_resembles_the_trace_and_runs(shown, kvsim):
    """200 requests, ten times as many in the second half; lengths 8 and 24, outputs of 5."""
    times = [i * 1.0 for i in range(20)] + [20 + i * 0.1 for i in range(180)]
    rows = [f"{time:.1f},{8 + 16 * (i % 2)},5" for i, time in enumerate(times)]
    text = "\n".join(["arrival_s,prompt_tokens,output_tokens", *rows, ""])
    done = shown(text, "--fit", "like.yaml", name="own.csv")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["prompt", "tokens,", "p99", "24", "24"] in lines
    assert ["output", "tokens,", "mean", "5", "5"] in lines
    (theirs, ours) = next(line[1:] for line in lines if line[:1] == ["requests/s"])
    assert abs(float(ours) / float(theirs) - 1) < 5 / 200**0.5
    lengths = (kvsim.folder / "like-prompts.txt").read_text().split()
    assert (lengths.count("8"), lengths.count("24")) == (100, 100)
    again = kvsim("trace", "own.csv", "--fit", "like.yaml")
    assert again.stderr == "kvsim: like.yaml: is there, expected a new file\n"
    run = kvsim("run", "like.yaml", "--set", "latency={kind: constant, step_time_s: 0.001}")
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "rows", "note"),
    [
        ("", ["5,6"], "no times: all requests at once, unless workload.arrivals is changed"),
        ("arrival_s,", ["3,5,6"], "all requests at once"),
        ("arrival_s,", ["3,5,6", "3,5,6", "3,5,6"], "all requests at once"),
        ("arrival_s,", ["3,5,6", "3.0000001,5,6"], "all requests at once"),
    ],
)
def test_requests_without_times_or_at_one_are_fitted_at_once(shown, kvsim, header, rows, note):
    text = "\n".join([f"{header}prompt_tokens,output_tokens", *rows, ""])
    done = shown(text, "--fit", "like.yaml", name="own.csv")
    assert done.returncode == 0, done.stderr
    assert note in done.stdout.splitlines()
    assert "/s" not in done.stdout
    assert "nan" not in done.stdout
    run = kvsim("run", "like.yaml", "--set", "latency={kind: constant, step_time_s: 0.001}")
    assert run.returncode == 0, run.stderr


def test_two_requests_have_one_gap(shown, kvsim):
    """10 s apart, 0.1 of them a second: the same in the scenario, and of one gap no variation."""
    text = "arrival_s,prompt_tokens,output_tokens\n3,5,6\n13,5,6\n"
    done = shown(text, "--fit", "like.yaml", name="own.csv")
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if "/s" in line] == ["0.1"]
    assert "CV" not in done.stdout
    windows = yaml.safe_load((kvsim.folder / "like.yaml").read_text())["workload"]["arrivals"]
    assert windows == {"windows": {"window_s": 10.0, "rates": [0.1]}}


def test_rate_below_those_of_scenarios_is_said_before_anything_is_written(shown, kvsim):
    text = "arrival_s,prompt_tokens,output_tokens\n0,5,6\n30000000,5,6\n"
    done = shown(text, "--fit", "like.yaml", name="own.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kvsim: like.yaml (not written): workload.arrivals.windows.rates.0: got 3.33333e-08, "
        "expected a number from 1e-06 to 1e+09\n"
    )
    assert list(kvsim.folder.glob("like*")) == []


@pytest.mark.slow
def test_what_prompts_share_is_fitted_row_by_row(shown, kvsim):
    """The second conversation has the 1,024 tokens with which the first begins, the third none."""
    done = shown(MOONCAKE, "--fit", "like.yaml")
    assert done.returncode == 0, done.stderr
    assert (kvsim.folder / "like-requests.csv").read_text().splitlines() == [
        "prompt_tokens,output_tokens,shared_tokens,ago,shared_since,beginning",
        "1200,30,0,0,0,0",
        "1100,10,1024,1,0,0",
        "512,20,0,0,0,0",
    ]
    (found,) = [line for line in done.stdout.splitlines() if "any size" in line]
    assert found.split()[7] == "36.4%"
    run = kvsim(
        "run", "like.yaml", "--set", "latency={kind: constant, step_time_s: 0.001}", "--out", "one"
    )
    assert run.returncode == 0, run.stderr
    (kvsim.folder / "like-requests.csv").write_text("prompt_tokens\n1\n")
    broken = kvsim("run", "like.yaml", "--out", "two")
    assert broken.returncode == 2
    assert "like-requests.csv: line 1, columns: got" in broken.stderr


@pytest.mark.slow
def test_rows_of_a_fit_belong_to_what_decides_a_run(shown, kvsim):
    """Another output in the file: another folder of results."""
    shown(MOONCAKE, "--fit", "like.yaml")
    latency = ("--set", "latency={kind: constant, step_time_s: 0.001}")
    rows = kvsim.folder / "like-requests.csv"
    for text in (rows.read_text(), rows.read_text().replace("1100,10", "1100,11")):
        rows.write_text(text)
        assert kvsim("run", "like.yaml", *latency, "--out", "runs").returncode == 0
    assert len(list((kvsim.folder / "runs").iterdir())) == 2
