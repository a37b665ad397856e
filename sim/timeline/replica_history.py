"""Notes what the timeline of one replica shows."""

from engine.kv_manager import KVUsage
from engine.request import RequestId, TokenOutput
from engine.sequence import Sequence, Status
from engine.step import Chunk, Step
from sim.recorder import Queues
from sim.sequence_name import name_of
from sim.timeline.parts import STEPS, Count, Flow, Instant, Parts, Slice, Wait
from sim.timeline.slots import Slots
from sim.timeline.waits import Waits
from sim.watched import DoneStep


class ReplicaHistory:
    """What a replica has done, put into the parts of a timeline as it becomes known.

    Methods: see Watcher.
    """

    def __init__(self, number: int, from_ns: int, parts: Parts) -> None:
        self._number = number
        self._from_ns = from_ns
        self._parts = parts
        self._slots = Slots()
        self._waits = Waits()
        self._requests: dict[Sequence, Slice] = {}  # on their slots
        self._decodes: dict[Sequence, Slice] = {}  # the last of them
        self._sequences: dict[tuple[RequestId, int], Sequence] = {}
        self._preempted: dict[Sequence, tuple[int, int]] = {}  # from which slot, and when
        self._counts: dict[str, dict[str, int]] = {}
        self._now_ns = 0

    @property
    def num_open(self) -> int:
        """Events that what is open will become."""
        return len(self._requests) + len(self._decodes) + 2 * self._waits.num_lasting

    def leave_open(self, now_ns: int) -> None:
        """Note what has not ended."""
        self._parts.slices += self._requests.values()
        for seq in list(self._decodes):
            self._end_decodes(seq)
        self._parts.waits += self._waits.lasting(now_ns)

    def arrived(self, request_id: RequestId, now_ns: int) -> None:
        """A client has sent a request."""
        self._now_ns = now_ns
        wait = Wait(self._number, "waits", str(request_id), now_ns, {})
        self._waits.begin((request_id, 0), wait)

    def refused(self, request_id: RequestId, reason: str) -> None:
        """The engine has refused it."""
        self._waits.drop((request_id, 0))
        args = {"request": str(request_id), "reason": reason}
        if self._now_ns >= self._from_ns:
            self._parts.instants.append(Instant(self._number, "refused", self._now_ns, args))

    def scheduled(self, step: Step, now_ns: int) -> None:
        """The scheduler has admitted and preempted."""
        self._now_ns = now_ns
        for seq, num_cached in step.admitted:
            self._admit(seq, num_cached, now_ns)
        for seq in step.preempted:
            self._preempt(seq, now_ns)
        self._waits.decided(step.blocked_by, now_ns)

    def _admit(self, first: Sequence, num_cached: int, now_ns: int) -> None:
        """A sequence runs, and so do those that will fork from it, or take every step with it."""
        self._end_wait(first, now_ns)
        for seq in first.outputs:
            if seq.status is Status.RUNNING and seq not in self._slots:
                self._place(seq, num_cached if seq is first else 0, now_ns)

    def _end_wait(self, seq: Sequence, now_ns: int) -> None:
        wait = self._waits.end(_key(seq), now_ns)
        if wait and now_ns > max(wait.start_ns, self._from_ns):
            self._parts.waits.append(wait)

    def _place(self, seq: Sequence, num_cached: int, now_ns: int) -> None:
        track = self._slots.take(seq) + 1
        args = {
            "prompt tokens": seq.num_prompt_tokens,
            "cached tokens": num_cached,
            "output tokens before": seq.num_output_tokens,
            "preempted before": seq.num_preemptions,
        }
        self._sequences[_key(seq)] = seq
        name = f"request {name_of(seq)}"
        self._requests[seq] = Slice(self._number, track, name, now_ns, args)
        before = self._preempted.pop(seq, None)
        if before:
            from_track, from_ns = before
            if from_ns >= self._from_ns:
                flow = Flow(self._number, from_track, from_ns, track, now_ns, name_of(seq))
                self._parts.flows.append(flow)

    def _preempt(self, first: Sequence, now_ns: int) -> None:
        what = "swapped out" if first.status is Status.SWAPPED else "preempted"
        wait = Wait(self._number, what, name_of(first), now_ns, {})
        self._waits.begin(_key(first), wait)
        self._preempted[first] = (self._slots[first] + 1, now_ns)
        for seq in first.gang:
            if seq in self._slots:
                self._leave(seq, now_ns, "preempted" if seq is first else "its first is preempted")

    def _leave(self, seq: Sequence, now_ns: int, reason: str | None) -> None:
        """A sequence gives its slot back.

        With asynchronous scheduling a step may be in flight that computes a token more of it, which
        comes when the slot may be another's; it is not shown.
        """
        self._end_decodes(seq)
        self._slots.give_back(seq)
        part = self._requests.pop(seq)
        part.args |= {"output tokens": seq.num_output_tokens, "ends": reason}
        part.ends_ns = [now_ns]
        self._add(part)

    def ran(self, done: DoneStep) -> None:
        """A step is over."""
        step, start_ns, end_ns, usage, (num_running, num_waiting) = done
        num_prefill_tokens = step.num_tokens - step.num_decodes
        num_decodes = step.num_decodes - step.num_padded
        self._count("KV slots", start_ns, usage._asdict())
        self._count("sequences", start_ns, {"running": num_running, "waiting": num_waiting})
        self._count("tokens", start_ns, {"prefill": num_prefill_tokens, "decode": num_decodes})
        args = {
            "tokens": step.num_tokens,
            "prefill tokens": num_prefill_tokens,
            "decodes": num_decodes,
            "padded rows": step.num_padded,
            "running": num_running,
            "waiting": num_waiting,
            "preempted": len(step.preempted),
        }
        name = f"step {step.index:,}"
        self._add(Slice(self._number, STEPS, name, start_ns, args, [end_ns]))
        for chunk in step.chunks:
            if chunk.num_tokens and chunk.seq in self._slots:
                self._compute(chunk, start_ns, end_ns)

    def _compute(self, chunk: Chunk, start_ns: int, end_ns: int) -> None:
        seq, start, num_tokens, _ = chunk
        request = self._requests[seq]
        if chunk.is_decode:
            self._decode(seq, start, start_ns, end_ns)
            return
        self._end_decodes(seq)
        num_all = max(seq.num_tokens, start + num_tokens)
        args = {
            "tokens": num_tokens,
            "context": start,
            "cached tokens": request.args["cached tokens"],
            "computed again": bool(seq.num_preemptions),
        }
        name = f"prefill {num_tokens:,} of {num_all:,}"
        self._add(Slice(self._number, request.track, name, start_ns, args, [end_ns], 1))

    def _decode(self, seq: Sequence, start: int, start_ns: int, end_ns: int) -> None:
        """Steps without a gap are one slice."""
        part = self._decodes.get(seq)
        if part is None or part.ends_ns[-1] != start_ns:
            self._end_decodes(seq)
            track = self._requests[seq].track
            args = {"context of the first": start}
            part = Slice(self._number, track, "decode x{}", start_ns, args, depth=1)
            self._decodes[seq] = part
        part.ends_ns.append(end_ns)

    def _end_decodes(self, seq: Sequence) -> None:
        part = self._decodes.pop(seq, None)
        if part:
            self._add(part)

    def handed_out(self, outputs: list[TokenOutput], now_ns: int) -> None:
        """Its tokens are taken."""
        self._now_ns = now_ns
        for output in outputs:
            if output.finished:
                seq = self._sequences.pop((output.request_id, output.output))
                if seq in self._slots:
                    self._leave(seq, now_ns, output.finish_reason)
                else:  # its last token was in flight when it was preempted
                    self._end_wait(seq, now_ns)

    def idles(self, usage: KVUsage, queues: Queues, now_ns: int) -> None:
        """There is nothing to do."""
        now_ns = max(now_ns, self._now_ns)
        self._count("KV slots", now_ns, usage._asdict())
        self._count("sequences", now_ns, {"running": queues[0], "waiting": queues[1]})
        self._count("tokens", now_ns, {"prefill": 0, "decode": 0})

    def _count(self, name: str, time_ns: int, values: dict[str, int]) -> None:
        """Note what is counted where it has changed; before the window the last will do."""
        if self._counts.get(name) == values:
            return
        self._counts[name] = values
        counts = self._parts.counts
        count = Count(self._number, name, time_ns, values)
        if time_ns <= self._from_ns:
            counts[:] = [c for c in counts if c[:2] != count[:2]]
        counts.append(count)

    def _add(self, part: Slice) -> None:
        if part.ends_ns[-1] > self._from_ns:
            self._parts.slices.append(part)


def _key(seq: Sequence) -> tuple[RequestId, int]:
    return seq.request.request_id, seq.index
