"""What `kvsim trace` does: read requests, say what they are, perhaps write them again."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from sim.errors import InterruptedRun, UserError
from sim.progress import busy
from sim.terminal import print_prose, print_table
from sim.token_counts import token_counter
from sim.trace.beside import check_place
from sim.trace.comparison import comparison, misfits
from sim.trace.describe import Arrivals, Description, Lengths, Sharing, describe
from sim.trace.fit import drawn, fit, write
from sim.whole_file import check_suffix, refuse_existing
from workloads import FORMATS, Trace, read_source, read_trace, trace_of_workload
from workloads.readers.own import write_csv, write_jsonl

_BAR = 24  # letters, for all of the prompts
_SCENARIO = "scenario"  # as the format of what was read
_WRITERS = {".csv": write_csv, ".jsonl": write_jsonl}


def show_trace(
    path: str,
    format_name: str | None,
    block_size: int | None,
    convert: Path | None,
    figure: Path | None,
    fit_to: Path | None,
    *,
    tokenizer: Path | None = None,
    as_json: bool,
) -> None:
    """Print what is in a trace; write it in kvsim's own format, and a figure of what it shares.

    path: of a trace, - for standard input, or of a scenario (.yaml), for what it would send.
    fit_to: a new scenario whose workload resembles it. tokenizer: counts the tokens of texts.

    Raises UserError and WorkloadError for mistakes of the user.
    """
    _check_options(block_size, convert, figure, fit_to, as_json=as_json)
    try:
        _show(path, format_name, block_size, convert, figure, fit_to, tokenizer, as_json=as_json)
    except KeyboardInterrupt:
        written = [str(place) for place in (convert, fit_to) if place and place.exists()]
        if not written:
            raise
        raise InterruptedRun(f"interrupted; written: {', '.join(written)}") from None


def _show(
    path: str,
    format_name: str | None,
    block_size: int | None,
    convert: Path | None,
    figure: Path | None,
    fit_to: Path | None,
    tokenizer: Path | None,
    *,
    as_json: bool,
) -> None:
    with busy(f"reading {path}"):
        trace = _requests(path, format_name, tokenizer)
    if convert is not None:
        _convert(trace, convert)
    if fit_to is not None:
        _fit(trace, fit_to)
        if figure is None:
            return
    with busy(f"{len(trace):,} requests: what they share"):
        found = describe(trace, block_size)
    if figure is not None:
        _draw(found, figure)
    if fit_to is not None:
        return
    if as_json:
        print(json.dumps(asdict(found), indent=1))
        return
    print(f"{path}: {_title(found.format)}")
    for line in _lines(found):
        print_prose(line)
    print()
    print_table(_lengths_table(found))
    if found.sharing is None:
        print("what prompts hold is not recorded: they share nothing")
    else:
        _print_sharing(found.sharing)


def _requests(path: str, format_name: str | None, tokenizer: Path | None) -> Trace:
    if Path(path).suffix not in (".yaml", ".yml"):
        count_tokens = token_counter(tokenizer) if tokenizer else None
        return read_trace(read_source(path), format_name, count_tokens)
    from sim.scenario.file import load_scenario
    from sim.sources import build_workload

    for option, given in (("--format", format_name), ("--tokenizer", tokenizer)):
        if given is not None:
            raise UserError(f"{path}: got {option} {given} with a scenario, expected none")
    return trace_of_workload(build_workload(load_scenario(Path(path))), _SCENARIO)


def _title(format_name: str) -> str:
    return "workload of a scenario" if format_name == _SCENARIO else FORMATS[format_name].title


def _check_options(
    block_size: int | None,
    convert: Path | None,
    figure: Path | None,
    fit_to: Path | None,
    *,
    as_json: bool,
) -> None:
    """What is wrong with them is said before the work."""
    if convert is not None:
        check_suffix(convert, "--convert", tuple(_WRITERS))
        refuse_existing(convert)
    for place in (convert, figure):
        if place is not None and not place.parent.is_dir():
            raise UserError(f"{place}: no such folder")
    if figure is not None:
        check_suffix(figure, "--figure", (".png", ".svg"))
    if fit_to is not None:
        check_place(fit_to)
    if fit_to is not None and as_json:
        raise UserError("--fit: got --json beside it, expected one of the two")
    if fit_to is not None and block_size is not None and figure is None:
        raise UserError(f"--fit: got --block-size {block_size} beside it, expected none")


def _convert(trace: Trace, convert: Path) -> None:
    if convert.suffix == ".csv" and trace.segments is not None:
        raise UserError(f"{convert}: CSV has no room for what prompts share, expected .jsonl")
    partial = convert.with_name(f".{convert.name}.partial")
    try:
        _WRITERS[convert.suffix](trace, partial)
        partial.rename(convert)
    except OSError as error:
        raise UserError(f"{convert}: {(error.strerror or str(error)).lower()}") from None
    finally:
        partial.unlink(missing_ok=True)
    print(f"{len(trace)} requests written to {convert}", file=sys.stderr)


def _fit(trace: Trace, fit_to: Path) -> None:
    with busy(f"{len(trace):,} requests: fitting"):
        fitted = fit(trace, fit_to)
    write(fitted, fit_to)
    print(f"workload written to {fit_to}, files that it reads beside it", file=sys.stderr)
    workload = drawn(fit_to)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "trace", "drawn once from the fit"):
        table.add_column(heading, justify="right" if heading else "left")
    rows = list(comparison(trace, trace_of_workload(workload, _SCENARIO)))
    for row in rows:
        table.add_row(*row)
    print_table(table)
    drawn_notes = (f"drawn: {note}" for note in workload.notes)
    for note in (*fitted.notes, *drawn_notes, misfits(rows, len(trace))):
        if note is not None:
            print_prose(note)


def _draw(found: Description, figure: Path) -> None:
    from sim.plots.sharing import hit_curves  # matplotlib, slow to import
    from sim.plots.style import save

    if found.sharing is None or not found.sharing.points:
        raise UserError(f"{figure}: there is nothing to draw, for prompts share nothing")
    save(hit_curves(found.sharing), figure)
    print(f"figure written to {figure}", file=sys.stderr)


def _lines(found: Description) -> list[str]:
    left_out = found.num_rows - found.num_requests
    also = f", {left_out:,} rows left out" if left_out else ""
    lines = [f"{found.num_requests:,} requests{also}"]
    if sessions := found.sessions:
        lines.append(
            f"{sessions.num_sessions:,} sessions of {sessions.mean_turns:.3g} turns, at most "
            f"{sessions.max_turns:,}; {sessions.num_of_one:,} of one"
        )
    arrivals, what = found.arrivals, "sessions" if found.sessions else "requests"
    if arrivals is None:
        lines.append("no times: a scenario must say in `workload.arrivals` when requests come")
    elif arrivals.rate_per_s is None:
        lines.append(f"all {what} at once")
    else:
        lines.append(
            f"{_duration(arrivals.span_s)} from the first to the last, "
            f"{arrivals.rate_per_s:.3g} {what}/s{_gaps(arrivals)}"
        )
    return [*lines, *found.notes]


def _gaps(arrivals: Arrivals) -> str:
    if arrivals.cv is None:
        return ""
    return (
        f"; gaps with a coefficient of variation of {arrivals.cv:.3g} (Poisson: 1), "
        f"{arrivals.num_ties:,} gaps of no time"
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def _lengths_table(found: Description) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("tokens", "mean", "p50", "p90", "p99", "max", "all"):
        table.add_column(heading, justify="left" if heading == "tokens" else "right")
    for name, lengths in (("prompt", found.prompt_tokens), ("output", found.output_tokens)):
        table.add_row(name, *_cells(lengths))
    return table


def _cells(lengths: Lengths) -> list[str]:
    numbers = [*lengths.percentiles.values(), lengths.max, lengths.total]
    return [f"{lengths.mean:,.1f}", *(f"{number:,}" for number in numbers)]


def _print_sharing(sharing: Sharing) -> None:
    print_prose(
        f"{sharing.hit_blocks:,} of {sharing.num_blocks:,} blocks of {sharing.block_size:,} tokens "
        f"were there before: {sharing.block_share:.1%} of the blocks, {sharing.token_share:.1%} of "
        "the prompt tokens"
    )
    if not sharing.points:
        return
    print_prose("what a cache finds of the prompt tokens, by its size and what it loses first:")
    print()
    policies = list(dict.fromkeys(point.policy for point in sharing.points))
    shares = {(point.num_blocks, point.policy): point.token_share for point in sharing.points}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("blocks", "tokens", *(name.upper() for name in policies[:-1]), policies[-1]):
        table.add_column(heading, justify="right")
    table.add_column("LRU, of all", justify="left")
    for size in dict.fromkeys(point.num_blocks for point in sharing.points):
        cells = [f"{shares[size, policy]:.1%}" for policy in policies]
        bar = "█" * round(_BAR * shares[size, policies[0]] / max(sharing.token_share, 1e-9))
        table.add_row(f"{size:,}", f"{size * sharing.block_size:,}", *cells, bar)
    print_table(table)
