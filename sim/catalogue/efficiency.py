"""What share of its peaks a GPU reaches, and where that is known from."""

from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Any, Self

from sim.catalogue.data import read


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Constants of a roofline, all of one GPU.

    source: the data they were fitted on.
    flop, bandwidth: shares of peak FLOP/s and of memory bandwidth that matrix products reach, by
        type of arithmetic: bf16 and fp8; fp32, measured on no GPU, is taken to be as bf16.
    attention_flop: share of peak FLOP/s that attention of prefill chunks reaches.
    attention_key_s: what attention of a chunk takes at least for each token of its context,
        however few queries it has: a kernel goes through these keys one after the other.
    attention_bandwidth: share of bandwidth at which decodes read K/V in a step of decodes alone.
    mixed_attention_bandwidth: the same beside prefill chunks, whose kernel suits decodes less.
    kernel_s: what every product, norm and other small operator of a layer costs besides, in s.
    attention_s: the same for the attention of a layer in a step of decodes alone.
    prefill_attention_s: the same in a step with prefill chunks.
    allreduce_s: what an all-reduce costs before any byte, in seconds.
    allreduce_bandwidth: share of the interconnect's bandwidth that it reaches.
    """

    source: str
    flop: dict[str, float]
    bandwidth: dict[str, float]
    attention_flop: float
    attention_key_s: float
    attention_bandwidth: float
    mixed_attention_bandwidth: float
    kernel_s: float
    attention_s: float
    prefill_attention_s: float
    allreduce_s: float
    allreduce_bandwidth: float

    def flop_share(self, arithmetic: str) -> float:
        """Of products in bf16, fp8 or fp32."""
        return self.flop.get(arithmetic, self.flop["bf16"])

    def bandwidth_share(self, arithmetic: str) -> float:
        """The same of memory bandwidth."""
        return self.bandwidth.get(arithmetic, self.bandwidth["bf16"])

    def with_flop(self, share: float) -> Self:
        """The same with one share of peak FLOP/s for every operator."""
        return replace(self, flop=dict.fromkeys(self.flop, share), attention_flop=share)

    def with_bandwidth(self, share: float) -> Self:
        """The same with one share of memory bandwidth for every operator."""
        return replace(
            self,
            bandwidth=dict.fromkeys(self.bandwidth, share),
            attention_bandwidth=share,
            mixed_attention_bandwidth=share,
        )


def load_efficiency(hardware: str) -> Efficiency:
    """What a GPU of the catalogue reaches; what was not measured on it as the others do.

    A GPU whose processor is nearly that of one that was measured has the shares of that one, but
    for those of the memory, and of the interconnect where it is another.
    """
    table = read("efficiency")
    others = common_efficiency(hardware)
    measured_as = table["same_processor"].get(hardware, hardware)
    own = dict(table["measured"].get(measured_as, {}))
    if not own:
        return others
    if measured_as != hardware:
        links = read("hardware")
        is_same_link = links[hardware]["interconnect"] == links[measured_as]["interconnect"]
        for name in _OF_MEMORY if is_same_link else (*_OF_MEMORY, "allreduce_bandwidth"):
            own.pop(name, None)
        own["source"] += f", as {measured_as} reaches them; of the memory: {others.source}"
    shares = {name: {**getattr(others, name), **own.get(name, {})} for name in _BY_ARITHMETIC}
    return replace(others, **{**own, **shares})


def common_efficiency(hardware: str) -> Efficiency:
    """What the GPUs that were measured reach: the median of each constant, but for this GPU."""
    table = read("efficiency")
    others = [entry for name, entry in table["measured"].items() if name != hardware]
    constants: dict[str, Any] = {
        name: {kind: _median([one.get(name, {}).get(kind) for one in others]) for kind in _KINDS}
        for name in _BY_ARITHMETIC
    }
    known = {"source", *constants, *table["all"]}
    for name in (field.name for field in fields(Efficiency) if field.name not in known):
        constants[name] = _median([one.get(name) for one in others])
    return Efficiency(source="medians of other GPUs", **table["all"], **constants)


def _median(values: list[float | None]) -> float:
    return float(median(value for value in values if value is not None))


_BY_ARITHMETIC = ("flop", "bandwidth")
_KINDS = ("bf16", "fp8")
_OF_MEMORY = ("bandwidth", "attention_bandwidth", "mixed_attention_bandwidth")
