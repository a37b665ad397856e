"""The scheduling rules written down a second time, the slow and obvious way, as an oracle.

The model below was written from the README of the recordings in $KVSIM_DATA/vllm_schedules alone
(numbers of rules are its numbers), with the policy and the eviction orders that kvsim adds. It
keeps plain lists and whole token prefixes, and no class of the engine. It must tell the story of
the recordings itself; then the engine must tell the same story as the model, physical block ids
included, for whatever settings and workloads the seeds come up with.
"""

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.request import Request, TokenPrompt
from engine.step import Step

STOP = -1
Record = dict[str, Any]


class Ask:
    """A request and all that is known of it."""

    def __init__(self, row: Record, arrival: int) -> None:
        self.id: str = row["id"]
        self.rank = (row.get("priority", 0), arrival)
        self.known: list[int] = list(row["prompt"])
        self.output: list[int] = row["output"]
        self.limit: int = len(row["prompt"]) + row.get("max_new_tokens", len(row["output"]))
        self.num_given = 0
        self.computed = 0
        self.placeholders = 0
        self.stale = 0
        self.blocks: list[int] = []
        self.is_over = False


class Rules:
    """Decides as the README says, one step at a time."""

    def __init__(self, settings: Record) -> None:
        self.settings = settings
        self.block_size: int = settings["block_size"]
        self.is_async: bool = settings.get("async_scheduling", False)
        self.by_priority = settings.get("policy", "fcfs") == "priority"
        self.eviction = settings.get("eviction", "lru")
        self.waiting: list[Ask] = []
        self.running: list[Ask] = []
        self.free = list(range(settings["num_blocks"]))  # the head is taken first
        self.content: dict[int, list[int]] = {}  # block -> all tokens up to its end; as published
        self.hits: Counter[int] = Counter()
        self.taken_at: dict[int, int] = {}
        self.num_taken = 0
        self.num_asks = 0
        self.num_steps = 0
        self.in_flight: list[list[list[Any]]] = []  # batches of [ask, num_tokens, samples]

    # --- blocks: rules 5 and 6 ---

    def num_blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def next_block(self) -> int:
        """The head, unless only blocks with content are left and another order is asked for."""
        if self.eviction == "lru" or self.free[0] not in self.content:
            return self.free[0]
        if self.eviction == "fifo":
            return min(self.free, key=self.taken_at.__getitem__)
        return min(self.free, key=self.hits.__getitem__)  # of equals the one released first

    def take(self, ask: Ask, num_blocks: int) -> None:
        for _ in range(num_blocks):
            block = self.next_block()
            self.free.remove(block)
            self.content.pop(block, None)
            self.num_taken += 1
            self.taken_at[block] = self.num_taken
            self.hits[block] = 0
            ask.blocks.append(block)

    def release(self, ask: Ask) -> None:
        blocks, ask.blocks = ask.blocks, []
        held = {block for other in self.running for block in other.blocks}
        released = [block for block in reversed(blocks) if block not in held]
        front = [block for block in released if block not in self.content]
        self.free = front + self.free + [block for block in released if block in self.content]

    def publish(self, ask: Ask, num_tokens: int) -> None:
        if self.settings["enable_prefix_caching"]:
            for number in range(num_tokens // self.block_size):
                prefix = ask.known[: (number + 1) * self.block_size]
                self.content.setdefault(ask.blocks[number], prefix)

    def cached(self, ask: Ask) -> list[int]:
        blocks = []
        for stop in range(self.block_size, len(ask.known), self.block_size):
            holders = [b for b, prefix in self.content.items() if prefix == ask.known[:stop]]
            if not holders:
                break
            blocks.append(holders[0])
        return blocks

    # --- a step: rules 1 to 4 ---

    @property
    def budget(self) -> int:
        return self.settings["max_num_batched_tokens"] - sum(n for _, n, _ in self.batch)

    def schedule(self) -> None:
        self.batch: list[list[Any]] = []
        self.preempted: list[Ask] = []
        self.admitted: dict[str, int] = {}
        threshold = self.settings["long_prefill_token_threshold"]
        self.cap = 10**9
        if threshold and len(self.running) + len(self.waiting) > 1:
            self.cap = threshold
        self.schedule_running()
        if not self.preempted:
            self.admit()
        if self.batch:
            self.in_flight.append(self.batch)

    def schedule_running(self) -> None:
        for ask in list(self.running):
            if ask not in self.running or not self.budget:
                continue
            expected = len(ask.known) + ask.placeholders
            if ask.placeholders and expected >= min(ask.limit, self.settings["max_model_len"]):
                continue  # rule 7: passed over
            room = self.settings["max_model_len"] - 1 - ask.computed
            num_tokens = min(expected - ask.computed, self.cap, self.budget, room)
            if num_tokens <= 0:
                continue
            num_new = self.num_blocks_for(ask.computed + num_tokens) - len(ask.blocks)
            while num_new > len(self.free) and ask in self.running:
                self.preempt()
            if ask not in self.running:
                break
            self.take(ask, num_new)
            self.compute(ask, num_tokens)

    def compute(self, ask: Ask, num_tokens: int) -> None:
        ask.computed += num_tokens
        samples = ask.computed == len(ask.known) + ask.placeholders
        ask.placeholders += samples
        self.batch.append([ask, num_tokens, samples])
        self.publish(ask, min(ask.computed, len(ask.known)))

    def preempt(self) -> None:
        victim = self.running[-1]
        if self.by_priority:
            victim = max(self.running, key=lambda ask: ask.rank)
        for entry in [entry for entry in self.batch if entry[0] is victim]:
            self.batch.remove(entry)  # it is not computed, so nothing of it may be shared
            victim.computed -= entry[1]
            victim.placeholders -= entry[2]
            for block in victim.blocks[victim.computed // self.block_size :]:
                self.content.pop(block, None)
        self.running.remove(victim)
        self.release(victim)
        victim.computed = 0
        victim.stale += victim.placeholders
        victim.placeholders = 0
        self.waiting.insert(0, victim)
        if self.by_priority:
            self.waiting.sort(key=lambda ask: ask.rank)
        self.preempted.append(victim)

    def admit(self) -> None:
        settings = self.settings
        for ask in list(self.waiting):
            if len(self.running) == settings["max_num_seqs"] or not self.budget:
                break
            if ask.stale:
                continue
            prefix = self.cached(ask)
            num_cached = len(prefix) * self.block_size
            num_tokens = min(len(ask.known) - num_cached, self.cap)
            if num_tokens > self.budget and not settings["enable_chunked_prefill"]:
                break
            num_tokens = min(num_tokens, self.budget)
            num_new = self.num_blocks_for(num_cached + num_tokens) - len(prefix)
            must_fit = num_new
            if settings["reserve_full_isl"]:
                must_fit = self.num_blocks_for(len(ask.known)) - len(prefix)
            must_fit += len([block for block in prefix if block in self.free])
            if self.running:
                must_fit += int(settings["watermark"] * (settings["num_blocks"] + 1))
            if must_fit > len(self.free):
                break
            for block in prefix:
                self.hits[block] += 1
                if block in self.free:
                    self.free.remove(block)
            ask.blocks = prefix
            ask.computed = num_cached
            self.take(ask, num_new)
            self.waiting.remove(ask)
            self.running.append(ask)
            self.admitted[ask.id] = num_cached
            self.compute(ask, num_tokens)

    # --- results: rule 7 ---

    def collect(self) -> list[str]:
        """Take the results that are due; who has finished."""
        if not self.in_flight or (self.is_async and len(self.in_flight) < 2 and self.batch):
            return []
        finished = []
        for ask, _, samples in self.in_flight.pop(0):
            if not samples or ask.is_over:
                continue
            if ask.stale:
                ask.stale -= 1
            else:
                ask.placeholders -= 1
            ask.known.append(ask.output[ask.num_given])
            ask.num_given += 1
            if self.is_async:
                self.publish(ask, ask.computed - ask.placeholders)
            limit = min(ask.limit, self.settings["max_model_len"])
            ask.is_over = ask.num_given == len(ask.output) or len(ask.known) == limit
            if ask.is_over:
                (self.running if ask in self.running else self.waiting).remove(ask)
                self.release(ask)
                finished.append(ask.id)
        return finished

    def step(self, arrivals: list[Record]) -> Record:
        """A line of `steps.jsonl`."""
        for row in arrivals:
            self.waiting.append(Ask(row, self.num_asks))
            self.num_asks += 1
        if self.by_priority:
            self.waiting.sort(key=lambda ask: ask.rank)
        self.schedule()
        record: Record = {
            "step": self.num_steps,
            "scheduled": [[ask.id, num_tokens] for ask, num_tokens, _ in self.batch],
            "running": [ask.id for ask in self.running],
            "num_waiting": len(self.waiting),
            "preempted": sorted(ask.id for ask in self.preempted),
            "admitted_cached_tokens": self.admitted,
            "free_blocks": len(self.free),
            "block_tables": {ask.id: list(ask.blocks) for ask, _, _ in self.batch},
        }
        self.num_steps += 1
        record["finished"] = self.collect()
        record["free_blocks_after"] = len(self.free)
        return record


class Story:
    """The same lines told by the engine."""

    def __init__(self, settings: Record, workload: list[Record]) -> None:
        self.outputs = {row["id"]: row["output"] for row in workload}
        self.engine = Engine(EngineConfig(**settings), self, with_text=False)
        self.in_flight: list[Step] = []

    def run(self, step: Step) -> list[int]:
        """The next token for each chunk that samples; STOP for the last."""
        tokens = []
        for seq in [chunk.seq for chunk in step.chunks if chunk.samples]:
            output = self.outputs[seq.request.request_id]
            index = len(seq.output_token_ids)
            tokens.append(output[index] if index + 1 < len(output) else STOP)
        return tokens

    def step(self, arrivals: list[Record]) -> Record:
        engine = self.engine
        for row in arrivals:
            engine.add_request(
                Request(
                    row["id"],
                    TokenPrompt(row["prompt"]),
                    row.get("max_new_tokens", len(row["output"])),
                    priority=row.get("priority", 0),
                    stop_token_id=STOP,
                )
            )
        step = engine.schedule()
        engine.check()
        record: Record = {
            "step": step.index,
            "scheduled": [[c.seq.request.request_id, c.num_tokens] for c in step.chunks],
            "running": [seq.request.request_id for seq in engine.scheduler.running],
            "num_waiting": len(engine.scheduler.waiting),
            "preempted": sorted(seq.request.request_id for seq in step.preempted),
            "admitted_cached_tokens": {s.request.request_id: num for s, num in step.admitted},
            "free_blocks": engine.kv.num_free_blocks,
            "block_tables": {
                c.seq.request.request_id: list(c.seq.block_table.block_ids) for c in step.chunks
            },
        }
        if step.chunks:
            self.in_flight.append(step)
        record["finished"] = self.collect(is_due=not step.chunks)
        engine.check()
        record["free_blocks_after"] = engine.kv.num_free_blocks
        return record

    def collect(self, *, is_due: bool) -> list[Any]:
        most_in_flight = 1 if self.engine.config.async_scheduling else 0
        if not self.in_flight or (len(self.in_flight) <= most_in_flight and not is_due):
            return []
        oldest = self.in_flight.pop(0)
        outputs = self.engine.commit(oldest, self.engine.run(oldest))
        return [output.request_id for output in outputs if output.finished]


# --- the model against the recordings ---


def recorded_cases() -> list[Any]:
    data = os.environ.get("KVSIM_DATA")
    if not data:
        return [pytest.param(None, marks=pytest.mark.skip("KVSIM_DATA is not set"))]
    cases = sorted(path.parent for path in Path(data, "vllm_schedules").glob("*/config.json"))
    assert cases, f"no recorded case in {data}"
    return [pytest.param(case, id=case.name) for case in cases]


def lines(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("case", recorded_cases())
def test_the_rules_tell_the_recorded_story(case):
    settings = json.loads((case / "config.json").read_text("utf-8"))
    workload = lines(case / "workload.jsonl")
    rules, story = Rules(settings), Story(settings, workload)
    for expected in lines(case / "steps.jsonl"):
        arrivals = [row for row in workload if row["arrive_step"] == expected["step"]]
        assert rules.step(arrivals) == expected
        assert story.step(arrivals) == expected
    assert not story.engine.has_work


# --- the engine against the model ---


def random_settings(rng: random.Random) -> Record:
    block_size = rng.choice([1, 2, 3, 4, 7, 16])
    max_model_len = rng.randint(8, 64)
    is_chunked = rng.random() < 0.7
    return {
        "block_size": block_size,
        "num_blocks": max(1, rng.randint(max_model_len * 2 // 3, 2 * max_model_len) // block_size),
        "max_model_len": max_model_len,
        "max_num_seqs": rng.randint(1, 12),
        "max_num_batched_tokens": rng.randint(1, 60) + (0 if is_chunked else max_model_len),
        "enable_chunked_prefill": is_chunked,
        "enable_prefix_caching": rng.random() < 0.7,
        "long_prefill_token_threshold": rng.choice([0, 0, rng.randint(1, 8)]),
        "watermark": rng.choice([0.0, 0.0, 0.05, 0.3]),
        "reserve_full_isl": rng.random() < 0.6,
        "async_scheduling": rng.random() < 0.5,
        "policy": rng.choice(["fcfs", "fcfs", "priority"]),
        "eviction": rng.choice(["lru", "lru", "lfu", "fifo"]),
    }


def random_workload(rng: random.Random, settings: Record, num_requests: int) -> list[Record]:
    """Prompts that share their beginnings, or go on with an earlier prompt and its output.

    What does not fit the model or the pool is left out. Half of the outputs end before the limit.
    """
    block_size, max_model_len = settings["block_size"], settings["max_model_len"]
    room = min(max_model_len, settings["num_blocks"] * block_size)
    said = [rng.choices(range(3), k=rng.randint(0, room // 2)) for _ in range(3)]
    workload: list[Record] = []
    arrive_step = 0
    while len(workload) < num_requests:
        prompt = rng.choice(said[-6:]) + rng.choices(range(3), k=rng.randint(1, 8))
        max_new_tokens = rng.randint(1, 20)
        output = rng.choices(range(3), k=rng.randint(1, max_new_tokens))
        arrive_step += rng.choice([0, 0, 0, 1, 2, 4])
        num_slots = min(len(prompt) + max_new_tokens, max_model_len) - 1
        if len(prompt) < max_model_len and num_slots <= settings["num_blocks"] * block_size:
            workload.append(
                {
                    "id": f"r{len(workload)}",
                    "arrive_step": arrive_step,
                    "prompt": prompt,
                    "output": output,
                    "max_new_tokens": max_new_tokens,
                    "priority": rng.randint(0, 2),
                }
            )
            said.append(prompt + output)
        else:
            said.append(prompt[: room // 3])
    return workload


def tell_both(seed: int) -> Counter[str]:
    """Step model and engine side by side to the end; what happened on the way."""
    rng = random.Random(seed)
    settings = random_settings(rng)
    workload = random_workload(rng, settings, num_requests=25)
    rules, story = Rules(settings), Story(settings, workload)
    counts: Counter[str] = Counter()
    step = 0
    while step <= workload[-1]["arrive_step"] or story.engine.has_work:
        arrivals = [row for row in workload if row["arrive_step"] == step]
        expected = rules.step(arrivals)
        assert story.step(arrivals) == expected
        kind = "async" if settings["async_scheduling"] else "sync"
        counts[f"{kind}, preempted"] += len(expected["preempted"])
        counts[f"{settings['policy']}, preempted"] += len(expected["preempted"])
        counts[f"{settings['eviction']}, hits"] += any(expected["admitted_cached_tokens"].values())
        step += 1
        assert step < 3000, "it does not end"
    assert not rules.running
    assert not rules.waiting
    assert sorted(rules.free) == list(range(settings["num_blocks"]))
    assert story.engine.kv.num_free_blocks == settings["num_blocks"]
    return counts


@pytest.mark.parametrize("seed", range(120))
def test_the_engine_tells_the_story_of_the_rules(seed):
    tell_both(seed)


def test_stories_meet_what_they_are_for():
    counts = sum((tell_both(seed) for seed in range(30)), Counter())
    for kind in ("sync", "async", "fcfs", "priority"):
        assert counts[f"{kind}, preempted"] >= 10, kind
    for eviction in ("lru", "lfu", "fifo"):
        assert counts[f"{eviction}, hits"] >= 10, eviction
