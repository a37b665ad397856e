"""`kvsim timeline`: what is in its file, held against the tables that the run itself has left."""

import gzip
import json
import shutil
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from sim.about_file import about_text
from sim.errors import UserError
from sim.rerun import Window, parse_window
from sim.timeline.command import write_timeline

# A pool that is too small for what comes, so that the youngest are preempted.
SCENARIO = """\
name: busy
engine: {block_size: 4, num_blocks: 32, max_num_seqs: 6, max_num_batched_tokens: 24,
  max_model_len: 64}
workload:
  requests: 14
  arrivals: {closed_loop: {concurrency: 6, think_time_s: 0.003}}
  prompts: {shared: {groups: 2, tokens: 10}, unique: {lognormal: {mean: 8, sigma: 0.5}}}
  outputs: {lognormal: {mean: 14, sigma: 0.6, max: 30}}
systems:
  plain: {watermark: 0, reserve_full_isl: false}
  async: {enable_prefix_caching: true, async_scheduling: true, watermark: 0,
    reserve_full_isl: false}
  swap: {preemption: swap, num_cpu_blocks: 64, watermark: 0, reserve_full_isl: false}
  static: {batching: static, batch_size: 3, max_wait_s: 0.01}
  contiguous: {preset: orca-max, max_num_batched_tokens: 64}
"""
GROUPED = SCENARIO.partition("systems:")[0].replace("max_num_seqs: 6", "max_num_seqs: 9")
RUNS = {
    "alone": SCENARIO,
    "replicas": SCENARIO.replace("requests: 14", "requests: 30") + "replicas: {count: 2}\n",
    "outputs": GROUPED.replace("requests: 14", "requests: 14\n  n: 3"),
    "beams": GROUPED.replace(
        "requests: 14", "requests: 14\n  n: 3\n  beam_search: {switch: 0.3}"
    ).replace("unique: {lognormal: {mean: 8, sigma: 0.5}}", "unique: 8"),
    "computed": SCENARIO.partition("systems:")[0] + "runner: toy-lm\n",
}
# Four outputs of prompts of several chunks, of which some are preempted before the last of them.
FORKS = """\
name: forks
engine: {block_size: 4, num_blocks: 32, max_num_seqs: 16, max_num_batched_tokens: 16,
  max_model_len: 128, watermark: 0, reserve_full_isl: false}
workload:
  n: 4
  requests: 14
  arrivals: {closed_loop: {concurrency: 4, think_time_s: 0.003}}
  prompts: {unique: 40}
  outputs: {uniform: {low: 4, high: 14}}
systems:
  recompute: {}
  swap: {preemption: swap, num_cpu_blocks: 64}
"""
BEAMS = FORKS.replace("n: 4", "n: 4\n  beam_search: {switch: 0.3}")
RUNS |= {"forks": FORKS, "forked beams": BEAMS}
SYSTEMS = ("plain", "async", "swap", "static", "contiguous")
CASES = [("alone", system) for system in SYSTEMS]
CASES += [
    ("replicas", "plain"),
    ("replicas", "async"),
    ("outputs", "default"),
    ("beams", "default"),
    ("computed", "default"),
]
CASES += [(run, system) for run in ("forks", "forked beams") for system in ("recompute", "swap")]


@pytest.fixture(scope="module")
def folders(new_run):
    """The folder of each run."""
    return {name: new_run(text) for name, text in RUNS.items()}


@pytest.fixture(scope="module")
def written(folders):
    """The file of a run and system, made once, with times in whole nanoseconds."""
    known = {}

    def file_of(run: str, system: str) -> dict:
        if (run, system) not in known:
            known[run, system] = timeline(folders[run], system)
        return known[run, system]

    return file_of


def timeline(folder, system: str, **options) -> dict:
    """What the command writes, in this process."""
    settings = {"window": Window(), "most_events": 100_000, "out": folder / "timeline.json"}
    write_timeline(folder, system, None, [], **settings | options)
    return read((folder / "timeline.json").read_text("utf-8"))


def read(text: str) -> dict:
    """A file, with times in whole nanoseconds."""
    file = json.loads(text, parse_float=Decimal)
    for event in file["traceEvents"]:
        for name in {"ts", "dur"} & event.keys():
            assert event[name] * 1000 == int(event[name] * 1000)
            event[name] = int(event[name] * 1000)
    return file


def of_phase(file: dict, phase: str) -> list[dict]:
    return [event for event in file["traceEvents"] if event["ph"] == phase]


def table(folder, name: str, system: str) -> pd.DataFrame:
    rows = pd.read_csv(folder / f"{name}.csv")
    return rows[rows["system"] == system]


def end(event: dict) -> int:
    return event["ts"] + event["dur"]


@pytest.mark.parametrize(("run", "system"), CASES)
def test_slices_of_a_track_nest_and_never_overlap(written, run, system):
    tracks = defaultdict(list)
    for event in of_phase(written(run, system), "X"):
        tracks[event["pid"], event["tid"]].append(event)
    for events in tracks.values():
        assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)
        open_until = []
        for event in events:
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            assert all(end(event) <= until for until in open_until), event
            open_until.append(end(event))
            assert len(open_until) <= 2


@pytest.mark.parametrize(("run", "system"), CASES)
def test_slices_of_requests_begin_and_end_as_their_table_says(written, folders, run, system):
    slices = defaultdict(list)
    for event in of_phase(written(run, system), "X"):
        if event["name"].startswith("request "):
            slices[int(event["name"].split()[1].partition(".")[0])].append(event)
    for row in table(folders[run], "requests", system).itertuples():
        own = slices[row.request]
        assert min(e["ts"] for e in own) == row.admitted_ns
        assert max(map(end, own)) == row.finished_ns
        ended = [e["args"]["output tokens"] for e in own if "preempted" not in e["args"]["ends"]]
        assert sum(ended) == row.output_tokens
        if run in ("alone", "replicas", "computed"):
            assert len(own) == row.preemptions + 1


@pytest.mark.parametrize("system", ["plain", "async", "static", "contiguous"])
def test_chunks_account_for_each_token_of_requests_that_are_not_preempted(written, folders, system):
    events = of_phase(written("alone", system), "X")
    requests = {e["name"]: e for e in events if e["name"].startswith("request ")}
    rows = table(folders["alone"], "requests", system)
    rows = rows[rows["preemptions"] == 0]
    assert len(rows) > 3
    for row in rows.itertuples():
        own = requests[f"request {row.request}"]
        within = [
            e
            for e in events
            if e["tid"] == own["tid"] and own["ts"] <= e["ts"] < end(own) and e is not own
        ]
        prefills = [e for e in within if e["name"].startswith("prefill")]
        decodes = [int(e["name"].removeprefix("decode x")) for e in within if e not in prefills]
        computed = sum(e["args"]["tokens"] for e in prefills)
        assert computed + own["args"]["cached tokens"] == row.prompt_tokens
        assert end(prefills[-1]) == row.first_token_ns
        assert sum(decodes) == row.output_tokens - 1


@pytest.mark.parametrize(("run", "system"), CASES)
def test_steps_are_those_of_the_table(written, folders, run, system):
    rows = table(folders[run], "steps", system)
    rows = rows[rows["steps"] == 1]
    shown = [e for e in of_phase(written(run, system), "X") if e["name"].startswith("step ")]
    columns = ("decodes", "running", "waiting", "preempted")
    expected = [(r.start_ns, r.duration_ns, *(getattr(r, c) for c in columns)) for r in
                rows.itertuples()]  # fmt: skip
    assert sorted((e["ts"], e["dur"], *(e["args"][c] for c in columns)) for e in shown) == sorted(
        expected
    )


@pytest.mark.parametrize(("run", "system"), CASES)
def test_whoever_is_not_admitted_at_once_is_shown_waiting_until_then(written, folders, run, system):
    file = written(run, system)
    ends = {(e["pid"], e["id2"]["local"]): e["ts"] for e in of_phase(file, "e")}
    waits = {
        int(e["args"]["request"]): (e["ts"], ends[e["pid"], e["id2"]["local"]], e["args"])
        for e in of_phase(file, "b")
        if e["name"].startswith("waits")
    }
    rows = table(folders[run], "requests", system)
    late = rows[rows["admitted_ns"] > rows["arrival_ns"]]
    assert sorted(waits) == sorted(late["request"])
    for row in late.itertuples():
        start_ns, end_ns, args = waits[row.request]
        assert (start_ns, end_ns) == (row.arrival_ns, row.admitted_ns)
        reasons_ms = sum(value for name, value in args.items() if name.startswith("for "))
        assert float(reasons_ms) * 1e6 == pytest.approx(end_ns - start_ns)


@pytest.mark.parametrize(("run", "system"), CASES)
def test_every_arrow_begins_in_a_slice_that_is_preempted_and_ends_where_it_resumes(
    written, folders, run, system
):
    file = written(run, system)
    starts, ends = ({e["id"]: e for e in of_phase(file, phase)} for phase in "sf")
    assert starts.keys() == ends.keys()
    preemptions = table(folders[run], "requests", system)["preemptions"].sum()
    assert len(starts) == preemptions
    slices = of_phase(file, "X")
    for number, start in starts.items():
        name = start["name"].removesuffix(" resumes")
        track = (start["pid"], start["tid"])
        [before] = [
            e
            for e in slices
            if (e["pid"], e["tid"]) == track
            and e["name"] == name
            and e["ts"] <= start["ts"] < end(e)
        ]
        assert before["args"]["ends"] == "preempted"
        finish = ends[number]
        assert any(
            (e["pid"], e["tid"], e["ts"]) == (finish["pid"], finish["tid"], finish["ts"])
            and e["name"] == name
            for e in slices
        )


def test_the_scenario_preempts(folders):
    requests = table(folders["alone"], "requests", "plain")
    assert requests["preemptions"].sum() > 2


@pytest.mark.parametrize(("run", "system"), [c for c in CASES if c[0].startswith("fork")])
def test_of_outputs_that_have_not_forked_only_the_first_is_preempted(written, run, system):
    requests = [e for e in of_phase(written(run, system), "X") if e["name"].startswith("request ")]
    ends = {(e["name"].partition(".")[2], e["args"]["ends"]) for e in requests}
    assert {("0", "preempted"), *((n, "its first is preempted") for n in "123")} <= ends
    if run == "forks":  # those that have may be
        others = [e["args"] for e in requests if not e["name"].endswith(".0")]
        assert all(a["output tokens"] for a in others if a["ends"] == "preempted")


@pytest.mark.parametrize(("run", "system"), CASES)
def test_slots_of_all_classes_sum_to_the_pool(written, run, system):
    counters = [e for e in of_phase(written(run, system), "C") if e["name"] == "KV slots"]
    assert counters
    assert {sum(e["args"].values()) for e in counters} == {32 * 4}


def test_each_replica_is_a_process(written):
    names = {
        e["args"]["name"]: e["pid"]
        for e in of_phase(written("replicas", "plain"), "M")
        if e["name"] == "process_name"
    }
    assert {"replica 0", "replica 1"} <= names.keys()
    assert len(set(names.values())) == len(names)


def steps_until(file: dict, end_ns: int) -> list[tuple[int, int, int]]:
    """Process, start and end of each step that begins before a time, with an end there."""
    return sorted(
        (e["pid"], e["ts"], min(end(e), end_ns))
        for e in of_phase(file, "X")
        if e["name"].startswith("step ") and e["ts"] < end_ns
    )


@pytest.mark.parametrize("run", ["alone", "replicas"])
@pytest.mark.parametrize("system", ["plain", "async"])
@pytest.mark.parametrize("most", [60, 100, 150])
def test_a_bound_cuts_the_window_and_the_file_says_so(folders, written, capsys, run, system, most):
    file = timeline(folders[run], system, most_events=most)
    assert most - 40 < len(file["traceEvents"]) <= most
    assert file["otherData"]["is_cut_by_events"] is True
    assert f"--events is {most}" in capsys.readouterr().err
    cut_ns = round(file["otherData"]["to_s"] * 10**9)
    assert max(map(end, of_phase(file, "X"))) == cut_ns
    assert steps_until(file, cut_ns) == steps_until(written(run, system), cut_ns)


@pytest.mark.parametrize("run", ["alone", "replicas"])
@pytest.mark.parametrize("system", ["plain", "async"])
def test_a_window_has_what_touches_it(folders, written, run, system):
    file = timeline(folders[run], system, window=parse_window("0.1,0.2"))
    low, high = 100_000_000, 200_000_000
    cut = [
        (e["pid"], e["name"].partition(" x")[0], max(e["ts"], low), min(end(e), high))
        for e in of_phase(written(run, system), "X")
        if end(e) > low and e["ts"] < high
    ]
    shown = [(e["pid"], e["name"].partition(" x")[0], e["ts"], end(e)) for e in of_phase(file, "X")]
    assert sorted(shown) == sorted(cut)


@pytest.mark.parametrize("run", ["alone", "replicas"])
def test_too_few_events_for_a_late_window_say_how_many_are_enough(folders, run):
    window = parse_window("0.3,0.4")
    with pytest.raises(UserError, match=r"--events: got 1, expected at least \d+,") as mistake:
        timeline(folders[run], "plain", window=window, most_events=1)
    least = int(str(mistake.value).split("at least ")[1].partition(",")[0])
    file = timeline(folders[run], "plain", window=window, most_events=least)
    assert len(file["traceEvents"]) == least
    with pytest.raises(UserError, match=f"--events: got {least - 1}, expected at least {least},"):
        timeline(folders[run], "plain", window=window, most_events=least - 1)


def test_equal_runs_give_equal_bytes_zipped_or_not(kvsim_of_module, folders, tmp_path):
    kvsim = kvsim_of_module
    for out in ("a.json", "a.json.gz"):
        done = kvsim("timeline", str(folders["alone"]), "--system", "async", "--out", out)
        assert (done.returncode, done.stdout) == (0, "")
        timeline(folders["alone"], "async", out=tmp_path / out)
        assert (tmp_path / out).read_bytes() == (kvsim.folder / out).read_bytes()
    zipped = (kvsim.folder / "a.json.gz").read_bytes()
    assert gzip.decompress(zipped) == (kvsim.folder / "a.json").read_bytes()


def test_a_run_that_comes_out_otherwise_is_no_timeline(folders, tmp_path):
    """As that of another version of kvsim; its files are as it left them."""
    for path in folders["alone"].glob("*.csv"):
        shutil.copy(path, tmp_path)
    shutil.copy(folders["alone"] / "scenario.yaml", tmp_path)
    rows = pd.read_csv(folders["alone"] / "requests.csv")
    rows.loc[(rows["system"] == "plain") & (rows["request"] == 3), "finished_ns"] += 1
    rows.to_csv(tmp_path / "requests.csv", index=False)
    (tmp_path / "run.json").write_text(about_text({}, tmp_path, ["requests.csv"]), "utf-8")
    with pytest.raises(UserError, match="has other times than this version"):
        timeline(tmp_path, "plain")
    assert not (tmp_path / "timeline.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": Path("x.txt")}, "--out: got 'x.txt', expected a name ending in .json or"),
        ({"window": Window(9 * 10**9)}, "--window: begins at 9 s, expected less than the 0.6"),
        ({"most_events": 3}, "--events: got 3, expected at least"),
    ],
)
def test_mistakes_say_what_was_expected(folders, options, words):
    with pytest.raises(UserError) as mistake:
        timeline(folders["alone"], "plain", **options)
    assert str(mistake.value).startswith(words)


@pytest.mark.parametrize("text", ["2,1", "1,1", "0,0", "inf,"])
def test_a_window_ends_after_it_begins(text):
    with pytest.raises(UserError, match=f"got '{text}', expected FROM less than TO"):
        parse_window(text)


@pytest.mark.parametrize("text", ["2", "a,b", "-1,3", "nan,2", "2,-1", "1,nan"])
def test_a_window_that_is_none_is_a_mistake(text):
    with pytest.raises(UserError, match="expected FROM,TO in seconds"):
        parse_window(text)
