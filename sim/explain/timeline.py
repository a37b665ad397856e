"""The life of one request, in words."""

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from sim.attribution import TTFT_PARTS, waits_ns
from sim.explain.words import WORDS


class Event(NamedTuple):
    """Something that happened to a request; time_ns: when, where that is recorded."""

    time_ns: int | None
    words: str


def timeline(request: pd.Series, steps: pd.DataFrame) -> list[Event]:
    """What happened to a request, in order. steps: those of its run, of all replicas."""
    if "replica" in request.index:
        steps = steps[steps["replica"] == request["replica"]]
    return list(_events(request, steps))


def _events(request: pd.Series, steps: pd.DataFrame) -> Iterator[Event]:
    arrival_ns = int(request["arrival_ns"])
    before = steps[steps["start_ns"] < arrival_ns]
    yield Event(arrival_ns, f"arrives: {_tokens(request)}, {_company(before)}")
    if request["finish_reason"] == "refused":
        yield Event(arrival_ns, "is refused, for it can never fit")
        return
    admitted_ns, first_ns = int(request["admitted_ns"]), int(request["first_token_ns"])
    yield Event(admitted_ns, f"is admitted{_cached(request)}, after {_waits(request)}")
    if request["ttft_preempted_ns"] or request["ttft_recompute_ns"]:
        yield Event(None, _preemption(request, "ttft"))
    yield Event(first_ns, f"has its first token, {_prefill(request, steps)}")
    if request["decode_preempted_ns"] or request["decode_recompute_ns"]:
        yield Event(None, _preemption(request, "decode"))
    stalls_ns = int(request["decode_stalls_ns"])
    stalled = f", {seconds(stalls_ns)} more stalled by prompts of others" if stalls_ns else ""
    decodes = f"{seconds(int(request['decode_steps_ns']))} of decodes{stalled}"
    yield Event(
        int(request["finished_ns"]),
        f"ends ({request['finish_reason']}) with {int(request['output_tokens']):,} tokens: "
        f"{decodes}",
    )


def seconds(time_ns: int) -> str:
    """A duration as it is printed."""
    return f"{time_ns / 1e9:.3f} s" if time_ns >= 1e9 else f"{time_ns / 1e6:.3g} ms"


def _tokens(request: pd.Series) -> str:
    return f"a prompt of {int(request['prompt_tokens']):,} tokens"


def _company(before: pd.DataFrame) -> str:
    """Who ran and waited in the last step that began before it came; before: all up to that."""
    if before.empty or not before["steps"].iloc[-1]:
        return "the engine idles"
    row = before.iloc[-1]
    return f"{row['running']:.0f} run, {row['waiting']:.0f} wait since the last step began"


def _cached(request: pd.Series) -> str:
    num_cached = int(request["cached_tokens"])
    return f" with {num_cached:,} tokens from the prefix cache" if num_cached else ""


def _waits(request: pd.Series) -> str:
    """What the time up to its admission was."""
    waits = [
        f"{seconds(int(wait_ns))} {WORDS[name].label}"
        for name, wait_ns in waits_ns(request).items()
        if wait_ns
    ]
    return ", ".join(waits) or "no wait"


def _prefill(request: pd.Series, steps: pd.DataFrame) -> str:
    start_ns, end_ns = int(request["admitted_ns"]), int(request["first_token_ns"])
    within = steps[(steps["start_ns"] >= start_ns) & (steps["start_ns"] < end_ns)]
    num_steps, num_tokens = int(within["steps"].sum()), int(within["prefill_tokens"].sum())
    about = "about " if (within["steps"] > 1).any() else ""
    in_steps = TTFT_PARTS[TTFT_PARTS.index("ttft_prefill_ns") :][:3]
    times = [
        f"{seconds(int(request[name]))} {WORDS[name].label}" for name in in_steps if request[name]
    ]
    what = "step" if num_steps == 1 else "steps"
    return ", ".join(
        [
            f"after {about}{num_steps:,} {what} with {num_tokens:,} prompt tokens of all requests",
            *times,
        ]
    )


def _preemption(request: pd.Series, phase: str) -> str:
    out_ns = int(request[f"{phase}_preempted_ns"])
    again_ns = int(request[f"{phase}_recompute_ns"])
    number = int(request["preemptions"])
    times = "once" if number == 1 else f"{number:,} times"
    said = [f"is preempted and waits {seconds(out_ns)} until it runs again"] if out_ns else []
    if again_ns:
        said.append(f"computes again what it lost, in {seconds(again_ns)}")
    return f"{', and '.join(said)} (preempted {times} in all)"
