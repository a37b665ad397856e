"""Fixtures: a generator with a fixed seed, and the shared data where it is at hand."""

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2024)


@pytest.fixture
def data_dir() -> Path:
    folder = os.environ.get("KVSIM_DATA")
    if not folder:
        pytest.skip("KVSIM_DATA is not set: it names the folder with traces/ and quirks/")
    return Path(folder)
