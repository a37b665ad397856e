"""The table of steps: one row a step while the run is short, merged rows against a plain loop."""

import random

import numpy as np
import pandas as pd
import pytest

from engine.kv_manager import KVUsage
from sim import step_table
from sim.ledger import UsageArrays
from sim.step_table import StepRows, StepTable

SUMMED = ["duration_ns", "steps", "decodes", "prefill_tokens", "preempted"]
AVERAGED = ["running", "waiting", *KVUsage._fields, "saved"]
COLUMNS = ["start_ns", *SUMMED, *AVERAGED]

Rows = list[dict[str, int]]


def random_rows(rng: random.Random, num_rows: int) -> Rows:
    """Steps and spells of idleness, without gaps."""
    rows, now_ns = [], 0
    for _ in range(num_rows):
        row = {name: rng.randint(0, 50) for name in COLUMNS}
        row["start_ns"] = now_ns
        row["duration_ns"] = rng.choice([1, rng.randint(1, 10**8), rng.randint(1, 10**11)])
        row["steps"] = rng.choice([0, 1, 1, 1])
        rows.append(row)
        now_ns += row["duration_ns"]
    return rows


def step_rows(rows: Rows) -> StepRows:
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in COLUMNS}
    usage = UsageArrays(*(columns.pop(name) for name in UsageArrays._fields))
    return StepRows(**columns, usage=usage)


def table_of(rows: Rows, cuts: list[int]) -> pd.DataFrame:
    """The table after handing in the rows in parts that end at the cuts."""
    table = StepTable()
    for first, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        table.extend(step_rows(rows[first:stop]))
    return table.frame()


def merged(rows: Rows, num_rows: int) -> pd.DataFrame:
    """Every num_rows rows as one: sums, and means over time."""
    groups = [rows[first : first + num_rows] for first in range(0, len(rows), num_rows)]
    table = []
    for group in groups:
        total_ns = sum(row["duration_ns"] for row in group)
        row: dict[str, float] = {"start_ns": group[0]["start_ns"]}
        row |= {name: sum(row[name] for row in group) for name in SUMMED}
        for name in AVERAGED:
            row[name] = sum(row[name] * row["duration_ns"] for row in group) / total_ns
        table.append(row)
    return pd.DataFrame(table, columns=COLUMNS)


@pytest.fixture
def small(monkeypatch):
    """A table of at most 32 rows, to which 8 are added at a time."""
    monkeypatch.setattr(step_table, "MOST_ROWS", 32)
    monkeypatch.setattr(step_table, "_CHUNK", 8)


def test_empty_table_has_all_columns():
    frame = StepTable().frame()
    assert list(frame.columns) == COLUMNS
    assert len(frame) == 0


def test_short_run_has_a_row_for_each_step():
    rows = random_rows(random.Random(1), 500)
    frame = table_of(rows, [3, 3, 200])
    pd.testing.assert_frame_equal(frame, pd.DataFrame(rows)[COLUMNS])


def test_two_steps_of_a_row_by_hand(small):
    """Of 48 rows every two make one: the first of 10 ns with 4 live slots and of 30 ns with 8."""
    rows = [dict.fromkeys(COLUMNS, 0) | {"steps": 1, "duration_ns": 10} for _ in range(48)]
    rows[0] |= {"live": 4, "decodes": 3}
    rows[1] |= {"live": 8, "decodes": 2, "duration_ns": 30}
    frame = table_of(rows, [])
    assert len(frame) == 24
    first = frame.iloc[0]
    assert first[["duration_ns", "steps", "decodes", "live"]].tolist() == [40, 2, 5, 7.0]
    assert frame.iloc[1][["duration_ns", "steps", "decodes", "live"]].tolist() == [20, 2, 0, 0]


@pytest.mark.parametrize(
    ("num_rows", "per_row"),
    [(0, 1), (1, 1), (32, 1), (39, 1), (40, 2), (71, 2), (72, 4), (150, 8), (255, 8), (263, 8)],
)
def test_long_run_has_rows_of_several_steps(small, num_rows, per_row):
    """The table is at most 32 rows and a chunk long; whole chunks alone decide how it is merged."""
    rows = random_rows(random.Random(num_rows), num_rows)
    frame = table_of(rows, [])
    pd.testing.assert_frame_equal(frame, merged(rows, per_row), check_dtype=False, rtol=1e-12)
    assert len(frame) <= 32 + 8


@pytest.mark.parametrize("seed", range(20))
def test_how_the_rows_are_handed_in_does_not_matter(small, seed):
    """To the last bit."""
    rng = random.Random(seed)
    rows = random_rows(rng, rng.randint(1, 200))
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(1, 60)))
    pd.testing.assert_frame_equal(table_of(rows, cuts), table_of(rows, []), check_exact=True)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost(small, seed):
    """Whatever is merged: rows cover all time without a gap, and counts add up."""
    rows = random_rows(random.Random(seed), 150 + seed)
    frame = table_of(rows, [])
    for name in SUMMED:
        assert frame[name].dtype == np.int64
        assert frame[name].sum() == sum(row[name] for row in rows)
    ends = frame["start_ns"] + frame["duration_ns"]
    assert frame["start_ns"].tolist()[1:] == ends.tolist()[:-1]
    integral = (frame["live"] * frame["duration_ns"]).sum()
    assert integral == pytest.approx(sum(row["live"] * row["duration_ns"] for row in rows))
