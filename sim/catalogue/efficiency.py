"""What share of its peaks a GPU reaches, and where that is known from."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Constants of a roofline, all of one GPU.

    source: the data they were fitted on.
    flop, bandwidth: shares of peak FLOP/s and of memory bandwidth that matrix products reach, by
        type of arithmetic: bf16, fp8, fp32.
    attention_flop: share of peak FLOP/s that attention of prefill chunks reaches.
    attention_bandwidth: share of bandwidth at which decodes read K/V in a step of decodes alone.
    mixed_attention_bandwidth: the same beside prefill chunks, whose kernel suits decodes less.
    kernel_s: what every product, norm and other small operator of a layer costs besides, in s.
    attention_s: the same for the attention of a layer.
    allreduce_s: what an all-reduce costs before any byte, in seconds.
    allreduce_bandwidth: share of the interconnect's bandwidth that it reaches.
    """

    source: str
    flop: dict[str, float]
    bandwidth: dict[str, float]
    attention_flop: float
    attention_bandwidth: float
    mixed_attention_bandwidth: float
    kernel_s: float
    attention_s: float
    allreduce_s: float
    allreduce_bandwidth: float

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
