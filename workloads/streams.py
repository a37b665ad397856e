"""Named streams of random numbers from one seed."""

import numpy as np

from workloads.checks import problem
from workloads.errors import WorkloadError


def stream(seed: int, name: str) -> np.random.Generator:
    """The generator that belongs to this seed and name.

    Streams of different names are independent, and none depends on which others are made or in
    what order: the child's spawn key is the UTF-8 bytes of its name.

    Raises WorkloadError for a negative seed.
    """
    if seed < 0:
        raise WorkloadError(problem("seed", seed, "an integer, 0 or above"))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(name.encode())))
