"""The workload of a scenario: from a trace, rows of one, distributions, or several of these."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import workloads as w
from sim.scenario import Scenario
from sim.scenario.workload import SourceSpec, WorkloadSpec
from sim.token_counts import token_counter
from workloads.readers import companions

Stamp = tuple[int, int]  # when a file was changed, in ns, and its bytes


def build_workload(scenario: Scenario) -> w.Workload:
    """The requests of a scenario: the same for each of its systems.

    Raises WorkloadError for a file that cannot be read.
    """
    spec, seed = scenario.workload, scenario.seed
    arrivals = spec.arrivals.build() if spec.arrivals else None
    setting = _Setting(arrivals, spec.requests, scenario.engine.max_model_len, seed)
    if spec.mix:
        return _mixed(spec, setting)
    workload = _from_source(spec, setting)
    if not spec.classes:
        return workload
    return w.classified(workload, {name: c.build() for name, c in spec.classes.items()}, seed)


@dataclass(frozen=True)
class _Setting:
    """What a source is built with, beside what it says itself."""

    arrivals: w.Arrivals | w.ClosedLoop | None
    requests: int | None
    max_model_len: int
    seed: int


def _from_source(spec: SourceSpec, setting: _Setting) -> w.Workload:
    if spec.trace is not None:
        return _replayed(spec, setting, _trace(spec))
    if spec.resample is not None:
        return _resampled(spec, setting)
    return _synthetic(spec, setting)


def _trace(spec: SourceSpec) -> w.Trace:
    assert spec.trace
    paths = [Path(spec.trace), *companions(Path(spec.trace))]
    if spec.tokenizer:
        paths.append(Path(spec.tokenizer))
    return _read_trace(spec.trace, spec.format, spec.tokenizer, tuple(map(_stamp, paths)))


@lru_cache(maxsize=2)  # a plan asks a hundred times for the same, and to count tokens takes minutes
def _read_trace(
    path: str, format: str | None, tokenizer: str | None, stamps: tuple[Stamp | None, ...]
) -> w.Trace:
    """stamps: of all files that are read, so that one that has changed is read again."""
    count_tokens = token_counter(tokenizer) if tokenizer else None
    return w.read_trace(w.read_source(path), format, count_tokens)


def _stamp(path: Path) -> Stamp | None:
    """None where there is no such file, as reading it will say."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _replayed(spec: SourceSpec, setting: _Setting, trace: w.Trace) -> w.Workload:
    return w.workload_from_trace(
        trace,
        max_new_tokens=spec.max_new_tokens,
        max_model_len=setting.max_model_len,
        limit=setting.requests,
        arrivals=setting.arrivals,
        shape=spec.shape.build() if spec.shape else None,
        seed=setting.seed,
    )


def _resampled(spec: SourceSpec, setting: _Setting) -> w.Workload:
    assert spec.resample
    assert setting.requests  # by the schema
    assert setting.arrivals
    return w.resampled(
        w.read_sharing_rows(spec.resample),
        num_requests=setting.requests,
        seed=setting.seed,
        arrivals=setting.arrivals,
        max_new_tokens=spec.max_new_tokens,
        max_model_len=setting.max_model_len,
    )


def _synthetic(spec: SourceSpec, setting: _Setting) -> w.Workload:
    full = spec.with_preset()
    prompts, outputs = full.prompts, full.outputs
    assert prompts and prompts.unique and outputs  # by the schema
    assert setting.requests
    assert setting.arrivals
    beam_search = spec.beam_search if isinstance(spec, WorkloadSpec) else None
    return w.synthetic(
        num_requests=setting.requests,
        seed=setting.seed,
        arrivals=setting.arrivals,
        unique=prompts.unique.build(),
        outputs=outputs.build(),
        shared=prompts.shared.build() if prompts.shared else None,
        documents=prompts.documents.build() if prompts.documents else None,
        sessions=full.sessions.build() if full.sessions else None,
        num_outputs=spec.n if isinstance(spec, WorkloadSpec) else 1,
        beam_switch=beam_search.switch if beam_search else None,
        max_new_tokens=full.max_new_tokens,
        max_model_len=setting.max_model_len,
    )


def _mixed(spec: WorkloadSpec, setting: _Setting) -> w.Workload:
    """Each source draws from a seed of its own, which does not depend on the others."""
    parts: dict[str, w.Part] = {}
    for name, source in spec.mix.items():
        seed = int(w.stream(setting.seed, f"mix {name}").integers(2**63))
        build = _at_own_times if setting.arrivals is None else _of_shares
        parts[name] = w.Part(build(source, replace(setting, seed=seed)), source.priority)
    try:
        if setting.arrivals is None:
            return w.overlaid(parts, setting.requests)
        assert setting.requests  # by the schema
        shares = {name: source.share or 0 for name, source in spec.mix.items()}
        return w.mixed(
            parts,
            shares,
            num_requests=setting.requests,
            arrivals=setting.arrivals,
            seed=setting.seed,
        )
    except w.WorkloadError as error:
        raise w.WorkloadError(f"workload.mix: {error}") from error


def _at_own_times(source: SourceSpec, setting: _Setting) -> w.Workload:
    arrivals = source.arrivals.build() if source.arrivals else None
    return _from_source(source, replace(setting, arrivals=arrivals, requests=source.requests))


def _of_shares(source: SourceSpec, setting: _Setting) -> w.Workload:
    """As many requests as the mix may need, at times of no account."""
    if source.trace is None:
        return _enough(source, setting)
    trace = _trace(source)
    arrivals = setting.arrivals if trace.arrival_ns is None else None
    return _replayed(source, replace(setting, arrivals=arrivals, requests=source.requests), trace)


def _enough(source: SourceSpec, setting: _Setting) -> w.Workload:
    """Where max_model_len ends sessions early there must be more of them, at most one a request."""
    workload = _from_source(source, setting)
    num = setting.requests
    assert num
    if len(workload) == num:
        return workload
    num_sessions = int(workload.session_numbers[-1]) + 1
    return _from_source(source, replace(setting, requests=-(-num * num // num_sessions)))
