"""Paged attention under sharing, eviction, preemption and resumption equals the dense reference.

Every token that the engine samples is checked: its logits, as the paged cache gave them, against
one dense forward pass over the whole sequence.
"""

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import (
    Engine,
    EngineConfig,
    Request,
    RequestId,
    SamplingParams,
    Step,
    TokenPrompt,
    ToyLMRunner,
    Transformer,
    TransformerConfig,
)

GREEDY = SamplingParams(ignore_eos=True)
TOLERANCE = 3e-5

# Whatever a configuration of these does, no logit may change.
SETTINGS: dict[str, dict[str, object]] = {
    "synchronous": {},
    "asynchronous": {"async_scheduling": True},
    "small chunks": {"max_num_batched_tokens": 11, "reserve_full_isl": False},
    "priority, asynchronous": {
        "policy": "priority",
        "async_scheduling": True,
        "long_prefill_token_threshold": 5,
        "reserve_full_isl": False,
        "eviction": "fifo",
    },
    "least frequently used": {"eviction": "lfu", "watermark": 0.03},
}


class WatchedTransformer(Transformer):
    """Keeps the logits of its last step."""

    def forward(self, batch, pool):
        self.logits = super().forward(batch, pool)
        return self.logits


MODEL = WatchedTransformer(TransformerConfig())


class Turn:
    """A request to come: `after` names the turn whose end it waits for, whose text it goes on."""

    def __init__(
        self,
        prompt: list[int],
        num_new_tokens: int,
        *,
        arrive_step: int = 0,
        after: "Turn | None" = None,
        priority: int = 0,
    ) -> None:
        self.prompt = prompt
        self.num_new_tokens = num_new_tokens
        self.arrive_step = arrive_step
        self.after = after
        self.priority = priority
        self.tokens: list[int] | None = None  # prompt and output, once it has ended


class Served:
    """What an engine said to each turn, with the logits of every token, and what happened."""

    def __init__(self, turns: list[Turn], **settings: Any) -> None:
        config = EngineConfig(**settings)
        self.engine = Engine(config, self)
        self.runner = ToyLMRunner(MODEL, config)
        self.logits: dict[RequestId, list[np.ndarray]] = {}
        self.counts: Counter[str] = Counter()
        seqs = {}
        coming = list(turns)
        step = 0
        while coming or self.engine.has_work:
            for turn in [turn for turn in coming if self.is_due(turn, step)]:
                coming.remove(turn)
                turn.tokens = None
                number = turns.index(turn)
                prompt = (turn.after.tokens if turn.after else []) + turn.prompt
                request = Request(
                    number,
                    TokenPrompt(prompt),
                    turn.num_new_tokens,
                    GREEDY,
                    priority=turn.priority,
                )
                seqs[number] = self.engine.add_request(request)
                self.logits[number] = []
            for output in self.engine.step():
                if output.finished:
                    seq = seqs[output.request_id]
                    turns[output.request_id].tokens = seq.token_ids(0, seq.num_tokens)
            self.engine.check()
            step += 1
        for seq in seqs.values():
            self.counts["preemptions"] += seq.num_preemptions
            self.counts["hits"] += seq.num_cached_tokens > 0
            if seq.prefix_misses is not None:
                self.counts["evictions"] += len(seq.prefix_misses.evicted_at)
        assert self.engine.kv.num_free_blocks == config.num_blocks

    @staticmethod
    def is_due(turn: Turn, step: int) -> bool:
        if turn.after:
            return turn.after.tokens is not None
        return turn.arrive_step <= step

    def run(self, step: Step) -> list[int]:
        tokens = self.runner.run(step)
        sampling = [chunk.seq.request.request_id for chunk in step.chunks if chunk.samples]
        for request_id, row in zip(sampling, MODEL.logits if sampling else [], strict=True):
            self.logits[request_id].append(row)
        return tokens


def assert_dense(turns: list[Turn], served: Served) -> None:
    """Of every turn each sampled token is the dense argmax, from logits equal up to rounding."""
    for number, turn in enumerate(turns):
        assert turn.tokens is not None
        num_new = len(served.logits[number])
        assert num_new == turn.num_new_tokens
        dense = MODEL.dense_forward(turn.tokens[:-1])[-num_new:]
        assert turn.tokens[-num_new:] == dense[:, :256].argmax(axis=1).tolist()
        assert np.abs(np.array(served.logits[number]) - dense).max() < TOLERANCE


def conversations() -> list[Turn]:
    """Six users under two system prompts; each comes back twice, going on from the answer."""
    rng = random.Random(4)
    openings = [rng.choices(range(256), k=size) for size in (21, 34)]
    turns = []
    for user in range(6):
        before = None
        for number in range(3):
            prompt = rng.choices(range(256), k=rng.randint(3, 9))
            turn = Turn(
                prompt if number else openings[user % 2] + prompt,
                rng.randint(4, 14),
                arrive_step=2 * user,
                after=before,
                priority=rng.randint(0, 2),
            )
            before = turn
            turns.append(turn)
    return turns


@pytest.mark.parametrize("num_blocks", [400, 35])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_conversations_say_what_the_dense_model_says(settings, num_blocks):
    """In a tiny pool what they share is evicted, and they preempt each other, all the time."""
    turns = conversations()
    served = Served(
        turns,
        **{"block_size": 3, "max_model_len": 112, "num_blocks": num_blocks}
        | {"enable_prefix_caching": True}
        | settings,
    )
    assert_dense(turns, served)
    assert served.counts["hits"] > 5
    assert (served.counts["preemptions"] > 2) == (num_blocks == 35)
    assert (served.counts["evictions"] > 3) == (num_blocks == 35)


# --- the prompts of the recordings, with the engine's own sampling ---


# Case, settings that differ from its own, what must have happened.
RECORDED_RUNS: list[tuple[str, dict[str, object], list[str]]] = [
    ("preemption", {}, ["preemptions"]),
    ("preemption", {"num_blocks": 400}, []),
    ("async_preemption", {}, ["preemptions"]),
    (
        "async_preemption",
        {"enable_prefix_caching": True, "policy": "priority", "eviction": "lfu"},
        ["preemptions"],
    ),
    ("async_multi_turn", {}, ["hits"]),
    ("async_multi_turn", {"num_blocks": 30}, ["preemptions", "evictions"]),
]


def recorded_runs() -> list[Any]:
    data = os.environ.get("KVSIM_DATA")
    if not data:
        return [pytest.param("", {}, [], marks=pytest.mark.skip("KVSIM_DATA is not set"))]
    return [
        pytest.param(Path(data, "vllm_schedules", name), settings, events, id=name)
        for name, settings, events in RECORDED_RUNS
    ]


@pytest.mark.parametrize(("case", "settings", "events"), recorded_runs())
def test_recorded_prompts_get_what_the_dense_model_says(case, settings, events):
    recorded = json.loads((case / "config.json").read_text("utf-8"))
    turns = []
    for line in (case / "workload.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        prompt = [token % 256 for token in row["prompt"]]
        priority = len(turns) % 3
        turns.append(
            Turn(prompt, len(row["output"]), arrive_step=row["arrive_step"], priority=priority)
        )
    served = Served(turns, **(recorded | settings))
    assert_dense(turns, served)
    assert {event: served.counts[event] for event in events if not served.counts[event]} == {}
