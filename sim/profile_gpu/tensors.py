"""Random tensors of one device and number type, kernels that may work there, and memory."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from sim.errors import UserError

T = TypeVar("T")

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 4e-2}
_CPU_POOL_BYTES = 4 << 30
_POOL_SHARE = 0.8  # of the free memory of a GPU


@dataclass(frozen=True)
class Tensors:
    """Makes random tensors. Not zeros: a GPU that multiplies zeros runs cooler and faster."""

    device: str
    dtype: torch.dtype

    def normal(self, *shape: int, std: float = 1.0) -> torch.Tensor:
        """Normally distributed numbers [*shape]."""
        return torch.empty(shape, device=self.device, dtype=self.dtype).normal_(0, std)

    def weight(self, *shape: int) -> torch.Tensor:
        """Weights [..., n, k] whose products with normal activations [tokens, k] are normal."""
        return self.normal(*shape, std=shape[-1] ** -0.5)

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """Integers of [0, high) [*shape]."""
        return torch.randint(high, shape, device=self.device)

    @property
    def pool_bytes(self) -> int:
        """How large a KV cache may be here."""
        if self.device == "cpu":
            return _CPU_POOL_BYTES
        torch.cuda.empty_cache()
        return int(_POOL_SHARE * torch.cuda.mem_get_info()[0])


def unless_out_of_memory(function: Callable[[], T]) -> T | None:
    """What the function returns; None where it needs more memory than there is."""
    try:
        return function()
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # of what the function held until the exception was dropped
    return None


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether it is that, or followed from it, as errors of a CUDA graph do."""
    if error is None:
        return False
    is_named = any(text in str(error) for text in _OUT_OF_MEMORY)
    return isinstance(error, MemoryError) or is_named or _is_out_of_memory(error.__context__)


def assert_equal(output: torch.Tensor, expected: torch.Tensor) -> None:
    """Raises AssertionError where numbers differ by more than the rounding of their type."""
    tolerance = _TOLERANCE[output.dtype]
    torch.testing.assert_close(output.float(), expected.float(), atol=tolerance, rtol=tolerance)


def first_that_works(
    what: str, loaders: Sequence[Callable[[], T]], try_out: Callable[[T], Any]
) -> T:
    """The first kernel that can be loaded and that try_out accepts.

    Kernels of other packages fail in ways of their own on devices they were not built for, so
    whatever goes wrong counts, and is told unless the package is just not there. Raises UserError
    when none works.
    """
    for loader in loaders:
        try:
            kernel = loader()
            try_out(kernel)
        except ModuleNotFoundError:
            continue
        except Exception as error:  # see above
            reason = " ".join(str(error).split())[:200]
            print(f"{what}: {loader.__name__} does not work here: {reason}", file=sys.stderr)
            continue
        return kernel
    raise UserError(f"{what}: no kernel that is installed works on this device")
