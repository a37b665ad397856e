"""What `kvsim import` and `kvsim diff` do."""

import json
import sys
from pathlib import Path

from sim.progress import busy
from sim.vllm_import.draft import Draft, write_draft
from workloads import read_source


def import_log(file: str, out: Path | None, *, as_json: bool) -> None:
    """Write a scenario of the deployment of a start-up log. Raises UserError and WorkloadError."""
    from sim.vllm_import.from_log import draft_of_log
    from sim.vllm_import.start_log import read_start_log

    source = read_source(file)
    _write(draft_of_log(read_start_log(source), source.name), out, as_json=as_json)


def import_metrics(
    file: str, since: str | None, seconds: float | None, out: Path | None, *, as_json: bool
) -> None:
    """Write a scenario of the load of a scrape. Raises UserError and WorkloadError."""
    from sim.vllm_import.from_metrics import draft_of_metrics
    from sim.vllm_import.scrape import read_scrape

    earlier = read_source(since) if since else None
    scrape = read_scrape(read_source(file), earlier, seconds)
    _write(draft_of_metrics(scrape), out, as_json=as_json)


def _write(draft: Draft, out: Path | None, *, as_json: bool) -> None:
    if out or not as_json:
        write_draft(draft, out)
    if as_json:
        print(json.dumps(draft.as_data(), indent=1))
    for line in draft.about if out else ():  # else they have just been printed
        print(line, file=sys.stderr)
    replaced = [key for key, (_, comment) in draft.values.items() if "REPLACE" in comment]
    if replaced:
        print(f"to be replaced: {', '.join(replaced)}", file=sys.stderr)


def diff(folder: Path, file: str, since: str | None, system: str | None, *, as_json: bool) -> None:
    """Print a run beside what a vLLM counted. Raises UserError and WorkloadError."""
    from sim.vllm_import.diff import compare
    from sim.vllm_import.diff_report import print_comparison, print_json
    from sim.vllm_import.scrape import read_scrape
    from sim.vllm_import.simulated import read_run

    scrape = read_scrape(read_source(file), read_source(since) if since else None)
    with busy(f"reading {folder}"):
        run = read_run(folder, system)
        scrape = scrape.of_system(run.system)
        found = compare(run, scrape)
    (print_json if as_json else print_comparison)(found, run, scrape)
