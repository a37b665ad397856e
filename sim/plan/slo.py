"""Promises of latency as a user writes them: "ttft_p99<1s,tpot_p99<50ms"."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.errors import UserError
from sim.metrics import tpot_ns

FloatArray = npt.NDArray[np.float64]

METRICS = ("ttft", "tpot", "e2e", "queueing")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_FORM = re.compile(
    r"(?P<metric>[a-z0-9]+)(_(?P<statistic>mean|p\d{1,2}(\.\d+)?))?\s*<=?\s*"
    r"(?P<limit>\d+(\.\d*)?|\.\d+)\s*(?P<unit>s|ms|us|x)",
    re.ASCII,
)
_EXAMPLE = "ttft_p99<1s,tpot_p99<50ms, or per request ttft<5x,tpot<80ms"


@dataclass(frozen=True)
class Slo:
    """One promise.

    statistic: `mean` or the percentage of a percentile over the requests of a run; None: of each
        request, so that what counts is the share of requests that keep all of those (goodput).
    limit: in seconds, or in multiples of what the same request takes alone (is_multiple).
    """

    metric: str
    statistic: str | float | None
    limit: float
    is_multiple: bool

    def __str__(self) -> str:
        statistic = self.statistic
        words = statistic if isinstance(statistic, str) else f"p{statistic:g}" if statistic else ""
        unit = "x" if self.is_multiple else "s"
        return f"{self.metric}{'_' if words else ''}{words}<{self.limit:g}{unit}"


def parse_slos(text: str) -> tuple[Slo, ...]:
    """Promises between commas. Raises UserError that names the first that is none."""
    slos = tuple(_parse(part.strip()) for part in text.split(","))
    if len({(slo.metric, slo.statistic, slo.is_multiple) for slo in slos}) < len(slos):
        raise UserError(f"--slo: got {text!r}, expected each promise once")
    return slos


def _parse(text: str) -> Slo:
    found = _FORM.fullmatch(text)
    if found is None:
        raise UserError(f"--slo: got {text!r}, expected such as {_EXAMPLE}")
    if found["metric"] not in METRICS:
        raise UserError(f"--slo: got {found['metric']!r}, expected one of {', '.join(METRICS)}")
    limit, statistic = float(found["limit"]), found["statistic"]
    if not 0 < limit < math.inf:
        raise UserError(f"--slo: got a limit of {found['limit']} in {text!r}, expected one above 0")
    percent: str | float | None = statistic
    if statistic and statistic != "mean":
        percent = float(statistic[1:])
        if not 0 < percent < 100:
            raise UserError(f"--slo: got {statistic} in {text!r}, expected from p1 to p99.9")
    is_multiple = found["unit"] == "x"
    if is_multiple and found["metric"] == "queueing":
        raise UserError(f"--slo: got {text!r}, expected seconds: alone nobody queues")
    return Slo(found["metric"], percent, limit * _UNITS.get(found["unit"], 1.0), is_multiple)


def seconds(requests: pd.DataFrame, num_outputs: int) -> dict[str, FloatArray]:
    """Each metric of each request in seconds; infinite where the request was not served.

    A request of a single token has no TPOT: nan.
    """
    times_ns = {
        name: requests[f"{name}_ns"].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("arrival", "admitted", "first_token", "finished")
    }
    found_ns = {
        "ttft": times_ns["first_token"] - times_ns["arrival"],
        "tpot": tpot_ns(requests, num_outputs),
        "e2e": times_ns["finished"] - times_ns["arrival"],
        "queueing": times_ns["admitted"] - times_ns["arrival"],
    }
    is_lost = np.isnan(times_ns["finished"])
    return {name: np.where(is_lost, np.inf, values / 1e9) for name, values in found_ns.items()}


@dataclass(frozen=True)
class Promises:
    """All promises, and the share of requests that must keep those of each request."""

    slos: tuple[Slo, ...]
    attainment: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.attainment < 1:
            raise UserError(f"attainment: got {self.attainment}, expected a share such as 0.9")

    @property
    def needs_alone(self) -> bool:
        """Whether it must be known what requests take alone."""
        return any(slo.is_multiple for slo in self.slos)

    @property
    def metrics(self) -> list[str]:
        """Those that anything is promised of."""
        return list(dict.fromkeys(slo.metric for slo in self.slos))

    @property
    def names(self) -> list[str]:
        """Of what `ratios` gives."""
        names = [str(slo) for slo in self.slos if slo.statistic is not None]
        each = [str(slo) for slo in self.slos if slo.statistic is None]
        if each:
            names.append(f"{' and '.join(each)} of {self.attainment:.4g} of all requests")
        return names

    def ratios(
        self, loaded: dict[str, FloatArray], alone: dict[str, FloatArray] | None
    ) -> dict[str, float]:
        """How far each promise is used up: 1 is the limit. Of each request: broken by allowed."""
        ratios = {
            str(slo): _statistic(slo, _values(slo, loaded, alone)) / slo.limit
            for slo in self.slos
            if slo.statistic is not None
        }
        if each := self._of_each_request:
            ratios[self.names[-1]] = 1 - _kept(each, loaded, alone)
            ratios[self.names[-1]] /= 1 - self.attainment
        return ratios

    @property
    def _of_each_request(self) -> list[Slo]:
        return [slo for slo in self.slos if slo.statistic is None]

    def broken(
        self, loaded: dict[str, FloatArray], alone: dict[str, FloatArray] | None
    ) -> dict[str, float]:
        """Of each promise of each request, the share of requests that break it."""
        return {str(slo): 1 - _kept([slo], loaded, alone) for slo in self._of_each_request}

    def kept(self, loaded: dict[str, FloatArray], alone: dict[str, FloatArray] | None) -> float:
        """The share of requests that keep every limit, whatever statistic it is meant of."""
        return _kept(self.slos, loaded, alone)


def _kept(
    slos: Iterable[Slo], loaded: dict[str, FloatArray], alone: dict[str, FloatArray] | None
) -> float:
    """The share of requests that keep all of these limits."""
    keeps = np.ones(len(loaded["ttft"]), dtype=np.bool_)
    for slo in slos:
        keeps &= ~(_values(slo, loaded, alone) > slo.limit)  # nan breaks nothing
    return float(keeps.mean())


def _values(
    slo: Slo, loaded: dict[str, FloatArray], alone: dict[str, FloatArray] | None
) -> FloatArray:
    """What a promise is about, of each request: seconds, or multiples."""
    values = loaded[slo.metric]
    if slo.is_multiple:
        assert alone is not None
        values = _multiples(values, alone[slo.metric])
    return values


def _multiples(loaded: FloatArray, alone: FloatArray) -> FloatArray:
    """Of what requests take alone; infinite where one was not served."""
    multiples: FloatArray = np.full_like(loaded, np.inf)
    np.divide(loaded, alone, out=multiples, where=~np.isinf(loaded))
    return multiples


def _statistic(slo: Slo, values: FloatArray) -> float:
    values = values[~np.isnan(values)]
    if not len(values):
        return math.nan
    if not isinstance(slo.statistic, float):
        return float(values.mean())
    ranked = np.sort(values)
    # Nearest rank, in thousandths of a percent: 99.9 is not whole in binary.
    rank = math.ceil(round(slo.statistic * 1000) * len(ranked) / 100_000) - 1
    return float(ranked[max(rank, 0)])
