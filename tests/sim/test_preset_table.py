"""The table of docs/scenario.md that sets presets against real traces is what they give."""

from pathlib import Path

import numpy as np
import pytest

from sim import catalogue
from sim.sources import build_workload
from workloads import Trace, Workload, read_source, read_trace

ROOT = Path(__file__).parents[2]
NUM = 20_000
TRACES = {
    "Azure 2023 conversation": "azure2023/*.csv.gz",
    "6 recorded sessions of a coding agent": "agentic/*.json",
    "arXiv summarisation, Vidur": "vidur/arxiv*.csv.gz",
}


def row_of_page(name: str) -> list[str]:
    (line,) = (
        line
        for line in (ROOT / "docs/scenario.md").read_text("utf-8").splitlines()
        if line.startswith(f"| {name} |")
    )
    return [cell.strip() for cell in line.split("|")[2:-1]]


def cells(*requests: Trace | Workload) -> list[str]:
    found = []
    for column in ("prompt_tokens", "output_tokens"):
        tokens = np.concatenate([getattr(one, column) for one in requests])
        ranked = np.sort(tokens)
        ranks = [-(-len(ranked) * p // 100) - 1 for p in (50, 90, 99)]
        found += [f"{tokens.mean():,.0f}", *(f"{ranked[rank]:,}" for rank in ranks)]
    return found


@pytest.mark.parametrize("name", catalogue.names("workloads"))
def test_presets_give_what_the_table_says(name: str, new_scenario) -> None:
    scenario = new_scenario(
        engine={"max_model_len": catalogue.load_workload(name).max_model_len},
        workload={"preset": name, "requests": NUM, "arrivals": {"poisson": {"rate": 1}}},
    )
    assert cells(build_workload(scenario)) == row_of_page(f"`{name}`")


@pytest.mark.parametrize("name", TRACES)
def test_traces_have_what_the_table_says(name: str, data_dir: Path) -> None:
    paths = sorted((data_dir / "traces").glob(TRACES[name]))
    traces = [read_trace(read_source(str(path))) for path in paths]
    assert cells(*traces) == row_of_page(name)
