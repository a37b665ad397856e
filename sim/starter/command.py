"""What `kvsim init` does: write a first scenario, and beside it the schema that it names."""

import os
import sys
from importlib.resources import files
from pathlib import Path

from sim.scenario.json_schema import FILE, MODELINE, schema_text
from sim.scenario.yaml_text import to_yaml
from sim.whole_file import check_suffix, refuse_existing, whole_file
from workloads import Trace, read_source, read_trace


def write_starter(file: Path, trace: Path | None) -> None:
    """Write a scenario to a new file. trace: a file of requests that it replays.

    Raises UserError for a file that is there, and WorkloadError for a trace that cannot be read.
    """
    check_suffix(file, "FILE", (".yaml", ".yml"))
    refuse_existing(file)
    text = starter_text().replace("FILE", str(file))
    if trace is not None:
        text = _with_trace(text, trace, file)
    schema = file.with_name(FILE)
    with whole_file(schema) as path:
        path.write_text(schema_text(), "utf-8")
    with whole_file(file) as path:
        path.write_text(f"{MODELINE.format(path=FILE)}\n{text}", "utf-8")
    print(f"written to {file}, and its schema to {schema}", file=sys.stderr)


def starter_text() -> str:
    """The scenario that comes with kvsim."""
    return files("sim.starter").joinpath("scenario.yaml").read_text("utf-8")


def _with_trace(text: str, path: Path, file: Path) -> str:
    """The same with the requests of a trace, and a context that has room for all of them."""
    trace = read_trace(read_source(str(path)))
    text, _, _ = text.partition("workload:\n")
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    room = max(8192, 1 << (longest - 1).bit_length())
    text = text.replace("max_model_len: 8192", f"max_model_len: {room}")
    return text + to_yaml({"workload": _replayed(trace, path, file)})


def _replayed(trace: Trace, path: Path, file: Path) -> dict[str, object]:
    # A path in a scenario is relative to the folder of its file.
    workload: dict[str, object] = {"trace": os.path.relpath(path, file.absolute().parent)}
    if trace.arrival_ns is None:
        workload["arrivals"] = {"poisson": {"rate": 6}}
    return workload
