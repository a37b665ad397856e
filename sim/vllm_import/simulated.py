"""What vLLM would have counted of a simulated run, from the folder that the run left."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from sim.csv_rows import read_rows
from sim.errors import UserError
from sim.run_folder import check_run, read_summary
from sim.scenario.yaml_text import parse, read_text
from workloads.checks import listed

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SimulatedRun:
    """One system at one point: requests that have finished, of all seeds, and rows of summary.csv.

    Each request has one output.
    """

    name: str
    system: str
    requests: pd.DataFrame
    summary: pd.DataFrame

    @property
    def num_seeds(self) -> int:
        """Replications in it."""
        return len(self.summary)

    def column(self, name: str) -> Values:
        """One number of each request."""
        return np.asarray(self.requests[name], dtype=np.float64)

    def between(self, first: str, last: str) -> Values:
        """Seconds from one moment of each request to another."""
        return (self.column(last) - self.column(first)) / 1e9

    def tpot_s(self) -> Values:
        """Of each request; 0 for a single token, as vLLM counts it."""
        num_gaps = np.maximum(self.column("output_tokens") - 1, 1)
        return self.between("first_token_ns", "finished_ns") / num_gaps


# By the name in the scrape. The gaps between tokens are in summary.csv alone.
VALUES: dict[str, Callable[[SimulatedRun], Values]] = {
    "vllm:time_to_first_token_seconds": lambda run: run.between("arrival_ns", "first_token_ns"),
    "vllm:request_time_per_output_token_seconds": SimulatedRun.tpot_s,
    "vllm:e2e_request_latency_seconds": lambda run: run.between("arrival_ns", "finished_ns"),
    "vllm:request_queue_time_seconds": lambda run: run.between("arrival_ns", "admitted_ns"),
    "vllm:request_prefill_time_seconds": lambda run: run.between("admitted_ns", "first_token_ns"),
    "vllm:request_decode_time_seconds": lambda run: run.between("first_token_ns", "finished_ns"),
    "vllm:request_inference_time_seconds": lambda run: run.between("admitted_ns", "finished_ns"),
    "vllm:request_prompt_tokens": lambda run: run.column("prompt_tokens"),
    "vllm:request_generation_tokens": lambda run: run.column("output_tokens"),
}


def read_run(folder: Path, system: str | None) -> SimulatedRun:
    """The one system, or that of this name, of a run without a sweep.

    Raises UserError for a folder that is no run, for several systems without a name, for more than
    one point of a sweep, and for requests of several outputs.
    """
    check_run(folder)
    summary = read_summary(folder)
    try:
        requests = read_rows(folder / "requests.csv")
        labels = list(requests.columns[1 : requests.columns.get_loc("seed")])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder / 'requests.csv'}: {str(error).splitlines()[0]}") from None
    _refuse_sweep(folder, summary, labels)
    _refuse_several_outputs(folder)
    names = list(dict.fromkeys(summary["system"]))
    if system is None and len(names) > 1:
        raise UserError(f"{folder}: has the systems {listed(names)}; choose one by --system")
    chosen = names[0] if system is None else system
    if chosen not in names:
        raise UserError(f"--system {chosen}: {folder} has {listed(names)}")
    of_system = requests[(requests["system"] == chosen) & requests["finished_ns"].notna()]
    if of_system.empty:
        raise UserError(f"{folder}: no request of {chosen} has finished")
    rows = summary[summary["system"] == chosen]
    return SimulatedRun(str(folder), chosen, of_system, rows)


def _refuse_sweep(folder: Path, summary: pd.DataFrame, labels: list[str]) -> None:
    swept = [name for name in labels if summary[name].nunique(dropna=False) > 1]
    if swept:
        num_points = len(summary[labels].drop_duplicates())
        raise UserError(
            f"{folder}: has {num_points} points of a sweep of {listed(swept)}, expected one: run "
            f"it with --set {swept[0]}=..."
        )


def _refuse_several_outputs(folder: Path) -> None:
    """vLLM counts each output as a request of its own; those of a run are known only together."""
    path = folder / "scenario.yaml"
    refuse_several_outputs(int(parse(read_text(path), str(path))["workload"].get("n", 1)), path)


def refuse_several_outputs(num: int, where: object) -> None:
    """Raises UserError for more than one output a request, naming where that is said."""
    if num > 1:
        raise UserError(
            f"{where}: workload.n: got {num}, expected 1: vLLM counts each output alone"
        )
