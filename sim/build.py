"""Turns the parts of a scenario into the things they describe."""

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
from sim.scenario.workload import MixedSourceSpec, SourceSpec, WorkloadSpec
from sim.token_counts import token_counter


def build_workload(scenario: Scenario) -> w.Workload:
    """The requests of a scenario: the same for each of its systems.

    Raises WorkloadError for a file that cannot be read.
    """
    spec, seed = scenario.workload, scenario.seed
    max_model_len = scenario.engine.max_model_len
    if spec.mix:
        return _mixed(spec, max_model_len, seed)
    beam_switch = spec.beam_search.switch if spec.beam_search else None
    workload = _from_source(spec, max_model_len, seed, num_outputs=spec.n, beam_switch=beam_switch)
    if not spec.classes:
        return workload
    return w.classified(workload, {name: c.build() for name, c in spec.classes.items()}, seed)


def _from_source(spec: SourceSpec, max_model_len: int, seed: int, **samples: Any) -> w.Workload:
    """samples: num_outputs and beam_switch of synthetic requests."""
    arrivals = spec.arrivals.build() if spec.arrivals else None
    if spec.trace is not None:
        return w.workload_from_trace(
            w.read_trace(
                w.read_source(spec.trace),
                spec.format,
                token_counter(spec.tokenizer) if spec.tokenizer else None,
            ),
            max_new_tokens=spec.max_new_tokens,
            max_model_len=max_model_len,
            limit=spec.requests,
            arrivals=arrivals,
            shape=spec.shape.build() if spec.shape else None,
            seed=seed,
        )
    if spec.resample is not None:
        assert spec.requests  # by the schema
        assert arrivals
        return w.resampled(
            w.read_sharing_rows(spec.resample),
            num_requests=spec.requests,
            seed=seed,
            arrivals=arrivals,
            max_new_tokens=spec.max_new_tokens,
            max_model_len=max_model_len,
        )
    spec = spec.with_preset()
    prompts, outputs = spec.prompts, spec.outputs
    assert spec.requests and arrivals and prompts and prompts.unique and outputs  # by the schema
    return w.synthetic(
        num_requests=spec.requests,
        seed=seed,
        arrivals=arrivals,
        unique=prompts.unique.build(),
        outputs=outputs.build(),
        shared=prompts.shared.build() if prompts.shared else None,
        documents=prompts.documents.build() if prompts.documents else None,
        sessions=spec.sessions.build() if spec.sessions else None,
        max_new_tokens=spec.max_new_tokens,
        max_model_len=max_model_len,
        **samples,
    )


def _mixed(spec: WorkloadSpec, max_model_len: int, seed: int) -> w.Workload:
    """Each source draws from a seed of its own, which does not depend on the others."""
    parts = {}
    for name, source in spec.mix.items():
        of_source = int(w.stream(seed, f"mix {name}").integers(2**63))
        workload = _from_source(_with_arrivals(source, spec), max_model_len, of_source)
        parts[name] = w.Part(workload, source.priority)
    if spec.arrivals is None:
        return w.overlaid(parts, spec.requests)
    assert spec.requests  # by the schema
    return w.mixed(
        parts,
        {name: source.share or 0 for name, source in spec.mix.items()},
        num_requests=spec.requests,
        arrivals=spec.arrivals.build(),
        seed=seed,
    )


def _with_arrivals(source: MixedSourceSpec, spec: WorkloadSpec) -> MixedSourceSpec:
    """Where the mix has arrivals: with as many requests as it may need, at times of no account."""
    if source.trace is not None or spec.arrivals is None:
        return source
    return source.model_copy(update={"requests": spec.requests, "arrivals": spec.arrivals})


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
