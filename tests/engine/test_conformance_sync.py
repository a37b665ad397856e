"""The recorded decisions of vLLM V1, taken again: every field of every step must be equal.

The recordings are the synchronous cases of $KVSIM_DATA/vllm_schedules; its README tells the rules.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.request import Request, TokenPrompt
from engine.step import Step

STOP = -1


def recorded_cases() -> list[Any]:
    """Folders of the synchronous cases; one that is skipped when there are no data."""
    data = os.environ.get("KVSIM_DATA")
    if not data:
        return [pytest.param(None, marks=pytest.mark.skip("KVSIM_DATA is not set"))]
    configs = sorted(Path(data, "vllm_schedules").glob("*/config.json"))
    cases = [c.parent for c in configs if not json.loads(c.read_text()).get("async_scheduling")]
    assert cases, f"no recorded case in {data}"
    return [pytest.param(case, id=case.name) for case in cases]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class RecordedRunner:
    """Hands out the recorded output; STOP in place of its last token, which is not fed back."""

    def __init__(self, workload: list[dict[str, Any]]) -> None:
        self.outputs = {request["id"]: request["output"] for request in workload}

    def run(self, step: Step) -> list[int]:
        tokens = []
        for chunk in step.chunks:
            if chunk.samples:
                output = self.outputs[chunk.seq.request.request_id]
                index = len(chunk.seq.output_token_ids)
                tokens.append(output[index] if index + 1 < len(output) else STOP)
        return tokens


def take_step(engine: Engine) -> dict[str, Any]:
    """One step, described with the fields of `steps.jsonl`."""
    step = engine.schedule()
    engine.check()
    record: dict[str, Any] = {
        "step": step.index,
        "scheduled": [[c.seq.request.request_id, c.num_tokens] for c in step.chunks],
        "running": [seq.request.request_id for seq in engine.scheduler.running],
        "num_waiting": len(engine.scheduler.waiting),
        "preempted": sorted(seq.request.request_id for seq in step.preempted),
        "admitted_cached_tokens": {
            seq.request.request_id: num_cached for seq, num_cached in step.admitted
        },
        "free_blocks": engine.kv.num_free_blocks,
        "block_tables": {
            c.seq.request.request_id: list(c.seq.block_table.block_ids) for c in step.chunks
        },
    }
    outputs = engine.commit(step, engine.runner.run(step))
    engine.check()
    record["finished"] = sorted(output.request_id for output in outputs if output.finished)
    record["free_blocks_after"] = engine.kv.num_free_blocks
    return record


@pytest.mark.parametrize("case", recorded_cases())
def test_same_decisions_as_vllm(case):
    config = json.loads((case / "config.json").read_text())
    config.pop("async_scheduling", None)
    workload = lines(case / "workload.jsonl")
    engine = Engine(EngineConfig(**config), RecordedRunner(workload), with_text=False)
    for expected in lines(case / "steps.jsonl"):
        for request in workload:
            if request["arrive_step"] == expected["step"]:
                prompt = TokenPrompt(request["prompt"])
                # The limit lies beyond the end: the schedule may not depend on it.
                limit = len(request["output"]) + 1
                engine.add_request(Request(request["id"], prompt, limit, stop_token_id=STOP))
        expected["finished"] = sorted(expected["finished"])
        assert take_step(engine) == expected
    assert not engine.has_work
    assert engine.kv.num_free_blocks == engine.config.num_blocks
