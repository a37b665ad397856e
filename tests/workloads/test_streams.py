"""Streams depend on their seed and name alone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import workloads
from workloads import WorkloadError, stream


def test_same_seed_and_name_give_the_same_numbers() -> None:
    assert (stream(7, "arrivals").random(50) == stream(7, "arrivals").random(50)).all()


def test_making_and_using_another_stream_shifts_nothing() -> None:
    alone = stream(7, "arrivals").random(50)
    stream(7, "groups").random(13)
    arrivals = stream(7, "arrivals")
    stream(7, "prompt lengths").random(5)
    assert (arrivals.random(50) == alone).all()


@pytest.mark.parametrize("other", [(7, "groups"), (8, "arrivals"), (7, "arrival"), (7, "")])
def test_another_name_or_seed_is_uncorrelated(other: tuple[int, str]) -> None:
    """The correlation of n independent pairs has standard error 1 / sqrt(n); z = 4."""
    num = 20_000
    one, two = stream(7, "arrivals").random(num), stream(*other).random(num)
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / num**0.5


def test_streams_do_not_depend_on_pythonhashseed() -> None:
    code = "from workloads import stream; print(stream(3, 'output lengths').random(5).tolist())"
    root = Path(workloads.__file__).parents[1]

    def printed(hash_seed: str) -> str:
        env = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, cwd=root, env=env, capture_output=True, text=True, check=True
        ).stdout

    expected = f"{stream(3, 'output lengths').random(5).tolist()}\n"
    assert [printed("1"), printed("2")] == [expected, expected]


def test_negative_seed_is_a_user_error() -> None:
    with pytest.raises(WorkloadError, match="seed: got -1, expected an integer, 0 or above"):
        stream(-1, "arrivals")
