"""Means with their intervals, for notebooks."""

import pandas as pd
import pytest

from sim.api import intervals


def test_means_and_intervals_of_each_system_and_point_by_hand():
    """Of 1, 2, 3 the deviation is 1, so the half-width is 4.303 / sqrt(3)."""
    frame = pd.DataFrame(
        {
            "system": ["b"] * 4 + ["a"] * 3,
            "engine.block_size": [16] * 3 + [8] + [16] * 3,
            "seed": [1, 2, 3, 1, 1, 2, 3],
            "ttft_p99_s": [1.0, 2.0, 3.0, 5.0, None, 4.0, 4.0],
        }
    )
    found = intervals(frame, ["ttft_p99_s"])
    assert found["system"].tolist() == ["b", "b", "a"]  # as they came
    assert found["engine.block_size"].tolist() == [16, 8, 16]
    assert found["ttft_p99_s"].tolist() == [2, 5, 4]
    assert found["ttft_p99_s_half_width"].tolist() == pytest.approx(
        [4.3027 / 3**0.5, float("nan"), 0], abs=1e-4, nan_ok=True
    )
