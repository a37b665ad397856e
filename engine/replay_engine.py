"""An engine that is told how long every output is, and takes the same decisions without tokens."""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from typing import Any, NamedTuple

from engine.beams import BeamParents, choose_parents, unmoved
from engine.config import EngineConfig
from engine.decode_batch import Deadlines
from engine.engine_base import EngineBase
from engine.scheduler import running_order
from engine.sequence import Sequence, Status
from engine.step import Step


class Progress(NamedTuple):
    """What came of a step.

    sampled: sequences that had a chunk of their own and got a token, in order.
    num_decoded: the others that got one.
    ended: those whose last token it was, in running order.
    """

    sampled: list[Sequence]
    num_decoded: int
    ended: list[Sequence]


class ReplayEngine(EngineBase):
    """Decides, and gives out every block, as `Engine` does over a ReplayRunner.

    Nobody sees the tokens, so sequences that decode are looked at only when they begin a block or
    end, and many steps can be taken at once. For prompts whose keys do not read the output.

    output_length: tokens of the output of the request with this id; its limits may cut it.
    beam_parents: see BeamParents.
    """

    def __init__(
        self,
        config: EngineConfig,
        output_length: Callable[[Any], int],
        beam_parents: BeamParents = unmoved,
    ) -> None:
        super().__init__(config, stepwise=False, output_length=output_length)
        self._beam_parents = beam_parents
        assert self.scheduler.decodes is not None
        self._decodes = self.scheduler.decodes
        self._true_length = output_length
        self._ends = Deadlines()  # the step that yields a member's last token

    def schedule(self) -> Step:
        """See EngineBase."""
        step = super().schedule()
        for seq, _, _, samples in step.chunks:
            if samples and seq.lead is not None:
                num_left = self._output_tokens(seq) - seq.num_output_tokens - seq.num_placeholders
                self._ends.add(step.index + num_left, seq)
        return step

    def run(self, step: Step) -> list[int]:
        """Nothing is computed: the lengths are known."""
        return []

    def commit(self, step: Step, _token_ids: SequenceOf[int] = ()) -> Progress:
        """Count the tokens of the oldest step in flight and release what has ended."""
        self._land(step)
        sampled = [
            seq
            for seq, _, _, samples in step.chunks
            if samples and seq.status is not Status.FINISHED
        ]
        choose_parents(sampled, self._beam_parents)
        self._reorder(sampled)
        for seq in sampled:
            seq.count_output()
        num_decoded = self._decodes.commit(step.index)
        if self.config.async_scheduling and self.config.enable_prefix_caching:
            self._publish(sampled, step.index)
        ended = [
            seq
            for seq in sampled
            if seq.lead is None and seq.num_output_tokens == self._output_tokens(seq)
        ]
        return Progress(sampled, num_decoded, self._end(ended, step.index))

    def _publish(self, sampled: list[Sequence], index: int) -> None:
        """What a block holds is known only now; when it was scheduled it was a placeholder."""
        alone = [seq for seq in sampled if seq.lead is None and seq.status is Status.RUNNING]
        for seq in sorted([*self._decodes.filling(index), *alone], key=running_order):
            num_known = seq.num_tokens - 1 if seq.lead is None else seq.lead + index + 1
            self.kv.publish(seq, num_known)

    def _end(self, ended: list[Sequence], index: int) -> list[Sequence]:
        """End these sequences and the members whose last token a step yields, in running order."""
        ended += self._ends.due(index)
        if len(ended) > 1:
            ended.sort(key=running_order)
        for seq in ended:
            is_cut = self._true_length(seq.request.request_id) > seq.max_output_tokens
            self._finish(seq, "length" if is_cut else "stop")
        return ended

    def steps_ahead(self) -> int:
        """See EngineBase. The last of them ends some.

        With asynchronous scheduling the first of them is in flight already, and so is one more when
        the last is committed.
        """
        last = self._ends.next_step()
        if last is None or not self._is_steady:
            return 0
        next_index = self._in_flight[0].index if self._in_flight else self.scheduler.num_steps
        return self.scheduler.steps_ahead(last - next_index + 1)

    @property
    def _is_steady(self) -> bool:
        """Whether all that is in flight is a token for each of the sequences that decode."""
        if not self.config.async_scheduling:
            return not self._in_flight
        if len(self._in_flight) != 1 or self._decodes.has_publishers:
            return False
        step = self._in_flight[0]
        is_pure = not step.chunks and not step.preempted
        return is_pure and step.num_decodes == self._decodes.size

    @property
    def num_decodes(self) -> int:
        """Sequences that decode in the steps ahead."""
        return self._decodes.size

    @property
    def rows_ahead(self) -> tuple[int, int]:
        """Rows of the steps ahead, those that have ended and are computed nevertheless included.

        And the tokens that they together attend to in the next step that is scheduled.
        """
        scheduler, decodes = self.scheduler, self._decodes
        return (
            decodes.size + scheduler.num_padded,
            decodes.context_tokens + scheduler.padded_context_tokens,
        )

    def advance(self, num_steps: int) -> tuple[list[int], list[Sequence]]:
        """Take so many steps at once, at most `steps_ahead`.

        Returns how many blocks were begun with each, and the sequences that ended, as `Progress`
        has them.
        """
        begun = self.scheduler.advance(num_steps)
        index = self.scheduler.num_steps - 1
        if self.config.async_scheduling:
            self._in_flight[0] = self.scheduler.last_step = self._next_in_flight(index)
            index -= 1
        self._decodes.commit(index)
        return begun, self._end([], index)

    def _next_in_flight(self, index: int) -> Step:
        step = Step(index)
        batch = self._decodes
        step.add_decodes(batch.size, batch.context_tokens - batch.size)
        return step

    @property
    def in_flight(self) -> Step:
        """The oldest step in flight."""
        return self._in_flight[0]
