"""Recorded decisions replayed: the recordings themselves, and small cases worked by hand."""

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sim.cli import main
from sim.conformance.compare import Difference, compare, find_cases, read_case
from sim.errors import UserError

Json = dict[str, Any]

# Pool of 4 blocks of 2. In step 2 a's fifth token takes the second block of b, which waits until a
# has ended; of what b had computed, 4 tokens, the first block is still there to hit in step 4.
CONFIG: Json = {
    "num_blocks": 4,
    "block_size": 2,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 16,
    "max_model_len": 32,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "watermark": 0.0,
    "reserve_full_isl": True,
    "long_prefill_token_threshold": 0,
}
WORKLOAD: list[Json] = [
    {"id": "a", "arrive_step": 0, "prompt": [1, 2, 3], "output": [10, 11, 12, 13]},
    {"id": "b", "arrive_step": 0, "prompt": [4, 5, 6], "output": [20, 21, 22, 23]},
]


def line(step: int, **fields: Any) -> Json:
    """A recorded step in which nothing happens but what is said."""
    quiet: Json = {
        "step": step,
        "scheduled": [],
        "running": [],
        "num_waiting": 0,
        "preempted": [],
        "admitted_cached_tokens": {},
        "free_blocks": 0,
        "block_tables": {},
        "finished": [],
        "free_blocks_after": 0,
    }
    assert fields.keys() <= quiet.keys()
    return quiet | fields


STEPS = [
    line(
        0,
        scheduled=[["a", 3], ["b", 3]],
        running=["a", "b"],
        admitted_cached_tokens={"a": 0, "b": 0},
        block_tables={"a": [0, 1], "b": [2, 3]},
    ),
    line(
        1,
        scheduled=[["a", 1], ["b", 1]],
        running=["a", "b"],
        block_tables={"a": [0, 1], "b": [2, 3]},
    ),
    line(
        2,
        scheduled=[["a", 1]],
        running=["a"],
        num_waiting=1,
        preempted=["b"],
        free_blocks=1,
        block_tables={"a": [0, 1, 3]},
        free_blocks_after=1,
    ),
    line(
        3,
        scheduled=[["a", 1]],
        running=["a"],
        num_waiting=1,
        free_blocks=1,
        block_tables={"a": [0, 1, 3]},
        finished=["a"],
        free_blocks_after=4,
    ),
    line(
        4,
        scheduled=[["b", 3]],
        running=["b"],
        admitted_cached_tokens={"b": 2},
        free_blocks=1,
        block_tables={"b": [2, 3, 1]},
        free_blocks_after=1,
    ),
    line(
        5,
        scheduled=[["b", 1]],
        running=["b"],
        free_blocks=1,
        block_tables={"b": [2, 3, 1]},
        finished=["b"],
        free_blocks_after=4,
    ),
]

# One request, two tokens: each is taken a step after it was scheduled.
ASYNC_WORKLOAD = [{"id": "a", "arrive_step": 1, "prompt": [1, 2, 3], "output": [10, 11]}]
ASYNC_STEPS = [
    line(0, free_blocks=4, free_blocks_after=4),
    line(
        1,
        scheduled=[["a", 3]],
        running=["a"],
        admitted_cached_tokens={"a": 0},
        free_blocks=2,
        block_tables={"a": [0, 1]},
        free_blocks_after=2,
    ),
    line(
        2,
        scheduled=[["a", 1]],
        running=["a"],
        free_blocks=2,
        block_tables={"a": [0, 1]},
        free_blocks_after=2,
    ),
    line(3, running=["a"], free_blocks=2, finished=["a"], free_blocks_after=4),
]


class CaseFolder:
    """Writes cases into a folder of their own: `case()` is the one worked by hand above."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        name: str = "case",
        *,
        config: object = CONFIG,
        workload: object = WORKLOAD,
        steps: object = STEPS,
        gz: tuple[str, ...] = (),
    ) -> Path:
        """Content is given as what a file holds, or as its text or bytes; None leaves it out."""
        case = self.folder / name
        case.mkdir()
        for file, content in (
            ("config.json", config),
            ("workload.jsonl", workload),
            ("steps.jsonl", steps),
        ):
            data = encoded(content)
            if data is not None and file in gz:
                (case / f"{file}.gz").write_bytes(gzip.compress(data))
            elif data is not None:
                (case / file).write_bytes(data)
        return case


def encoded(content: object) -> bytes | None:
    if isinstance(content, list):
        content = "".join(json.dumps(row) + "\n" for row in content)
    elif isinstance(content, dict):
        content = json.dumps(content)
    return content.encode() if isinstance(content, str) else content


@pytest.fixture
def case(tmp_path):
    return CaseFolder(tmp_path)


@pytest.fixture
def call(monkeypatch, capsys):
    """Calls `kvsim conformance` in this process: status, lines on stdout, lines on stderr."""

    def call(*paths: Path) -> tuple[int, list[str], list[str]]:
        monkeypatch.setattr(sys, "argv", ["kvsim", "conformance", *map(str, paths)])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        status = int(caught.value.code or 0)
        return status, captured.out.splitlines(), captured.err.splitlines()

    return call


def changed(number: int, **fields: Any) -> list[Json]:
    """The steps with one of them changed."""
    assert fields.keys() <= STEPS[number].keys()
    return [step | fields if i == number else step for i, step in enumerate(STEPS)]


# --- the recordings ---


def recorded_cases() -> list[Any]:
    data = os.environ.get("KVSIM_DATA")
    if not data:
        return [pytest.param(None, marks=pytest.mark.skip("KVSIM_DATA is not set"))]
    cases = find_cases(Path(data, "vllm_schedules"))
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize("folder", recorded_cases())
def test_same_decisions_as_vllm(folder):
    verdict = compare(read_case(folder))
    num_steps = len((folder / "steps.jsonl").read_text("utf-8").splitlines())
    assert (verdict.num_equal, verdict.difference) == (num_steps, None)


def test_command_prints_that_all_recordings_are_equal(call, data_dir):
    status, out, err = call(data_dir / "vllm_schedules")
    folders = sorted(path.parent.name for path in data_dir.glob("vllm_schedules/*/config.json"))
    assert (status, err) == (0, [])
    assert [line.split()[0] for line in out] == folders
    assert len(folders) >= 9
    assert all(line.endswith(" equal") for line in out)


# --- cases that are equal ---


def test_case_worked_by_hand_is_equal(case, call):
    status, out, err = call(case())
    assert (status, err) == (0, [])
    assert [line.split() for line in out] == [["case", "6", "steps", "equal"]]


def test_asynchronous_case_worked_by_hand_is_equal(case, call):
    folder = case(
        config=CONFIG | {"async_scheduling": True}, workload=ASYNC_WORKLOAD, steps=ASYNC_STEPS
    )
    status, out, _ = call(folder)
    assert (status, out[0].split()) == (0, ["case", "4", "steps", "equal"])


def test_asynchronous_case_is_not_equal_when_it_runs_synchronously(case):
    """Without the setting the second token is taken in step 2, and a ends there."""
    verdict = compare(read_case(case(workload=ASYNC_WORKLOAD, steps=ASYNC_STEPS)))
    assert verdict.num_equal == 2
    assert verdict.difference == Difference(2, "finished", [], ["a"])


@pytest.mark.parametrize(
    "gz",
    [("config.json", "workload.jsonl", "steps.jsonl"), ("steps.jsonl",), ("config.json",)],
    ids=["all", "steps", "config"],
)
def test_files_may_be_gzipped(case, call, gz):
    status, out, _ = call(case(gz=gz))
    assert (status, out[0].split()) == (0, ["case", "6", "steps", "equal"])


def test_plain_file_goes_before_a_gzipped_one(case):
    folder = case()
    (folder / "steps.jsonl.gz").write_bytes(b"no gzip at all")
    assert compare(read_case(folder)).difference is None


def test_block_tables_may_be_absent(case, call):
    steps = [{key: step[key] for key in step if key != "block_tables"} for step in STEPS]
    status, out, _ = call(case(steps=steps))
    assert (status, out[0].split()) == (0, ["case", "6", "steps", "equal"])


def test_order_of_keys_and_of_the_table_of_ids_is_no_matter(case):
    steps = [dict(reversed(step.items())) for step in STEPS]
    steps[0]["block_tables"] = {"b": [2, 3], "a": [0, 1]}
    assert compare(read_case(case(steps=steps))).difference is None


def test_unknown_settings_are_named_and_ignored(case, call):
    status, out, err = call(case(config=CONFIG | {"num_speculative_tokens": 0, "kv_groups": 1}))
    assert (status, out[0].split()) == (0, ["case", "6", "steps", "equal"])
    assert len(err) == 1
    assert "kv_groups, num_speculative_tokens" in err[0]


# --- the first difference ---


# Field -> the step that is changed, the value put there, the value that is right.
WRONG: dict[str, tuple[int, Any, Any]] = {
    "step": (1, 7, 1),
    "preempted": (2, [], ["b"]),
    "scheduled": (4, [["b", 5]], [["b", 3]]),
    "admitted_cached_tokens": (4, {"b": 0}, {"b": 2}),
    "running": (1, ["b", "a"], ["a", "b"]),
    "num_waiting": (3, 0, 1),
    "free_blocks": (2, 0, 1),
    "block_tables": (4, {"b": [2, 1, 3]}, {"b": [2, 3, 1]}),
    "finished": (3, [], ["a"]),
    "free_blocks_after": (5, 3, 4),
}


def test_every_field_of_a_step_has_a_wrong_value_here():
    assert WRONG.keys() == STEPS[0].keys()


@pytest.mark.parametrize("field", WRONG)
def test_wrong_value_is_the_first_difference(case, call, field):
    """It is named with its step, both values and the number of equal steps before; status 1."""
    number, wrong, right = WRONG[field]
    folder = case(steps=changed(number, **{field: wrong}))
    verdict = compare(read_case(folder))
    step = wrong if field == "step" else number
    assert (verdict.num_equal, verdict.difference) == (
        number,
        Difference(step, field, wrong, right),
    )

    status, out, err = call(folder)
    assert (status, len(out), err) == (1, 1, [])
    assert out[0].split()[:3] == ["case", str(number), "steps"]
    assert f"step {step}, {field}: expected {wrong}, got {right}" in out[0]


@pytest.mark.parametrize("order", [["b", "a"], ["a", "a"], ["a"]])
def test_order_of_the_scheduled_requests_matters(case, order):
    steps = changed(1, scheduled=[[name, 1] for name in order])
    difference = compare(read_case(case(steps=steps))).difference
    assert difference is not None
    assert (difference.step, difference.field) == (1, "scheduled")


def test_only_the_first_difference_is_told(case):
    steps = changed(2, free_blocks=9)
    steps[4] = steps[4] | {"scheduled": []}
    assert compare(read_case(case(steps=steps))).difference == Difference(2, "free_blocks", 9, 1)


def test_of_one_step_the_decision_that_was_taken_first_is_told(case):
    steps = changed(2, free_blocks=9, preempted=[], num_waiting=0, free_blocks_after=0)
    assert compare(read_case(case(steps=steps))).difference == Difference(2, "preempted", [], ["b"])


def test_other_workload_shows_as_a_difference(case):
    """b's prompt begins like a's: it shares a block with it in step 0."""
    workload = [WORKLOAD[0], WORKLOAD[1] | {"prompt": [1, 2, 6]}]
    difference = compare(read_case(case(workload=workload))).difference
    assert difference == Difference(0, "scheduled", [["a", 3], ["b", 3]], [["a", 3], ["b", 1]])


# --- folders of cases ---


def test_folder_of_cases_is_gone_through_in_order_of_name(case, call, tmp_path):
    """One that differs does not stop the others, but the status is 1."""
    case("b")
    case("a", steps=changed(3, num_waiting=5))
    case("c", gz=("config.json", "workload.jsonl", "steps.jsonl"))
    (tmp_path / "no case").mkdir()
    (tmp_path / "README.md").write_text("not a case", "utf-8")
    status, out, _ = call(tmp_path)
    assert status == 1
    assert [line.split()[:2] for line in out] == [["a", "3"], ["b", "6"], ["c", "6"]]
    assert ["equal" in line for line in out] == [False, True, True]


def test_several_paths_are_gone_through_in_their_order(case, call, tmp_path):
    second, first = case("second"), case("first")
    status, out, _ = call(second, first, second)
    assert status == 0
    assert [line.split()[0] for line in out] == ["second", "first", "second"]


def test_command_is_a_process_with_these_statuses(case, kvsim):
    good, bad = case("good"), case("bad", steps=changed(0, free_blocks=1))
    done = kvsim("conformance", str(good))
    assert (done.returncode, done.stderr) == (0, "")
    assert "equal" in done.stdout
    done = kvsim("conformance", str(good), str(bad))
    assert (done.returncode, done.stderr) == (1, "")
    assert "step 0, free_blocks: expected 1, got 0" in done.stdout


# --- what is broken ---


def without(key: str) -> list[Json]:
    """The workload without a key in its second line."""
    return [WORKLOAD[0], {name: WORKLOAD[1][name] for name in WORKLOAD[1] if name != key}]


def with_b(**fields: Any) -> list[Json]:
    return [WORKLOAD[0], WORKLOAD[1] | fields]


# What is wrong -> the files, and what the one line on stderr must name.
BROKEN: dict[str, tuple[Json, list[str]]] = {
    "no steps": ({"steps": None}, ["steps.jsonl"]),
    "no workload": ({"workload": None}, ["workload.jsonl"]),
    "config is no JSON": ({"config": "{"}, ["config.json"]),
    "config is null": ({"config": "null"}, ["config.json"]),
    "config is no text": ({"config": b"\xff\xfe"}, ["config.json"]),
    "impossible setting": (
        {"config": CONFIG | {"block_size": 0}},
        ["config.json: block_size: got 0"],
    ),
    "setting that is no number": ({"config": CONFIG | {"num_blocks": "4"}}, ["config.json"]),
    "setting of an unknown kind": ({"config": CONFIG | {"policy": "best"}}, ["policy", "best"]),
    "workload line is no JSON": (
        {"workload": json.dumps(WORKLOAD[0]) + "\n{\n"},
        ["workload.jsonl, line 2"],
    ),
    "workload line is no object": (
        {"workload": "[]\n"},
        ["workload.jsonl, line 1: got []", "mapping"],
    ),
    "request without id": ({"workload": without("id")}, ["workload.jsonl, line 2", "id"]),
    "request without prompt": (
        {"workload": without("prompt")},
        ["workload.jsonl, line 2", "prompt"],
    ),
    "request without output": (
        {"workload": without("output")},
        ["workload.jsonl, line 2", "output"],
    ),
    "request without arrival": (
        {"workload": without("arrive_step")},
        ["workload.jsonl, line 2", "arrive_step"],
    ),
    "empty prompt": (
        {"workload": with_b(prompt=[])},
        ["workload.jsonl, line 2: prompt: got []", "at least 1"],
    ),
    "empty output": (
        {"workload": with_b(output=[])},
        ["workload.jsonl, line 2: output: got []", "at least 1"],
    ),
    "arrival before the first step": (
        {"workload": with_b(arrive_step=-1)},
        ["workload.jsonl, line 2: arrive_step: got -1"],
    ),
    "prompt that is no list": ({"workload": with_b(prompt=5)}, ["workload.jsonl, line 2"]),
    "output that is no list": ({"workload": with_b(output=5)}, ["workload.jsonl, line 2"]),
    "arrival that is no number": (
        {"workload": with_b(arrive_step=[0])},
        ["workload.jsonl, line 2"],
    ),
    "same id twice": ({"workload": with_b(id="a")}, ["request a", "in use"]),
    "prompt that can never fit": (
        {"workload": with_b(prompt=[1] * 9)},
        ["request b", "9 prompt", "4 new", "6 blocks", "4"],
    ),
    "step is no JSON": ({"steps": json.dumps(STEPS[0]) + "\n}\n"}, ["steps.jsonl, line 2"]),
    "step is no object": ({"steps": "3\n"}, ["steps.jsonl, line 1: got 3", "mapping"]),
    "steps are empty": ({"steps": []}, ["steps.jsonl, line 1: got '', expected JSON"]),
    "steps are no text": ({"steps": b"\xff\xfe"}, ["steps.jsonl"]),
}


def assert_is_a_mistake(answer: tuple[int, list[str], list[str]], *parts: str) -> None:
    status, out, err = answer
    assert (status, out, len(err)) == (2, [], 1)
    assert err[0].startswith("kvsim: ")
    assert [part for part in parts if part not in err[0]] == [], err[0]


@pytest.mark.parametrize("wrong", BROKEN)
def test_broken_case_is_one_line_and_status_2(case, call, wrong):
    files, parts = BROKEN[wrong]
    assert_is_a_mistake(call(case(**files)), *parts)


@pytest.mark.parametrize("name", ["config.json", "workload.jsonl", "steps.jsonl"])
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-9], lambda data: b"no gzip", lambda data: data[:10] + b"\xff" * 20],
    ids=["cut short", "not gzip", "damaged"],
)
def test_broken_gzip_file_is_one_line_and_status_2(case, call, name, damage):
    folder = case(gz=("config.json", "workload.jsonl", "steps.jsonl"))
    path = folder / f"{name}.gz"
    path.write_bytes(damage(path.read_bytes()))
    assert_is_a_mistake(call(folder), f"{name}.gz")


@pytest.mark.parametrize(
    "files",
    [
        {"config": "[1]"},
        {"config": CONFIG | {"num_blocks": 4.0}},
        {"config": CONFIG | {"block_size": 2.5}},
        {"workload": with_b(id=[1])},
        {"workload": with_b(prompt=[[1], [2], [3]])},
        {"workload": with_b(output={"x": 1, "y": 2})},
        {"steps": [{key: STEPS[0][key] for key in STEPS[0] if key != "step"}]},
        {"steps": [STEPS[0] | {"step": [0]}]},
    ],
    ids=[
        "config is a list",
        "setting is 4.0",
        "setting is 2.5",
        "id is a list",
        "prompt of lists",
        "output is an object",
        "step without number",
        "number of a step is a list",
    ],
)
def test_more_broken_cases_are_one_line_and_status_2(case, call, files):
    assert_is_a_mistake(call(case(**files)))


@pytest.mark.parametrize("name", ["nothing", "empty", "file"])
def test_path_without_a_case_is_one_line_and_status_2(call, tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("{}", "utf-8")
    assert_is_a_mistake(call(tmp_path / name), name, "config.json", "workload.jsonl", "steps.jsonl")


def test_all_paths_are_looked_at_before_anything_is_compared(case, call, tmp_path):
    assert_is_a_mistake(call(case(), tmp_path / "nothing"), "nothing")


def test_broken_case_after_good_ones_leaves_their_verdicts(case, call, tmp_path):
    case("a")
    case("b", steps="{\n")
    status, out, err = call(tmp_path)
    assert (status, len(out), len(err)) == (2, 1, 1)
    assert out[0].split() == ["a", "6", "steps", "equal"]
    assert str(Path("b", "steps.jsonl, line 1")) in err[0]


def test_broken_line_after_the_first_difference_is_not_reached(case, call):
    """Steps are read as they are compared: a long recording is not held in memory."""
    steps = "".join(json.dumps(step) + "\n" for step in changed(1, free_blocks=3)) + "{\n"
    status, out, _ = call(case(steps=steps))
    assert (status, len(out)) == (1, 1)


def test_find_cases_names_what_it_looked_for(tmp_path):
    with pytest.raises(UserError, match="expected a case"):
        find_cases(tmp_path)
