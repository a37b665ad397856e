"""A GPU as its data sheet describes it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One GPU.

    name: its key in the catalogue.
    source: where the figures are from.
    peak_flop_per_s: dense (no sparsity) peak by type of arithmetic: bf16, which stands for
        fp16 too (and for it alone on GPUs without bf16), fp8, fp32.
    memory_bytes: what a process sees of it (cudaMemGetInfo, PyTorch's total_memory).
    interconnect_bytes_per_s: to the other GPUs of the machine, in one direction.
    """

    name: str
    title: str
    source: str
    peak_flop_per_s: dict[str, float]
    memory_bytes: float
    bandwidth_bytes_per_s: float
    interconnect: str
    interconnect_bytes_per_s: float

    def peak(self, arithmetic: str) -> float:
        """Peak FLOP/s in bf16, fp8 or fp32; bf16 where the GPU does not know fp8."""
        return self.peak_flop_per_s.get(arithmetic, self.peak_flop_per_s["bf16"])
