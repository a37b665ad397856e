"""The engine of a scenario, and what ends its outputs where the workload says."""

from collections.abc import Iterator, Mapping
from typing import Any

import workloads as w
from engine.beams import unmoved
from engine.config import EngineConfig
from engine.engine import Engine
from engine.replay_engine import ReplayEngine
from engine.runners import (
    ReplayRunner,
    Runner,
    ScriptedLengthRunner,
    TeacherForcingRunner,
    ToyLMRunner,
)
from engine.transformer import Transformer
from sim.scenario import Scenario


def build_engine(
    scenario: Scenario, config: EngineConfig, workload: w.Workload, *, stepwise: bool = False
) -> Engine | ReplayEngine:
    """The engine of one system; it ends each output where the workload says.

    stepwise: an engine that takes every step by itself also where tokens need not be computed.
    """
    lengths = workload.output_tokens.data
    parents = workload.beams.parents if workload.beams else unmoved
    if scenario.runner == "toy-lm":
        runner = _toy_lm(scenario, config, workload)
    elif stepwise:
        runner = ReplayRunner(_Answers(workload), parents)
    else:
        return ReplayEngine(config, lengths.__getitem__, parents)
    return Engine(config, runner, with_text=False, output_length=lengths.__getitem__)


def _toy_lm(scenario: Scenario, config: EngineConfig, workload: w.Workload) -> Runner:
    toy_lm = ToyLMRunner(Transformer(scenario.toy_lm), config)
    if workload.following:  # prompts quote answers as the workload has them
        return TeacherForcingRunner(toy_lm, ReplayRunner(_Answers(workload)))
    return ScriptedLengthRunner(toy_lm, dict(enumerate(workload.output_tokens.tolist())))


class _Answers(Mapping[Any, w.AnswerTokens]):
    """The true outputs by `Sequence.output_id`, each made when it is asked for."""

    def __init__(self, workload: w.Workload) -> None:
        self._workload = workload

    def __getitem__(self, output_id: Any) -> w.AnswerTokens:
        number, output = output_id if isinstance(output_id, tuple) else (output_id, 0)
        return self._workload.answer(number, output)

    def __iter__(self) -> Iterator[Any]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self._workload)
