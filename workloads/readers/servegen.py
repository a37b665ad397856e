"""Rate profiles of ServeGen (github.com/alibaba/ServeGen), from which requests are drawn.

A profile is two files. `chunk-N-trace.csv` has no header; a line is a window: start in seconds,
requests per second, coefficient of variation of the gaps, their distribution (Gamma, Weibull, or
nothing where the rate is 0), its shape and its scale. `chunk-N-dataset.json` beside it, plain or
gzipped, has for the windows from a start on the histograms of `input_tokens` and `output_tokens`:
{tokens: probability}, a Python dict as text.

Described in ServeGen: Workload Characterization and Generation of Large Language Model Serving in
Production, 2025, arXiv 2505.09999.
"""

import ast
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workloads.checks import LARGEST_COUNT, problem
from workloads.files import bad_file, read_text
from workloads.readers.jsonl_table import Field, check_object, read_object
from workloads.readers.times import SECONDS_EXPECTED, seconds_ns
from workloads.source import Source
from workloads.streams import stream
from workloads.trace import Rows, Trace, trace_from_rows
from workloads.workload import Int64Column

SEED = 0  # of all that is drawn: equal files give equal requests

_LAST_WINDOW_NS = 600 * 10**9  # of a profile of one window; ServeGen's are 10 minutes
_MOST_REQUESTS = 10_000_000
_TOLERANCE = 0.01  # of the mean gap, and of the sum of a histogram
_COLUMNS = ("start", "rate", "cv", "distribution", "shape", "scale")
_LOWEST_SHAPE = {"Gamma": 0.01, "Weibull": 0.1}  # below, hardly a draw is as large as the mean
_LENGTHS = ("input_tokens", "output_tokens")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_INTEGER = "(0|[1-9][0-9]{0,9})"
_PAIR = rf"{_INTEGER}\s*:\s*{_INTEGER}(\.[0-9]*)?([eE][-+]?[0-9]+)?"
_DICT = re.compile(rf"\{{\s*({_PAIR}(\s*,\s*{_PAIR})*(\s*,)?\s*)?\}}", re.ASCII)


@dataclass(frozen=True)
class _Window:
    """A line of positive rate. scale_s: as given."""

    line: int
    start_ns: int
    length_ns: int
    rate_per_s: float
    distribution: str
    shape: float
    scale_s: float

    @property
    def given_mean_s(self) -> float:
        """Mean gap by shape and scale."""
        if self.distribution == "Gamma":
            return self.shape * self.scale_s
        return self.scale_s * math.gamma(1 + 1 / self.shape)

    @property
    def is_at_odds(self) -> bool:
        """Whether shape and scale say another rate."""
        return abs(self.given_mean_s * self.rate_per_s - 1) > _TOLERANCE

    def gaps_ns(self, num: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Gaps of the given shape, and scale unless that is at odds with the rate; whole."""
        scale_s = self.scale_s
        if self.is_at_odds:
            scale_s /= self.given_mean_s * self.rate_per_s
        draw = rng.standard_gamma if self.distribution == "Gamma" else rng.weibull
        return np.rint(draw(self.shape, num) * (scale_s * 1e9))

    def times_ns(self, rng: np.random.Generator) -> Int64Column:
        """Arrivals, the first one gap after the start, until the window ends."""
        chunks, last_ns, is_over = [], 0, False
        while not is_over:
            left_ns = self.length_ns - last_ns
            gaps_ns = self.gaps_ns(64 + int(left_ns / 1e9 * self.rate_per_s), rng)
            num_inside = int(np.searchsorted(np.cumsum(gaps_ns), left_ns))
            is_over = num_inside < len(gaps_ns)
            chunks.append(last_ns + np.cumsum(gaps_ns[:num_inside].astype(np.int64)))
            last_ns = int(chunks[-1][-1]) if num_inside else last_ns
        return self.start_ns + np.concatenate(chunks)


class _Histogram(NamedTuple):
    """[k] lengths from 1 and how likely each is. has_zeros: whether 0 was there too."""

    tokens: Int64Column
    probabilities: npt.NDArray[np.float64]
    has_zeros: bool


_Histograms = dict[int, tuple[_Histogram, _Histogram]]  # by start: of prompts, of outputs


def recognises(source: Source) -> bool:
    """Whether the first line, which is no header, is a window."""
    cells = source.columns
    if len(cells) != len(_COLUMNS) or cells[3] not in ("", *_LOWEST_SHAPE):
        return False
    return all(_NUMBER.fullmatch(cell) for cell in (*cells[:3], *cells[4:]))


def read(source: Source) -> Trace:
    """Draw the requests of a profile; notes say how many, and of how many windows.

    A window ends where the next begins, the last is as long as the one before. Gaps have the shape
    that is given, and the scale unless that contradicts the rate (by over 1 %): then the rate
    counts. Lengths are drawn, prompt and output each for itself, from the latest histograms that
    are not empty and start no later than the window; 0 tokens are never drawn.

    Raises WorkloadError for standard input, for a file without its dataset beside it, and for all
    that is wrong in one of the two.
    """
    windows = _windows(source)
    dataset = _dataset(source)
    histograms = _histograms(dataset)
    first_ns = windows[0].start_ns
    if min(histograms) > first_ns:
        expected = f"up to {first_ns / 1e9:g} s, where the rate is above 0 first"
        first = min(histograms) / 1e9
        raise bad_file(dataset.name, [problem("start of the first histogram", first, expected)])
    rng = stream(SEED, "servegen arrivals")
    times = [window.times_ns(rng) for window in windows]
    counts = [len(of_window) for of_window in times]
    if not sum(counts):
        raise bad_file(source.name, ["no requests were drawn, expected some: rates are too low"])
    prompt_tokens, output_tokens = _lengths(windows, counts, histograms)
    rows = Rows(
        time_ns=np.concatenate(times),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        lines=np.repeat([window.line for window in windows], counts).tolist(),
    )
    notes = [
        f"a rate profile: {sum(counts)} requests drawn (seed {SEED}), from {len(windows)} windows "
        "with a rate above 0"
    ]
    if at_odds := sum(window.is_at_odds for window in windows):
        notes.append(
            f"windows whose shape and scale contradict the rate (rate and shape kept): {at_odds}"
        )
    if zeros := sum(one.has_zeros for both in histograms.values() for one in both):
        notes.append(f"histograms with a length of 0, which was left out: {zeros}")
    return trace_from_rows(rows, format="servegen", notes=tuple(notes))


def _windows(source: Source) -> list[_Window]:
    """The windows of positive rate."""
    lines: list[tuple[int, list[str]]] = []
    problems: list[str] = []
    for line, text in enumerate(io.StringIO(source.text, newline=None), 1):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) != len(_COLUMNS):
            problems.append(f"line {line}: got {len(cells)} fields, expected {len(_COLUMNS)}")
            continue
        wrong = _wrong_cells(line, dict(zip(_COLUMNS, cells, strict=True)))
        start_ns = seconds_ns(cells[0])
        before = seconds_ns(lines[-1][1][0]) if lines else None
        if not wrong and before is not None and start_ns is not None and start_ns <= before:
            wrong = [problem(f"line {line}, column start", cells[0], f"above {lines[-1][1][0]}")]
        problems += wrong
        if not wrong:
            lines.append((line, cells))
    if problems:
        raise bad_file(source.name, problems)
    starts_ns = [seconds_ns(cells[0]) or 0 for _, cells in lines]
    lengths_ns = np.diff(starts_ns).tolist()
    lengths_ns.append(lengths_ns[-1] if lengths_ns else _LAST_WINDOW_NS)
    windows = [
        _Window(line, start_ns, length_ns, float(cells[1]), cells[3], *map(float, cells[4:]))
        for (line, cells), start_ns, length_ns in zip(lines, starts_ns, lengths_ns, strict=True)
        if float(cells[1]) > 0
    ]
    expected_requests = sum(window.rate_per_s * window.length_ns / 1e9 for window in windows)
    if not windows:
        raise bad_file(source.name, ["no window with a rate above 0, expected some"])
    if expected_requests > _MOST_REQUESTS:
        problems = [problem("requests", round(expected_requests), f"at most {_MOST_REQUESTS}")]
        raise bad_file(source.name, problems)
    return windows


def _wrong_cells(line: int, cells: Mapping[str, str]) -> list[str]:
    """What is wrong in a line; of one with a rate of 0 only start and rate matter."""
    problems = []
    if seconds_ns(cells["start"]) is None:
        problems.append(problem(f"line {line}, column start", cells["start"], SECONDS_EXPECTED))
    ranges = {"rate": (0.0, 1e6)}
    if not _in(cells["rate"], 0, 0):
        ranges = {"rate": (1e-9, 1e6), "cv": (0.0, 1e6), "scale": (1e-12, 1e12)}
        lowest_shape = _LOWEST_SHAPE.get(cells["distribution"])
        if lowest_shape is None:
            where, expected = f"line {line}, column distribution", " or ".join(_LOWEST_SHAPE)
            problems.append(problem(where, cells["distribution"], expected))
        else:
            ranges["shape"] = (lowest_shape, 1000.0)
    return problems + [
        problem(f"line {line}, column {name}", cells[name], f"a number from {low:g} to {high:g}")
        for name, (low, high) in ranges.items()
        if not _in(cells[name], low, high)
    ]


def _in(cell: str, low: float, high: float) -> bool:
    return _NUMBER.fullmatch(cell) is not None and low <= float(cell) <= high


def _dataset(source: Source) -> Source:
    """The file of histograms that lies beside the profile."""
    path = Path(source.name)
    if not path.is_file():
        expected = "a file on disk, with chunk-N-dataset.json beside it"
        raise bad_file(source.name, [f"a profile of ServeGen, expected {expected}"])
    beside = companions(path)
    if not beside:
        expected = "chunk-N-trace.csv, with chunk-N-dataset.json beside it"
        raise bad_file(source.name, [problem("name", path.name, expected)])
    for dataset in beside:
        if dataset.is_file():
            return Source(str(dataset), read_text(dataset))
    names = " or ".join(dataset.name for dataset in beside)
    raise bad_file(source.name, [f"no histograms of lengths, expected {names} beside"])


def companions(path: Path) -> list[Path]:
    """Where the histograms of a profile of this name may lie, the first that is there counts.

    >>> [path.name for path in companions(Path("chunk-0-trace.csv"))]
    ['chunk-0-dataset.json', 'chunk-0-dataset.json.gz']
    """
    stem = re.fullmatch(r"(.*)-trace\.csv(\.gz)?", path.name)
    if stem is None:
        return []
    return [path.with_name(f"{stem[1]}-dataset.json{end}") for end in ("", ".gz")]


def _histograms(dataset: Source) -> _Histograms:
    """By start in nanoseconds, without those of which one is empty."""
    found: _Histograms = {}
    problems: list[str] = []
    for start, texts in read_object(dataset, {}).items():
        start_ns = seconds_ns(start)
        if start_ns is None:
            problems.append(problem("start", start, "seconds"))
            continue
        if not isinstance(texts, dict):
            problems.append(problem(f"start {start}", texts, "an object"))
            continue
        wrong = check_object(texts, dict.fromkeys(_LENGTHS, Field("text")), f"start {start}")
        both = []
        for name in () if wrong else _LENGTHS:
            histogram = _histogram(texts[name])
            if isinstance(histogram, str):
                wrong.append(problem(f"start {start}, field {name}", texts[name], histogram))
            else:
                both.append(histogram)
        problems += wrong
        if not wrong and all(len(one.tokens) for one in both):
            found[start_ns] = (both[0], both[1])
    if not (found or problems):
        problems.append("no histogram that is not empty, expected some")
    if problems:
        raise bad_file(dataset.name, problems)
    return found


def _histogram(text: str) -> _Histogram | str:
    """The histogram of a text, or what was expected of it; nothing but a plain dict is parsed."""
    if not _DICT.fullmatch(text.strip()):
        return "{tokens: probability, ...}, such as {48: 0.25, 73: 0.75}"
    pairs: dict[int, float] = ast.literal_eval(text.strip())
    if len(pairs) < text.count(":"):
        return "each length once"
    if pairs and abs(sum(pairs.values()) - 1) > _TOLERANCE:
        return f"probabilities that sum to 1, not {sum(pairs.values()):g}"
    if any(tokens > LARGEST_COUNT for tokens in pairs):
        return f"tokens up to {LARGEST_COUNT}"
    kept = {tokens: share for tokens, share in pairs.items() if tokens > 0 and share > 0}
    shares = np.array(list(kept.values()), dtype=np.float64)
    return _Histogram(np.array(list(kept), dtype=np.int64), shares / shares.sum(), 0 in pairs)


def _lengths(
    windows: list[_Window], counts: list[int], histograms: _Histograms
) -> tuple[Int64Column, Int64Column]:
    """Prompt and output of each request, drawn together for windows of the same histograms."""
    starts = sorted(histograms)
    window_starts = [window.start_ns for window in windows]
    places = np.repeat(np.searchsorted(starts, window_starts, side="right") - 1, counts)
    columns = []
    for which, name in enumerate(("servegen prompts", "servegen outputs")):
        rng = stream(SEED, name)
        tokens = np.empty(len(places), dtype=np.int64)
        for place in np.unique(places).tolist():
            histogram = histograms[starts[place]][which]
            mine = places == place
            tokens[mine] = rng.choice(
                histogram.tokens, size=int(mine.sum()), p=histogram.probabilities
            )
        columns.append(tokens)
    return columns[0], columns[1]
