"""Sweeps: which points, what is kept, and that killing one loses nothing but time."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sim import fingerprint
from sim.errors import UserError
from sim.experiment import Job
from sim.over_seeds import over_seeds
from sim.parallel import LOCAL
from sim.run_folder import folder_for
from sim.scenario.file import load_scenario, with_settings
from sim.scenario.value_text import value_text
from sim.steady import Warmup
from sim.sweep.command import Options, _difference_table, sweep_scenario
from sim.sweep.heat_maps import heat_maps
from sim.sweep.notes import missed
from sim.sweep.paired import differences
from sim.sweep.points import load_swept, parse_share, plan_points
from sim.sweep.run import Measured, as_frame, num_seeds_wanted
from sim.sweep.store import Store, key_of
from sim.sweep.table import METRICS
from sim.whole_file import refuse_unwritable

GRID = ("--set", "engine.block_size=4,8", "--set", "workload.outputs=2,3,4")


@pytest.fixture
def small(kvsim) -> Path:
    return kvsim.folder / "small.yaml"


def labels(jobs) -> list[tuple]:
    return [(job.system, *job.labels.values(), job.scenario.seed) for job in jobs]


def test_several_values_are_swept_and_one_is_set(small):
    scenario = load_swept(small, ["engine.block_size=4,8", "workload.outputs=3", "seed=5"])
    assert scenario.sweep == {"engine.block_size": [4, 8]}
    assert scenario.workload.outputs.fixed == 3
    assert labels(plan_points(scenario, None, range(5, 7))) == [
        ("default", 4, 5),
        ("default", 4, 6),
        ("default", 8, 5),
        ("default", 8, 6),
    ]


@pytest.mark.parametrize("again", ["64", "64,128", "16,32"])
def test_a_swept_key_given_twice_is_named(small, again):
    """Whichever comes first; a key of one value that is set twice has the last one."""
    settings = ["engine.block_size=16,32", "seed=2", f"engine.block_size={again}"]
    for ordered in (settings, settings[::-1]):
        expected = f"^--set {ordered[-1]}: got engine.block_size twice, expected all of its values"
        with pytest.raises(UserError, match=expected):
            load_swept(small, ordered)
    assert load_swept(small, ["seed=2", "seed=3"]).seed == 3


def test_values_may_be_mappings_and_lists(small):
    scenario = load_swept(
        small,
        ["workload.outputs={fixed: 2},{uniform: {low: 1, high: 3}}", "systems=[vllm, sarathi]"],
    )
    assert len(scenario.sweep["workload.outputs"]) == 2
    assert list(scenario.systems) == ["vllm", "sarathi"]


def test_a_sample_is_of_the_grid_and_spread_over_it(small):
    """16 of 8 x 8 points: every value of each key at least once, none twice."""
    numbers = ",".join(map(str, range(1, 9)))
    scenario = load_swept(
        small, [f"workload.outputs={numbers}", f"workload.prompts.unique={numbers}"]
    )
    jobs = plan_points(scenario, 16, range(1, 2))
    points = [tuple(job.labels.values()) for job in jobs]
    assert len(set(points)) == 16
    for key in (0, 1):
        assert {point[key] for point in points} == set(range(1, 9))
    assert points == [tuple(job.labels.values()) for job in plan_points(scenario, 16, range(1, 2))]
    assert len(plan_points(scenario, 100, range(1, 2))) == 64


def test_a_sample_costs_by_what_is_sampled(small, monkeypatch):
    """3 of a million points: 3 are made and checked, from the file to the table."""
    made = []
    real = with_settings

    def counted(scenario, settings, source=""):
        made.append(settings)
        return real(scenario, settings, source)

    monkeypatch.setattr("sim.scenario.file.with_settings", counted)
    scenario = load_scenario(small, checks_points=False)
    numbers = list(range(1, 1001))
    swept = {"workload.outputs": numbers, "workload.prompts.unique": numbers}
    scenario = scenario.model_copy(update={"sweep": swept})
    assert len(plan_points(scenario, 3, range(1, 2))) == 3
    assert len(made) == 3


def test_a_mistake_in_a_sampled_point_is_named(small):
    setting = "engine.block_size=" + ",".join(map(str, range(-50, 0)))
    with pytest.raises(UserError, match=r"block_size: got -\d+"):
        load_swept(small, [setting], 3)


@pytest.mark.parametrize("sample", [None, 10_001])
def test_too_many_points_are_refused_unseen(small, sample):
    """More than 2^63 of them too."""
    numbers = ",".join(map(str, range(1, 1001)))
    engine = ("block_size", "num_blocks", "max_num_seqs", "max_num_batched_tokens")
    load = ("outputs", "prompts.unique", "requests")
    keys = [*(f"engine.{key}" for key in engine), *(f"workload.{key}" for key in load)]
    wanted = sample or 1000 ** len(keys)
    with pytest.raises(UserError, match=f"got {wanted:,} points, expected at most 10,000"):
        load_swept(small, [f"{key}={numbers}" for key in keys], sample)


def test_too_many_runs_are_refused(small):
    scenario = load_swept(small, ["engine.block_size=4,8"])
    with pytest.raises(UserError, match="2 points, 1 systems and 50,001 seeds, 100,002 runs"):
        plan_points(scenario, None, range(50_001))


def test_a_result_is_known_by_what_decides_it(small):
    """Its name and what it is compared with decide nothing; the seed and a setting do."""
    job = plan_points(load_swept(small, []), None, range(1, 2))[0]
    same = plan_points(
        load_swept(small, ["name=other", "systems={default: {}, more: {batching: static}}"]),
        None,
        range(1, 2),
    )[0]
    key = key_of(job, Warmup())
    assert key == key_of(same, Warmup())
    others = [
        plan_points(load_swept(small, [setting]), None, range(1, 2))[0]
        for setting in (
            "engine.block_size=4",
            "workload.outputs=3",
            "systems={default: {block_size: 4}}",
        )
    ]
    others.append(plan_points(load_swept(small, []), None, range(2, 3))[0])
    keys = {key_of(one, Warmup()) for one in others} | {key_of(job, Warmup.parse("none"))}
    assert key not in keys
    assert len(keys) == 4  # a block size is one, whoever says it


def key_with(small, *settings) -> str:
    (job,) = plan_points(load_swept(small, list(settings)), None, range(1, 2))
    return key_of(job, Warmup())


@pytest.mark.parametrize("changed", ["chunk-0-trace.csv", "chunk-0-dataset.json"])
def test_files_that_are_read_decide_those_beside_a_trace_too(small, tmp_path, changed):
    """A profile of ServeGen is read with the histograms beside it; what else lies there is not."""
    for name in ("chunk-0-trace.csv", "chunk-0-dataset.json", "notes.json"):
        (tmp_path / name).write_text("before")
    trace = f"workload={{trace: {tmp_path / 'chunk-0-trace.csv'}}}"
    scenario, key = load_swept(small, [trace]), key_with(small, trace)
    folder = folder_for(scenario, tmp_path)
    (tmp_path / "notes.json").write_text("something else")
    assert (key_with(small, trace), folder_for(scenario, tmp_path)) == (key, folder)
    (tmp_path / changed).write_text("something else")
    assert key_with(small, trace) != key
    assert folder_for(scenario, tmp_path) != folder


def test_a_library_decides_where_it_takes_part(small, monkeypatch):
    """That of measured kernels where latencies are of it, and none where it is not installed."""
    silicon = "latency={kind: silicon}"
    keys = []
    for number in (None, "1.0", "2.0"):
        monkeypatch.setattr(fingerprint, "_version", lambda name, number=number: number)
        keys.append((key_with(small, silicon), key_with(small)))
    of_silicon, of_others = zip(*keys, strict=True)
    assert len(set(of_silicon)) == 3
    assert len(set(of_others)) == 1
    assert "scipy" in fingerprint.versions({})


KEPT = {"x": 1.5, "y": None, "z": float("inf"), "w": True}


def test_a_result_is_found_again(tmp_path):
    Store(tmp_path).put("abc", KEPT)
    assert Store(tmp_path).get("abc") == KEPT
    assert Store(tmp_path).get("abd") is None


@pytest.mark.parametrize(
    "content",
    [
        *("{}", "[1]", "null", "", '{"x": 1', '{"row": {"x": 1}}'),
        json.dumps(KEPT),  # as results were kept before they had a digest
    ],
)
def test_a_broken_result_is_none(tmp_path, content):
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab/abc.json").write_text(content)
    assert Store(tmp_path).get("abc") is None


@pytest.mark.parametrize(("before", "after"), [('"x"', '"u"'), ("1.5", '"1.5"'), ("1.5", "1.6")])
def test_a_result_that_was_changed_is_none(tmp_path, before, after):
    Store(tmp_path).put("abc", KEPT)
    file = tmp_path / "ab/abc.json"
    text = file.read_text()
    file.write_text(text.replace(before, after))
    assert file.read_text() != text
    assert Store(tmp_path).get("abc") is None


def test_a_result_of_another_run_is_none(tmp_path):
    Store(tmp_path).put("abc", KEPT)
    (tmp_path / "ab/abc.json").rename(tmp_path / "ab/abd.json")
    assert Store(tmp_path).get("abd") is None


@pytest.mark.slow
def test_a_second_time_nothing_is_simulated(kvsim):
    first = kvsim("sweep", "small.yaml", *GRID, "--seeds", "2", "--format", "csv")
    assert first.returncode == 0, first.stderr
    results = sorted((kvsim.folder / "sweeps/small/results").rglob("*.json"))
    times = [path.stat().st_mtime_ns for path in results]
    assert len(results) == 12
    again = kvsim("sweep", "small.yaml", *GRID, "--seeds", "2", "--format", "csv")
    assert again.stdout == first.stdout
    assert [path.stat().st_mtime_ns for path in results] == times
    more = kvsim("sweep", "small.yaml", *GRID, "--seeds", "3", "--format", "csv")
    assert len(sorted((kvsim.folder / "sweeps/small/results").rglob("*.json"))) == 18
    assert set(first.stdout.splitlines()) < set(more.stdout.splitlines())


@pytest.mark.parametrize(
    ("key", "values", "texts"),
    [
        ("engine.block_size", [8, 16], [8, 16]),
        ("engine.num_blocks", [1000, "auto"], ["1000", "auto"]),
        ("workload.outputs", [1.5, {"fixed": 2}], ["1.5", '{"fixed": 2}']),
    ],
)
def test_values_of_a_key_are_all_numbers_or_all_text(new_scenario, key, values, texts):
    """Columns of one type: all that Parquet has."""
    measured = [Measured(Job("a", {key: value}, new_scenario()), {"x": 1.0}) for value in values]
    frame = as_frame(measured)
    assert frame[key].tolist() == texts
    written = pd.DataFrame({key: [value_text(value) for value in values]})
    assert frame[[key]].to_csv() == written.to_csv()


def test_the_table_has_a_row_for_each_run(kvsim):
    out = kvsim("sweep", "small.yaml", *GRID, "--seeds", "2", "--quiet").stdout
    folder = kvsim.folder / "sweeps/small"
    table = pd.read_csv(folder / "table.csv")
    assert list(table.columns[:4]) == ["system", "engine.block_size", "workload.outputs", "seed"]
    assert len(table) == 12
    assert "block size" in out
    assert (folder / "figures/throughput_map.png").stat().st_size > 10_000
    loaded = load_swept(folder / "scenario.yaml", [])
    assert loaded.sweep == {"engine.block_size": [4, 8], "workload.outputs": [2, 3, 4]}


@pytest.mark.slow
def test_of_how_many_runs_the_whole_counts_is_said(kvsim):
    """Five requests are too few to leave any out."""
    done = kvsim("sweep", "small.yaml", "--set", "workload.requests=5,100")
    (line,) = (one for one in done.stderr.splitlines() if "not counted" in one)
    assert "; of 1 of 2 runs the whole counts, for too few requests are sent or end" in line
    table = pd.read_csv(kvsim.folder / "sweeps/small/table.csv")
    assert table["fell_back"].tolist() == [True, False]


@pytest.mark.slow
def test_killed_20_times_a_sweep_ends_as_if_it_had_not_been(kvsim, tmp_path):
    """Killed at random moments, with all its workers; in the end all is as undisturbed."""
    grid = (*GRID, "--seeds", "4", "--set", "workload.requests=4000", "--quiet")
    plain = kvsim("sweep", "small.yaml", *grid, "--out", "plain")
    assert plain.returncode == 0, plain.stderr
    rng = random.Random(7)
    argv = kvsim.argv("sweep", "small.yaml", *grid, "--out", "killed")
    for _ in range(20):
        process = subprocess.Popen(
            argv,
            cwd=kvsim.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(rng.uniform(0.5, 4))
        with_workers = os.getpgid(process.pid)
        os.killpg(with_workers, signal.SIGKILL)
        process.wait()
    last = kvsim("sweep", "small.yaml", *grid, "--out", "killed")
    assert last.returncode == 0, last.stderr
    assert last.stdout == plain.stdout
    for name in ("table.csv", "scenario.yaml"):
        mine, undisturbed = (
            (kvsim.folder / out / "small" / name).read_bytes() for out in ("killed", "plain")
        )
        assert mine == undisturbed
    kept = {
        path.name: json.loads(path.read_text())
        for path in (kvsim.folder / "killed/small/results").rglob("[!.]*.json")
    }
    for path in (kvsim.folder / "plain/small/results").rglob("*.json"):
        assert kept[path.name] == json.loads(path.read_text())


@pytest.mark.slow
def test_two_sweeps_at_once_on_one_folder(kvsim):
    argv = kvsim.argv("sweep", "small.yaml", *GRID, "--seeds", "2", "--format", "csv", "--quiet")
    processes = [
        subprocess.Popen(argv, cwd=kvsim.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    outs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outs
    assert outs[0][0] == outs[1][0]
    assert not list((kvsim.folder / "sweeps/small").rglob(".*"))


@pytest.mark.slow
def test_ctrl_c_says_what_was_kept_and_the_same_command_goes_on(kvsim):
    grid = (*GRID, "--seeds", "8", "--set", "workload.requests=20000", "--quiet")
    process = subprocess.Popen(
        kvsim.argv("sweep", "small.yaml", *grid),
        cwd=kvsim.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    results = kvsim.folder / "sweeps/small/results"
    for _ in range(600):
        if len(list(results.rglob("[!.]*.json"))) >= 2:
            break
        time.sleep(0.1)
    os.killpg(os.getpgid(process.pid), signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    (line,) = err.splitlines()
    assert line.startswith("kvsim: interrupted; ")
    assert "the same command goes on" in line
    num_kept = int(line.split()[2])
    assert num_kept == len(list(results.rglob("[!.]*.json"))) >= 2


def test_differences_are_those_under_the_same_seed():
    """By hand: 1, 2 and 3 more than the first; Student's t at 2 degrees of freedom is 4.3027."""
    frame = pd.DataFrame(
        [
            (system, point, seed, base + (extra if system == "b" else 0))
            for system in ("a", "b")
            for point in (1, 2)
            for seed, base, extra in ((1, 10.0, 1), (2, 50.0, 2), (3, 30.0, 3))
        ],
        columns=["system", "key", "seed", "x"],
    )
    found = differences(frame, ("x",))
    assert found[["system", "key", "metric", "seeds", "difference"]].to_numpy().tolist() == [
        ["b", 1, "x", 3, 2.0],
        ["b", 2, "x", 3, 2.0],
    ]
    assert found["half_width"].tolist() == pytest.approx([4.3027 / 3**0.5] * 2, rel=1e-4)
    assert found["share"].tolist() == pytest.approx([2 / 30] * 2)
    # 11, 52 and 33 are 1/3, -4/3 and 1 off from 32/30 of 10, 50 and 30.
    width = 4.3027 * ((1 / 9 + 16 / 9 + 1) / 2 / 3) ** 0.5 / 30
    assert found["share_half_width"].tolist() == pytest.approx([width] * 2, rel=1e-4)


def test_interval_of_a_share_covers_it_where_the_load_differs_from_seed_to_seed():
    """A hundredth of the other's times, of 1,000 sets of five seeds; and it ends above -100 %.

    That of the difference would not: it is as wide as the loads are apart.
    """
    random = np.random.default_rng(4)
    loads = random.lognormal(0, 0.3, (1000, 5))
    rows = [
        (name, point, seed, share * load * random.normal(1, 0.1))
        for name, share in (("a", 1), ("b", 0.01))
        for (point, seed), load in np.ndenumerate(loads)
    ]
    frame = pd.DataFrame(rows, columns=["system", "key", "seed", "x"])
    found = differences(frame, ("x",))
    assert (found["share"] - found["share_half_width"] > -1).all()
    num_covered = (abs(found["share"] + 0.99) <= found["share_half_width"]).sum()
    assert 925 <= num_covered <= 975


@pytest.mark.parametrize(("percent", "shown"), [(-0.4, "0"), (0.4, "0"), (-1.6, "-2"), (7, "+7")])
def test_a_difference_that_rounds_to_nothing_has_no_sign(percent, shown):
    row = ("b", "output_tokens_per_s", 1, percent, None, percent / 100)
    columns = ["system", "metric", "seeds", "difference", "half_width", "share"]
    table = _difference_table(pd.DataFrame([row], columns=columns), "a")
    assert list(table.columns[-1].cells) == [shown]


def test_seeds_wanted_are_those_that_narrow_the_widest_interval():
    """Half-widths of 10 % and 2 % of the mean with 4 seeds: 16 make 10 into 5."""
    rows = []
    for point, deviation in ((1, 10.0), (2, 2.0)):
        for seed, sign in enumerate((-1, 1, -1, 1)):
            half_width = 3.1824 * (4 / 3) ** 0.5 / 4**0.5  # of a deviation of 1
            rows.append(("a", point, seed, 100 + sign * deviation / half_width))
    frame = pd.DataFrame(rows, columns=["system", "key", "seed", "x"])
    assert num_seeds_wanted(frame, 0.05, ["x"]) == pytest.approx(16, abs=1)
    assert num_seeds_wanted(frame, 0.11, ["x"]) == 4


def test_a_metric_that_lacks_in_some_runs_needs_more_of_them():
    """Of three values 12 % wide, 11 % need four by their deviation; there are six runs already."""
    values = [100 + deviation * 12 / 2.4843 for deviation in (-1, 0, 1)]  # t of 2 by root 3
    rows = [("a", seed, value) for seed, value in enumerate([*values, None, None, None])]
    frame = pd.DataFrame(rows, columns=["system", "seed", "x"])
    assert num_seeds_wanted(frame, 0.11, ["x"]) == 7
    assert num_seeds_wanted(frame, 0.13, ["x"]) == 6


def test_a_precision_that_is_not_reached_is_said_with_the_widest_interval():
    """Half-widths by Student's t at 1 degree of freedom, 12.706: of 99 and 101, 12.7 %."""
    rows = [
        ("a", point, seed, 100.0, 100.0 + sign * point, None)
        for point in (0, 1)
        for seed, sign in enumerate((-1, 1))
    ]
    frame = pd.DataFrame(rows, columns=["system", "block_size", "seed", *METRICS])
    assert missed(frame, 0.13) == []
    (note,) = missed(frame, 0.1)
    assert note == (
        "--precision: 10 % is not reached with 2 seeds, the most that are run: the widest 95 % "
        "interval is ± 12.7 % of its mean, that of mean TTFT at a, block size 1"
    )


def test_a_heat_map_has_no_bars_to_speak_of():
    rows = [("a", x, y, seed, 100.0 * x + y) for x in (1, 2) for y in (1, 2) for seed in (1, 2, 3)]
    frame = pd.DataFrame(rows, columns=["system", "x", "y", "seed", "output_tokens_per_s"])
    figure = heat_maps(frame, "output_tokens_per_s")
    assert figure.get_supxlabel() == "mean of 3 runs"


@pytest.mark.slow
def test_precision_goes_on_until_the_interval_is_that_narrow(kvsim):
    settings = ("--set", "workload.arrivals={poisson: {rate: 60}}", "--set", "workload.requests=80")
    done = kvsim("sweep", "small.yaml", *settings, "--precision", "2%", "--format", "csv")
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(kvsim.folder / "sweeps/small/table.csv")
    assert len(table) > 3
    values = table["output_tokens_per_s"].to_numpy()
    half_width = 2.1 * values.std(ddof=1) / np.sqrt(len(values))  # t is below that from 18 on
    assert half_width < 0.02 * values.mean() * 1.3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--precision", "0"), "--precision: got '0', expected half the width of"),
        (("--precision", "x"), "--precision: got 'x'"),
        (("--precision", ""), "--precision: got ''"),
        (("--warmup", "x"), "--warmup: got 'x'"),
        (("--set", "engine.block_size=4,4"), "got a value of engine.block_size twice"),
        (("--set", "engine.blocksize=4,8"), "unknown key, did you mean block_size"),
        (("--set", "engine.block_size"), "expected key.path=value"),
        (("--set", "name=a,b"), "sweep: got 'name', expected"),
        (("--set", "engine.block_size=4," + 5000 * "7"), "engine.block_size: got '4,77777"),
        (("--set", "seed=" + 5000 * "7"), "--set seed=77777"),
    ],
)
def test_mistakes_are_named_before_anything_runs(kvsim, args, message):
    done = kvsim("sweep", "small.yaml", *args)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert len(done.stderr) < 300
    assert not (kvsim.folder / "sweeps").exists()


@pytest.mark.parametrize("out", ["small.yaml", "small.yaml/deeper", "/proc/x", "taken"])
def test_a_folder_that_cannot_be_written_to_is_named_before_anything_runs(kvsim, out, monkeypatch):
    (kvsim.folder / "taken/small").mkdir(parents=True)
    (kvsim.folder / "taken/small/results").touch()
    monkeypatch.setattr("sim.sweep.command._measure", lambda *_: pytest.fail("it runs"))
    monkeypatch.chdir(kvsim.folder)
    options = Options(None, 2, None, "auto", LOCAL, Path(out), "csv", quiet=True)
    with pytest.raises(UserError, match=f"^--out: got {out}, but {out}/small/results cannot be"):
        sweep_scenario(Path("small.yaml"), [], options)


def test_nothing_is_left_where_a_folder_can_be_written_to(tmp_path):
    refuse_unwritable(tmp_path / "new", tmp_path / "new/small/results")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("--precision", "200%", "half the width of an interval by its mean, above 0 and below 100"),
        ("--attainment", "100%", "a share of the requests, above 0 and below 100 %, such as 90%"),
    ],
)
def test_shares(option, text, expected):
    assert parse_share(option, "5%") == parse_share(option, "0.05") == 0.05
    with pytest.raises(UserError, match=f"^{option}: got '{text}', expected {expected}"):
        parse_share(option, text)


def test_a_system_that_serves_nobody_differs_from_none():
    frame = pd.DataFrame([("a", 1, 5.0), ("b", 1, None)], columns=["system", "seed", "x"])
    found = differences(frame, ("x",))
    assert found.empty
    assert list(found.columns[:3]) == ["system", "metric", "seeds"]


def test_a_value_at_which_not_all_points_are_known_has_no_mean():
    """Of key 1 nothing is known where other is 2: the mean of the rest is of other points."""
    rows = [(key, other, seed, 10.0 * key + other) for key in (1, 2) for other in (1, 2)
            for seed in (1, 2)]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["key", "other", "seed", "x"])
    assert over_seeds(frame, "key", "x")["mean"].tolist() == [11.5, 21.5]
    frame.loc[(frame["key"] == 1) & (frame["other"] == 2), "x"] = None
    found = over_seeds(frame, "key", "x")["mean"]
    assert np.isnan(found[1])
    assert found[2] == 21.5
