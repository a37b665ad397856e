"""Requests drawn from ServeGen's profiles: a tiny one, what may be wrong, and a published one."""

import gzip
import json
import math
import time
from pathlib import Path

import numpy as np
import pytest

from workloads import Source, Trace, WorkloadError, read_source, read_trace

IDLE = "0,0,0,,0,0"
BUSY = "600,0.5,1,Gamma,1,2"
HISTOGRAM = {"input_tokens": "{48: 0.25, 73: 0.75}", "output_tokens": "{9: 1.0}"}
Z = 5  # standard errors


def write(folder: Path, *lines: str, dataset: object = None) -> Path:
    path = folder / "chunk-3-trace.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    dataset = {"0": HISTOGRAM} if dataset is None else dataset
    (folder / "chunk-3-dataset.json").write_text(json.dumps(dataset))
    return path


def read(path: Path) -> Trace:
    return read_trace(read_source(path))


def error_of(path: Path) -> str:
    with pytest.raises(WorkloadError) as error:
        read_trace(read_source(path), "servegen")
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix(f"{path.parent}/")


def test_a_tiny_profile(tmp_path: Path) -> None:
    """Poisson at 0.5 per second for ten minutes, between idle windows: 300, give or take."""
    trace = read(write(tmp_path, IDLE, BUSY, "1200,0,0,,0,0", "1800,0,0,,0,0"))
    assert trace.format == "servegen"
    assert abs(len(trace) - 300) < Z * math.sqrt(300)
    assert trace.arrival_ns is not None
    assert trace.arrival_ns[0] == 0
    assert (np.diff(trace.arrival_ns) >= 0).all()
    assert trace.arrival_ns[-1] < 600 * 10**9
    assert set(trace.output_tokens.tolist()) == {9}
    assert set(trace.prompt_tokens.tolist()) == {48, 73}
    share = (trace.prompt_tokens == 73).mean()
    assert abs(share - 0.75) < Z * math.sqrt(0.75 * 0.25 / len(trace))
    assert trace.notes == (
        f"a rate profile: {len(trace)} requests drawn (seed 0), from 1 windows with a rate above 0",
    )


def test_equal_files_give_equal_requests(tmp_path: Path) -> None:
    one, two = (read(write(tmp_path, IDLE, BUSY)) for _ in range(2))
    for name in ("arrival_ns", "prompt_tokens", "output_tokens"):
        assert (getattr(one, name) == getattr(two, name)).all()


@pytest.mark.parametrize(
    ("distribution", "shape", "scale", "cv"),
    [
        ("Gamma", 4, 0.025, 0.5),
        ("Gamma", 0.25, 0.4, 2),
        ("Weibull", 0.5, 0.05, math.sqrt(5)),  # mean: scale * 2
        ("Weibull", 2, 0.2 / math.sqrt(math.pi), math.sqrt(4 / math.pi - 1)),
    ],
)
def test_gaps_have_the_distribution(
    tmp_path: Path, distribution: str, shape: float, scale: float, cv: float
) -> None:
    """10 per second for 20,000 seconds, with the coefficient of variation of that shape."""
    trace = read(write(tmp_path, f"0,10,1,{distribution},{shape},{scale}", "20000,0,0,,0,0"))
    assert len(trace.notes) == 1
    assert trace.arrival_ns is not None
    assert abs(len(trace) - 200_000) < Z * cv * math.sqrt(200_000)
    gaps = np.diff(trace.arrival_ns)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


def test_the_rate_counts_where_scale_contradicts_it(tmp_path: Path) -> None:
    """Shape 4 and scale 1 say one in 4 s, not ten a second; the variation is that of shape 4."""
    trace = read(write(tmp_path, "0,10,1,Gamma,4,1", "20000,0,0,,0,0"))
    assert trace.notes[1:] == (
        "windows whose shape and scale contradict the rate (rate and shape kept): 1",
    )
    assert abs(len(trace) - 200_000) < Z * 0.5 * math.sqrt(200_000)


def test_lengths_are_of_the_latest_histogram_that_is_not_empty(tmp_path: Path) -> None:
    """Windows at 0, 600 and 1200; histograms from 0 and 600, and an empty one from 1200."""
    lengths = {
        start: {"input_tokens": f"{{{tokens}: 1}}", "output_tokens": "{0: 0.5, 9: 0.5}"}
        for start, tokens in (("600", 7), ("0", 5))
    }
    lengths["1200"] = {"input_tokens": "{}", "output_tokens": "{}"}
    path = write(tmp_path, *(f"{start},1,1,Gamma,1,1" for start in (0, 600, 1200)), dataset=lengths)
    trace = read(path)
    changes = np.flatnonzero(np.diff(trace.prompt_tokens)) + 1
    assert trace.prompt_tokens[0] == 5
    assert set(trace.prompt_tokens[changes[0] :].tolist()) == {7}
    assert set(trace.output_tokens.tolist()) == {9}
    assert trace.notes[-1] == "histograms with a length of 0, which was left out: 2"


def test_one_window_is_ten_minutes_and_the_last_as_long_as_the_one_before(tmp_path: Path) -> None:
    alone = read(write(tmp_path, "0,10,1,Gamma,1,0.1"))
    assert abs(len(alone) - 6000) < Z * math.sqrt(6000)
    two = read(write(tmp_path, IDLE, "60,10,1,Gamma,1,0.1"))
    assert abs(len(two) - 600) < Z * math.sqrt(600)


@pytest.mark.parametrize("name", ["chunk-3-dataset.json", "chunk-3-dataset.json.gz"])
def test_the_dataset_may_be_gzipped(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, IDLE, BUSY)
    data = (tmp_path / "chunk-3-dataset.json").read_bytes()
    (tmp_path / "chunk-3-dataset.json").unlink()
    (tmp_path / name).write_bytes(gzip.compress(data))
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert len(read(path)) == len(read(path.with_suffix(".csv.gz")))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x,0.5,1,Gamma,1,2", "start: got 'x', expected seconds, a number from 0 to 9e9"),
        ("6e12,0.5,1,Gamma,1,2", "start: got '6e12', expected seconds, a number from 0 to 9e9"),
        ("0,0.5,1,Gamma,1,2", "start: got '0', expected above 0"),
        ("600,nan,1,Gamma,1,2", "rate: got 'nan', expected a number from 1e-09 to 1e+06"),
        ("600,-1,1,Gamma,1,2", "rate: got '-1', expected a number from 1e-09 to 1e+06"),
        ("600,1e-300,1,Gamma,1,2", "rate: got '1e-300', expected a number from 1e-09 to 1e+06"),
        ("600,0.5,x,Gamma,1,2", "cv: got 'x', expected a number from 0 to 1e+06"),
        ("600,0.5,1,,1,2", "distribution: got '', expected Gamma or Weibull"),
        ("600,0.5,1,Pareto,1,2", "distribution: got 'Pareto', expected Gamma or Weibull"),
        ("600,0.5,1,Gamma,0,2", "shape: got '0', expected a number from 0.01 to 1000"),
        ("600,0.5,1,Weibull,0.05,2", "shape: got '0.05', expected a number from 0.1 to 1000"),
        ("600,0.5,1,Gamma,1,0", "scale: got '0', expected a number from 1e-12 to 1e+12"),
    ],
)
def test_bad_cells(tmp_path: Path, line: str, message: str) -> None:
    found = error_of(write(tmp_path, IDLE, line))
    assert found == f"chunk-3-trace.csv: line 2, column {message}"


def test_all_bad_lines_are_in_one_message(tmp_path: Path) -> None:
    found = error_of(write(tmp_path, IDLE, "600,0", "1200,x,1,Gamma,1,2"))
    assert found == (
        "chunk-3-trace.csv: line 2: got 2 fields, expected 6; "
        "line 3, column rate: got 'x', expected a number from 1e-09 to 1e+06"
    )


def test_nothing_to_draw(tmp_path: Path) -> None:
    expected = "chunk-3-trace.csv: no window with a rate above 0, expected some"
    assert error_of(write(tmp_path, IDLE)) == expected
    slow = write(tmp_path, "0,1e-9,1,Gamma,1,1e9")
    assert error_of(slow).endswith("no requests were drawn, expected some: rates are too low")


def test_too_many_to_draw(tmp_path: Path) -> None:
    assert error_of(write(tmp_path, "0,1e6,1,Gamma,1,1e-6")) == (
        "chunk-3-trace.csv: requests: got 600000000, expected at most 10000000"
    )


def with_prompts(text: object) -> dict[str, object]:
    return {"0": {"input_tokens": text, "output_tokens": "{9: 1}"}}


PLAIN = "expected {tokens: probability, ...}, such as {48: 0.25, 73: 0.75}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os')", f"got \"__import__('os')\", {PLAIN}"),
        ("{1: 0.5, 2: [0.5]}", f"got '{{1: 0.5, 2: [0.5]}}', {PLAIN}"),
        ("{1: 0.5", f"got '{{1: 0.5', {PLAIN}"),
        ("{,}", f"got '{{,}}', {PLAIN}"),
        ("{01: 1}", f"got '{{01: 1}}', {PLAIN}"),
        ("{1: 01}", f"got '{{1: 01}}', {PLAIN}"),
        ("{-1: 1}", f"got '{{-1: 1}}', {PLAIN}"),
        ("{1: 0.5}", "got '{1: 0.5}', expected probabilities that sum to 1, not 0.5"),
        ("{1: 1e999}", "got '{1: 1e999}', expected probabilities that sum to 1, not inf"),
        ("{9999999999: 1}", "got '{9999999999: 1}', expected tokens up to 1000000000"),
        (5, "got 5, expected a text"),
    ],
)
def test_bad_histograms(tmp_path: Path, text: object, message: str) -> None:
    """Nothing but a plain dict of integers and numbers is parsed, and nothing is evaluated."""
    found = error_of(write(tmp_path, IDLE, BUSY, dataset=with_prompts(text)))
    assert found == f"chunk-3-dataset.json: start 0, field input_tokens: {message}"


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ([], "top level: got [], expected an object"),
        ({"x": HISTOGRAM}, "start: got 'x', expected seconds"),
        ({"0": 1}, "start 0: got 1, expected an object"),
        ({"0": {"input_tokens": "{}"}}, "start 0: no field output_tokens, got input_tokens"),
        (with_prompts("{}"), "no histogram that is not empty, expected some"),
        (
            {"1200": HISTOGRAM},
            "start of the first histogram: got 1200.0, "
            "expected up to 600 s, where the rate is above 0 first",
        ),
    ],
)
def test_bad_datasets(tmp_path: Path, dataset: object, message: str) -> None:
    found = error_of(write(tmp_path, IDLE, BUSY, dataset=dataset))
    assert found == f"chunk-3-dataset.json: {message}"


def test_no_dataset(tmp_path: Path) -> None:
    path = write(tmp_path, IDLE, BUSY)
    (tmp_path / "chunk-3-dataset.json").unlink()
    assert error_of(path) == (
        "chunk-3-trace.csv: no histograms of lengths, expected "
        "chunk-3-dataset.json or chunk-3-dataset.json.gz beside"
    )


def test_a_name_that_does_not_say_where_the_dataset_is(tmp_path: Path) -> None:
    path = write(tmp_path, IDLE, BUSY).rename(tmp_path / "profile.csv")
    assert error_of(path) == (
        "profile.csv: name: got 'profile.csv', "
        "expected chunk-N-trace.csv, with chunk-N-dataset.json beside it"
    )


def test_standard_input() -> None:
    with pytest.raises(WorkloadError) as error:
        read_trace(Source("standard input", f"{IDLE}\n{BUSY}\n"))
    assert str(error.value) == (
        "standard input: a profile of ServeGen, expected a file on disk, "
        "with chunk-N-dataset.json beside it"
    )


def test_published_profile(data_dir: Path) -> None:
    """73,126 by rate; the variance of a renewal count is cv**2 times its mean, window by window.

    Of 2,016 windows 1,069 are idle. Of the others 747 have a mean gap, by shape and scale, that is
    over 1 % off 1 / rate. Drawn by that the count would be 78,000, and 10,000 of them from a window
    (at 0.175 per second, shape 0.13 and scale 0.45 s) that saw 105.
    """
    path = data_dir / "traces/servegen/chunk-10-trace.csv"
    began = time.perf_counter()
    trace = read(path)
    assert time.perf_counter() - began < 10
    expected, variance = 0.0, 0.0
    for line in path.read_text().splitlines():
        _, rate, _, distribution, shape, _ = line.split(",")
        if distribution == "Gamma":
            cv_squared = 1 / float(shape)
        elif distribution == "Weibull":
            first, second = (math.gamma(1 + m / float(shape)) for m in (1, 2))
            cv_squared = second / first**2 - 1
        else:
            continue
        expected += float(rate) * 600
        variance += float(rate) * 600 * cv_squared
    assert expected == pytest.approx(73_126)
    assert abs(len(trace) - expected) < Z * math.sqrt(variance)
    assert trace.notes == (
        f"a rate profile: {len(trace)} requests drawn (seed 0), "
        "from 947 windows with a rate above 0",
        "windows whose shape and scale contradict the rate (rate and shape kept): 747",
        "histograms with a length of 0, which was left out: 1",
    )
