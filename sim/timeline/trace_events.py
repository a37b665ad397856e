"""Writes timelines as trace events, which Perfetto and chrome://tracing open.

The format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.timeline.parts import STEPS, Count, Flow, Instant, Parts, Slice, Wait
from sim.whole_file import whole_file

Event = dict[str, Any]  # with times in nanoseconds, as `ts` and `dur`


def events_of(parts: Parts) -> list[Event]:
    """The events of a timeline in which nothing is open."""
    slices = sorted(parts.slices, key=lambda part: (part.start_ns, part.depth))
    return [
        *_names(parts),
        *map(_slice, slices),
        *(event for number, wait in enumerate(parts.waits) for event in _wait(wait, number)),
        *(event for number, flow in enumerate(parts.flows) for event in _flow(flow, number)),
        *_counters(parts.counts),
        *map(_instant, parts.instants),
    ]


def num_events_of(parts: Parts) -> int:
    """How many there are."""
    return len(list(_names(parts))) + parts.num_events


# Viewers show the thread that has the number of its process first, and take 0 for none.
def _pid(replica: int) -> int:
    return 10_000 * (replica + 1)


def _queue_pid(replica: int) -> int:
    return _pid(replica) + 5_000


def _tid(replica: int, track: int) -> int:
    return _pid(replica) if track == STEPS else track


def _names(parts: Parts) -> Iterator[Event]:
    """Names of the processes and tracks that are there, in the order in which they are shown."""
    tracks = {(part.replica, part.track) for part in parts.slices}
    queues = {one.replica for one in parts.waits} | {one.replica for one in parts.instants}
    replicas = {replica for replica, _ in tracks} | {one.replica for one in parts.counts} | queues
    for replica in sorted(replicas):
        yield from _process(_pid(replica), f"replica {replica}")
        for _, track in sorted(pair for pair in tracks if pair[0] == replica):
            name = "steps" if track == STEPS else f"slot {track - 1}"
            for kind, args in (
                ("thread_name", {"name": name}),
                ("thread_sort_index", {"sort_index": track}),
            ):
                yield {
                    "ph": "M",
                    "name": kind,
                    "pid": _pid(replica),
                    "tid": _tid(replica, track),
                    "args": args,
                }
        if replica in queues:
            yield from _process(_queue_pid(replica), f"replica {replica}, who waits")


def _process(pid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}


def _slice(part: Slice) -> Event:
    return {
        "ph": "X",
        "name": part.name.format(len(part.ends_ns)),
        "pid": _pid(part.replica),
        "tid": _tid(part.replica, part.track),
        "ts": part.start_ns,
        "dur": part.ends_ns[-1] - part.start_ns,
        "args": part.args,
    }


def _wait(wait: Wait, number: int) -> Iterator[Event]:
    """Named by what it was for most of the time: equal names are shown in one place."""
    longest = max(wait.waits_ns, key=wait.waits_ns.__getitem__, default=None)
    waits_ms = {f"for {reason}, ms": ns / 1e6 for reason, ns in wait.waits_ns.items()}
    common = {
        "name": f"{wait.what} for {longest}" if longest else wait.what,
        "cat": "wait",
        "id2": {"local": number},
        "pid": _queue_pid(wait.replica),
        "tid": 0,
    }
    assert wait.end_ns is not None
    args = {"request": wait.request, **waits_ms}
    yield {"ph": "b", **common, "ts": wait.start_ns, "args": args}
    yield {"ph": "e", **common, "ts": wait.end_ns}


def _flow(flow: Flow, number: int) -> Iterator[Event]:
    common = {"name": f"request {flow.request} resumes", "cat": "preemption", "id": number}
    pid = _pid(flow.replica)  # its slots have the numbers of their tracks
    # A nanosecond before the preemption: an arrow begins in a slice, and this one is over then.
    yield {"ph": "s", **common, "pid": pid, "tid": flow.start_track, "ts": flow.start_ns - 1}
    yield {
        "ph": "f", "bp": "e", **common, "pid": pid, "tid": flow.end_track, "ts": flow.end_ns
    }  # fmt: skip


def _counters(counts: list[Count]) -> Iterator[Event]:
    """Without what is 0 all the time."""
    shown: dict[tuple[int, str], set[str]] = {}
    for count in counts:
        some = {name for name, value in count.values.items() if value}
        shown.setdefault((count.replica, count.name), set()).update(some)
    for count in counts:
        names = shown[count.replica, count.name]
        yield {
            "ph": "C",
            "name": count.name,
            "pid": _pid(count.replica),
            "ts": count.time_ns,
            "args": {name: value for name, value in count.values.items() if name in names},
        }


def _instant(one: Instant) -> Event:
    return {
        "ph": "i",
        "s": "p",
        "cat": "refusal",
        "name": one.name,
        "pid": _queue_pid(one.replica),
        "tid": 0,
        "ts": one.time_ns,
        "args": one.args,
    }


def write_events(path: Path, events: list[Event], about: dict[str, Any]) -> None:
    """Write a file that appears whole; gzipped where its name ends with .gz.

    about: what it is of. Equal events give equal bytes. Raises UserError for a place that cannot
    be written to.
    """
    lines = ",\n".join(map(_line, events))
    text = (
        f'{{"displayTimeUnit": "ms",\n"otherData": {json.dumps(about)},\n'
        f'"traceEvents": [\n{lines}\n]}}\n'
    )
    with whole_file(path) as partial, partial.open("wb") as file:
        if path.suffix != ".gz":
            file.write(text.encode())
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
            zipped.write(text.encode())


def _line(event: Event) -> str:
    times = {name: event[name] for name in ("ts", "dur") if name in event}
    others = {name: value for name, value in event.items() if name not in times}
    exact = "".join(f', "{name}": {_microseconds(ns)}' for name, ns in times.items())
    return json.dumps(others)[:-1] + exact + "}"


def _microseconds(time_ns: int) -> str:
    """Exact, as a number of JSON: a float would not hold all digits of long runs."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"
