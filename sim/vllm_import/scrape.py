"""What a vLLM counted, since it was started or between two scrapes."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from sim.errors import UserError
from sim.vllm_import.exposition import Sample, counted, named, read_samples
from sim.vllm_import.histogram import Histogram
from workloads.checks import listed
from workloads.source import Source

_COUNTERS = ("_total", "_bucket", "_sum", "_count")
_START = "process_start_time_seconds"


@dataclass(frozen=True)
class Scrape:
    """name: of the file. samples: of vLLM. duration_s: of the counting, where the files tell it."""

    name: str
    samples: tuple[Sample, ...]
    duration_s: float | None

    @property
    def models(self) -> list[str]:
        """Names under which it serves."""
        return sorted({s.labels["model_name"] for s in self.samples if "model_name" in s.labels})

    @property
    def num_engines(self) -> int:
        """Engines that share the load."""
        engines = {s.labels["engine"] for s in self.samples if "engine" in s.labels}
        return max(len(engines), 1)

    @cached_property
    def is_v1(self) -> bool:
        """Whether the engine is V1: it labels its metrics with the number of the engine, or, before
        it did, counted queries of the prefix cache, of which V0 has but the rate of hits."""
        is_labelled = any("engine" in sample.labels for sample in self.samples)
        return is_labelled or self.total("vllm:gpu_prefix_cache_queries_total") is not None

    def of_system(self, system: str) -> "Scrape":
        """The samples of a system, of those that `kvsim run --format prometheus` has printed.

        A vLLM does not label its samples with one: they are all there.
        """
        samples = (s for s in self.samples if s.labels.get("system", system) == system)
        return replace(self, samples=tuple(samples))

    def total(self, *names: str) -> float | None:
        """Of a counter by the first of its names that is there; None where none is."""
        for name in names:
            if found := named(self.samples, name):
                return math.fsum(counted(sample, self.name) for sample in found)
        return None

    def histogram(self, *names: str) -> Histogram | None:
        """By the first of its names that has counted something; None where none has.

        Raises UserError for buckets that are not those of a histogram.
        """
        for name in names:
            buckets = named(self.samples, f"{name}_bucket")
            if not buckets:
                continue
            counts = self._counts(name, buckets)
            total = self.total(f"{name}_sum")
            if total is None:
                raise UserError(f"{self.name}: {name}_sum: missing beside {name}_bucket")
            if counts[math.inf] > 0:
                bounds = tuple(sorted(counts))
                return Histogram(name, bounds, tuple(counts[bound] for bound in bounds), total)
        return None

    def _counts(self, name: str, buckets: list[Sample]) -> dict[float, float]:
        """Counts up to each bound, of all engines together."""
        series: dict[object, dict[float, Sample]] = {}
        for sample in buckets:
            key = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
            series.setdefault(key, {})[self._bound(sample)] = sample
        counts: dict[float, float] = {}
        for of_series in series.values():
            first = buckets[0].line
            if math.inf not in of_series:
                raise UserError(
                    f'{self.name}: line {first}: {name}_bucket has no le="+Inf", expected one'
                )
            if counts and counts.keys() != of_series.keys():
                raise UserError(f"{self.name}: {name}_bucket: engines differ in their bounds")
            below = 0.0
            for bound in sorted(of_series):
                value = counted(of_series[bound], self.name)
                if value < below:
                    raise UserError(
                        f"{self.name}: line {of_series[bound].line}: {name}_bucket: got {value:g}, "
                        f"expected at least the {below:g} of a lower bound"
                    )
                below = value
                counts[bound] = counts.get(bound, 0.0) + value
        return counts

    def _bound(self, sample: Sample) -> float:
        try:
            bound = float(sample.labels.get("le", ""))
        except ValueError:
            bound = math.nan
        if math.isnan(bound):
            raise UserError(
                f"{self.name}: line {sample.line}: {sample.name}: got le="
                f"{sample.labels.get('le')!r}, expected a number"
            )
        return bound

    @property
    def num_requests(self) -> float:
        """That have ended."""
        total = self.total("vllm:request_success_total")
        return (
            self.total("vllm:e2e_request_latency_seconds_count") or 0.0 if total is None else total
        )

    @property
    def prefix_hit_share(self) -> float | None:
        """Of the tokens that were looked for in the prefix cache; None where none were."""
        queries, hits = (
            self.total(f"vllm:prefix_cache_{what}_total", f"vllm:gpu_prefix_cache_{what}_total")
            for what in ("queries", "hits")
        )
        return hits / queries if queries and hits is not None else None

    @cached_property
    def cache_config(self) -> list[Sample]:
        """One of each engine; its settings are the labels."""
        return named(self.samples, "vllm:cache_config_info")


def read_scrape(
    source: Source, earlier: Source | None = None, seconds: float | None = None
) -> Scrape:
    """All that was counted, or, with an earlier scrape of the same server, what was since then.

    seconds: for how long, where the files have no times.

    Raises UserError for what is no scrape of one model, and for counters that were set back.
    """
    samples = read_samples(source)
    if earlier is None:
        return _checked(Scrape(source.name, tuple(samples), seconds or _since_start_s(samples)))
    before = read_samples(earlier)
    since = {sample.key: sample for sample in before}
    _refuse_another_start(source, samples, earlier, before)
    differences = tuple(
        _less(sample, since.get(sample.key), source.name, earlier.name) for sample in samples
    )
    return _checked(Scrape(source.name, differences, seconds or _between_s(samples, before)))


def _checked(scrape: Scrape) -> Scrape:
    if len(scrape.models) > 1:
        raise UserError(
            f"{scrape.name}: {len(scrape.models)} models ({listed(scrape.models)}), expected a "
            "scrape of one"
        )
    return scrape


def _less(sample: Sample, before: Sample | None, name: str, earlier: str) -> Sample:
    if before is None or not sample.name.endswith(_COUNTERS):
        return sample
    value, value_before = counted(sample, name), counted(before, earlier)
    if value < value_before:
        raise UserError(
            f"{name}: line {sample.line}: {sample.name}: got {value:g}, less than the "
            f"{value_before:g} of {earlier}, line {before.line}; expected a later scrape of the "
            "same start of the server"
        )
    return Sample(
        sample.name, sample.labels, value - value_before, sample.line, sample.timestamp_ms
    )


def _refuse_another_start(
    source: Source, samples: list[Sample], earlier: Source, before: list[Sample]
) -> None:
    starts = [named(each, _START) for each in (samples, before)]
    values = [{sample.value for sample in each} for each in starts]
    if all(starts) and values[0].isdisjoint(values[1]):
        raise UserError(
            f"{source.name}: line {starts[0][0].line}: {_START}: got {starts[0][0].value:g}, not "
            f"the {starts[1][0].value:g} of {earlier.name}: the server was started again between"
        )


def _time_ms(samples: list[Sample]) -> int | None:
    return max((s.timestamp_ms for s in samples if s.timestamp_ms is not None), default=None)


def _between_s(samples: list[Sample], before: list[Sample]) -> float | None:
    last_ms, first_ms = _time_ms(samples), _time_ms(before)
    return (last_ms - first_ms) / 1e3 if last_ms and first_ms and last_ms > first_ms else None


def _since_start_s(samples: list[Sample]) -> float | None:
    last_ms, starts = _time_ms(samples), named(samples, _START)
    if last_ms is None or not starts:
        return None
    duration_s = last_ms / 1e3 - min(sample.value for sample in starts)
    return duration_s if duration_s > 0 else None
