"""What produces the tokens of a step: a model that computes them, or a record of them."""

from collections.abc import Hashable, Mapping
from collections.abc import Sequence as SequenceOf
from typing import Any, Protocol

from engine.batch import StepBatch
from engine.beams import BeamParents, best_tokens, choose_parents, unmoved
from engine.config import ConfigError, EngineConfig
from engine.kv_pool import KVPool
from engine.request import RequestId
from engine.sampling import sample
from engine.sequence import Sequence
from engine.step import Step
from engine.transformer import Transformer


class Runner(Protocol):
    """Produces tokens. Limits on their number are the engine's business."""

    def run(self, step: Step) -> list[int]:
        """One token for each chunk that samples, in the order of the chunks.

        The tokens of every earlier step must have been committed.
        """


class ToyLMRunner:
    """Computes every token with the transformer, on a K/V pool of its own.

    Raises ConfigError for an engine that is given K/V: there is nobody to compute it.
    """

    def __init__(self, transformer: Transformer, config: EngineConfig) -> None:
        if config.kv_role == "kv_consumer":
            raise ConfigError(
                "kv_role: got 'kv_consumer', expected kv_both or kv_producer with the toy LM, "
                "which nobody gives the K/V of prompts"
            )
        self._transformer = transformer
        self._block_size = config.block_size
        model = transformer.config
        self._pool = KVPool(
            num_layers=model.num_layers,
            num_blocks=config.num_blocks,
            block_size=config.block_size,
            num_kv_heads=model.num_kv_heads,
            head_size=model.head_size,
            num_host_blocks=config.num_cpu_blocks if config.preemption == "swap" else 0,
        )

    def run(self, step: Step) -> list[int]:
        """One token for each chunk that samples, in the order of the chunks."""
        self._pool.move(step.moves)
        if not step.chunks:
            return []
        batch = StepBatch(step.chunks, self._block_size)
        logits = self._transformer.forward(batch, self._pool)
        sampled = [chunk for chunk in step.chunks if chunk.samples]
        rows = {chunk.seq: row for chunk, row in zip(sampled, logits, strict=True)}
        found = best_tokens(rows)
        return [
            found[seq]
            if seq in found
            else sample(rows[seq], seq.request.sampling, start + num_tokens, seq.index)
            for seq, start, num_tokens, _ in sampled
        ]


class ReplayRunner:
    """Hands out recorded tokens and computes nothing.

    outputs: by `Sequence.output_id`, as many token ids as the output is long, at least one. The
    last is not handed out: the request's stop token takes its place, and so reveals the end.
    """

    def __init__(
        self, outputs: Mapping[Any, SequenceOf[int]], beam_parents: BeamParents = unmoved
    ) -> None:
        self._outputs = outputs
        self._beam_parents = beam_parents
        self._current: dict[Hashable, SequenceOf[int]] = {}  # looked up once an output

    def run(self, step: Step) -> list[int]:
        """One token for each chunk that samples, in the order of the chunks."""
        sampled = [chunk.seq for chunk in step.chunks if chunk.samples]
        choose_parents(sampled, self._beam_parents)
        return [self._next_token(seq) for seq in sampled]

    def _next_token(self, seq: Sequence) -> int:
        output_id = seq.output_id
        index = seq.num_output_tokens
        if index == 0 or output_id not in self._current:
            self._current[output_id] = self._outputs[output_id]
        output = self._current[output_id]
        is_last = index + 1 == len(output)
        if is_last or seq.num_tokens + 1 == seq.max_num_tokens:
            del self._current[output_id]
        return seq.request.stop_token_id if is_last else output[index]


class ScriptedLengthRunner:
    """Ends each output where the workload says; all but the last token are another runner's.

    output_lengths: tokens of each request's output, the stop token included. The requests should
    carry `ignore_eos`, or the other runner may end them earlier.
    """

    def __init__(self, runner: Runner, output_lengths: Mapping[RequestId, int]) -> None:
        self._runner = runner
        self._output_lengths = output_lengths

    def run(self, step: Step) -> list[int]:
        """One token for each chunk that samples, in the order of the chunks."""
        sampled = [chunk.seq for chunk in step.chunks if chunk.samples]
        return [
            seq.request.stop_token_id if self._is_last(seq) else token
            for seq, token in zip(sampled, self._runner.run(step), strict=True)
        ]

    def _is_last(self, seq: Sequence) -> bool:
        return seq.num_output_tokens + 1 >= self._output_lengths[seq.request.request_id]


class TeacherForcingRunner:
    """Computes all tokens with one runner and hands out those of another in their place."""

    def __init__(self, student: Runner, teacher: Runner) -> None:
        self._student = student
        self._teacher = teacher

    def run(self, step: Step) -> list[int]:
        """One token for each chunk that samples, in the order of the chunks."""
        self._student.run(step)
        return self._teacher.run(step)
