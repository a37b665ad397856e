"""Which beams of a search go on, where nobody computes what they would write."""

import hashlib
from dataclasses import dataclass

from workloads.checks import require_between

_LARGEST = 1 << 32


@dataclass(frozen=True)
class BeamModel:
    """How beams of a search share their ancestors.

    With every token each of the beams goes on from another one, drawn from all of them with equal
    chances (perhaps itself), with probability `switch`; else from itself. With 1 it is the
    Wright-Fisher model of population genetics: any two of k beams had, on average, the same parent
    k tokens ago. With 0 beams never meet again, as parallel samples.

    seed: of the draws, which depend on it, the request and the token alone.

    Raises WorkloadError for a probability that is none.
    """

    switch: float
    seed: int

    def __post_init__(self) -> None:
        require_between("switch", self.switch, 0, 1)

    def parents(self, request_id: object, num_written: int, width: int) -> list[int]:
        """Of each of `width` beams of a request with so many tokens, the one it goes on from."""
        text = f"{self.seed} {request_id} {num_written}"
        draws = hashlib.shake_128(text.encode()).digest(8 * width)
        parents = []
        for beam in range(width):
            chance = int.from_bytes(draws[8 * beam : 8 * beam + 4], "big") / _LARGEST
            place = int.from_bytes(draws[8 * beam + 4 : 8 * beam + 8], "big") * width // _LARGEST
            parents.append(place if chance < self.switch else beam)
        return parents
