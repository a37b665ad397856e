"""`kvsim report`: what it says against the tables, and how it behaves in a browser."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from sim.report.comparison import comparison
from sim.report.extremes import _best as sweep_best
from sim.report.verdict import _best, _refusals, compared
from sim.run_folder import read_summary
from tests.sim.chromium import Opened, chromium, needs_chromium

RATE = "workload.arrivals.poisson.rate"
SCENARIO = """\
name: seen
latency: {kind: constant, step_time_s: 0.01}
engine: {block_size: 4, num_blocks: 24, max_num_seqs: 4, max_model_len: 64}
workload:
  requests: 60
  arrivals: {poisson: {rate: 50}}
  prompts: {shared: {groups: 1, tokens: 8}, unique: 5}
  outputs: {uniform: {low: 2, high: 12}}
systems:
  one by one: {max_num_seqs: 1}
  sharing: {enable_prefix_caching: true}
replications: 3
sweep: {workload.arrivals.poisson.rate: [20, 50]}
"""


@pytest.fixture(scope="module")
def run_folder(kvsim_of_module):
    kvsim = kvsim_of_module
    (kvsim.folder / "seen.yaml").write_text(SCENARIO, "utf-8")
    done = kvsim("run", "seen.yaml", "--quiet", "--report")
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = kvsim.left()
    return kvsim.folder / "runs" / name


@pytest.fixture(scope="module")
def sweep_folder(kvsim_of_module, run_folder):
    kvsim = kvsim_of_module
    settings = ("engine.block_size=4,8", "engine.max_num_batched_tokens=16,32")
    args = [word for setting in settings for word in ("--set", setting)]
    args += ["--set", f"sweep.{RATE}=[50]", "--seeds", "2", "--report"]
    done = kvsim("sweep", "seen.yaml", *args)
    assert done.returncode == 0, done.stderr
    return kvsim.folder / "sweeps" / "seen"


PLAN = """\
name: small
latency: {kind: constant, step_time_s: 0.01}
engine: {max_num_seqs: 1}
workload: {requests: 300, arrivals: {poisson: {rate: 5}}, prompts: {unique: 8}, outputs: 4}
"""


@pytest.fixture(scope="module")
def plan_folder(kvsim_of_module):
    kvsim = kvsim_of_module
    (kvsim.folder / "queue.yaml").write_text(PLAN, "utf-8")
    args = ("--slo", "queueing_mean<0.1s", "--set", "latency.step_time_s=0.01,0.02", "--report")
    seeds = ("--seeds", "3", "--most-seeds", "3", "--no-neighbours", "--quiet")
    done = kvsim("plan", "queue.yaml", *args, *seeds)
    assert (done.returncode, done.stderr) == (0, "")
    return kvsim.folder / "plans" / "small"


@pytest.fixture(scope="module")
def pages(run_folder, sweep_folder, plan_folder):
    folders = {"run": run_folder, "sweep": sweep_folder, "plan": plan_folder}
    return {kind: folder / "report.html" for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def figures_of(html: str) -> dict[str, dict]:
    found = re.findall(r'data-plot="plot-([^"]+)">(.*?)\s*</script>', html, re.DOTALL)
    return {name: json.loads(text) for name, text in found}


def verdict_of(html: str) -> list[str]:
    (section,) = re.findall(r'<section class="verdict">(.*?)</section>', html, re.DOTALL)
    return re.findall(r"<p>(.*?)</p>", section)


def test_verdict_names_the_best_system_and_its_lead_under_the_same_seeds(run_folder):
    """At rate 50 one by one cannot keep up: the other has the higher throughput."""
    summary = read_summary(run_folder)
    at_last = summary[summary[RATE] == 50].set_index("seed")
    slow, fast = (
        at_last.loc[at_last["system"] == name, "output_tokens_per_s"]
        for name in ("one by one", "sharing")
    )
    lead = 100 * (fast - slow).mean() / slow.mean()
    best, _, first, *_ = verdict_of((run_folder / "report.html").read_text("utf-8"))
    assert best.startswith(f"Most output tokens: {fast.mean():.0f} ± ")
    assert ", by sharing at rate 50" in best
    assert first.startswith(f"At the last point: sharing gives the most, {fast.mean():.0f} ± ")
    assert f"rate 50, mean of 3 runs), +{lead:.0f} ± " in first
    assert first.endswith("% against one by one, the next best.")


def test_verdict_says_what_limits_each_system(run_folder):
    lines = verdict_of((run_folder / "report.html").read_text("utf-8"))
    (limit,) = [line for line in lines if line.startswith("What limits one by one: ")]
    assert "wait for a slot" in limit
    assert "max_num_seqs" in limit


def summary_of(*rows) -> pd.DataFrame:
    """system, seed, output tokens/s, mean TTFT in seconds."""
    columns = ["system", "seed", "output_tokens_per_s", "ttft_mean_s"]
    return pd.DataFrame(rows, columns=columns).assign(tpot_mean_s=0.01)


def test_equal_throughput_is_decided_by_the_first_tokens():
    """0.2 s of 0.605 in the mean: -67 %. 0.2 s is 1.653 ms off from what 0.61 and 0.6 s would be at
    that ratio, up and down: 12.7 x 1.653 ms are 3.5 % of 0.605 s.
    """
    told = summary_of(
        ("a", 1, 100, 0.61), ("a", 2, 100, 0.6), ("b", 1, 101, 0.2), ("b", 2, 101, 0.2)
    )
    assert _best(told, "here") == (
        "b gives the earliest first tokens, after 200 ms in the mean (here, with equal "
        "throughput), "
        "-67 ± 4 % against a, the next best."
    )
    unsure = summary_of(
        ("a", 1, 100, 0.5), ("a", 2, 100, 0.7), ("b", 1, 100, 0.2), ("b", 2, 100, 0.3)
    )
    assert _best(unsure, "here").endswith("; the runs do not tell it from a.")


def test_systems_are_compared_where_both_serve_somebody():
    """At key 1 b serves nobody with seed 2; at key 2 it takes half of the time: 0.2 s of 0.4."""
    rows = [
        (system, key, seed, 100, ttft_s, 0.01)
        for key, of_systems in ((1, (0.1, 0.9)), (2, (0.4, 0.2)))
        for system, ttft_s in zip("ab", of_systems, strict=True)
        for seed in (1, 2)
    ]
    columns = ["system", "key", "seed", "output_tokens_per_s", "ttft_mean_s", "tpot_mean_s"]
    frame = pd.DataFrame(rows, columns=columns).assign(refused=0)
    where = (frame["system"] == "b") & (frame["key"] == 1) & (frame["seed"] == 2)
    frame.loc[where, columns[3:]] = None
    (line,) = compared(frame, ", in the mean of all points")
    assert line.startswith(
        "b against a, on the same requests, in the mean of all points but 1, where one of them "
        "serves nobody: output tokens/s 0 ± 0 %, mean TTFT -50 ± 0 %"
    )


def test_what_is_refused_is_said_and_the_others_are_not_the_same_requests():
    rows = summary_of(("a", 1, 100, 0.5), ("b", 1, 50, 0.5)).assign(requests=10, refused=[0, 3])
    assert list(_refusals(rows)) == ["b refuses 3 of 10 requests."]
    (line,) = compared(rows)
    assert line.startswith("b against a, each over the requests that it serves: ")


def test_systems_that_are_equal_are_all_named():
    rows = summary_of(("a", 1, 100, 0.2), ("b", 1, 100, 0.2), ("c", 1, 100, 0.4))
    assert _best(rows, "here").startswith(
        "a and b all give the earliest first tokens, after 200 ms in the mean (here, with equal "
        "throughput), -50 % against c, the next best"
    )


def test_a_broken_promise_of_all_is_in_the_comparison():
    rows = summary_of(("a", 1, 100, 0.5)).assign(slo_share=0.0, preemptions=0)
    table = comparison(rows)
    assert "SLO\nmet %" in table.headings
    assert "pre-\nempted" not in table.headings


def test_a_sweep_names_no_winner_that_its_runs_do_not_tell():
    rows = [
        ("a", key, seed, value + noise, 0.1, 0.01)
        for key, value in (("x", 100), ("y", 101), ("z", 10))
        for seed, noise in ((1, 0), (2, 5 if key == "y" else -5))
    ]
    columns = ["system", "key", "seed", "output_tokens_per_s", "ttft_p99_s", "tpot_mean_s"]
    frame = pd.DataFrame(rows, columns=columns)
    line = sweep_best(frame, "output_tokens_per_s", "{} a second")
    assert line.startswith("104 ± ")
    assert line.endswith(" a second, by a at key y; of 2 others the runs do not tell it from 1.")


def test_curves_are_the_means_of_the_summary_with_their_intervals(run_folder):
    summary = read_summary(run_folder)
    figure = figures_of((run_folder / "report.html").read_text("utf-8"))["throughput"]
    for trace in figure["data"]:
        rows = summary[summary["system"] == trace["name"]]
        of_rates = [rows.loc[rows[RATE] == x, "output_tokens_per_s"] for x in trace["x"]]
        assert trace["x"] == [20, 50]
        assert trace["y"] == pytest.approx([v.mean() for v in of_rates], rel=1e-3)
        # Student's t for 3 runs: 4.303 standard errors.
        widths = [4.3027 * v.std(ddof=1) / np.sqrt(3) for v in of_rates]
        assert trace["error_y"]["array"] == pytest.approx(widths, rel=1e-3)


def test_the_ledger_adds_up_to_the_pool_at_any_time(run_folder):
    figure = figures_of((run_folder / "report.html").read_text("utf-8"))["ledger"]
    panels = {trace["xaxis"] for trace in figure["data"]}
    assert len(panels) == 2
    for panel in panels:
        shares = [trace["y"] for trace in figure["data"] if trace["xaxis"] == panel]
        assert np.sum(shares, axis=0) == pytest.approx(np.full(len(shares[0]), 100), abs=0.1)


def test_slowest_requests_are_those_of_the_table(run_folder):
    requests = pd.read_csv(run_folder / "requests.csv")
    at_point = requests[(requests[RATE] == 50) & (requests["seed"] == 1)]
    html = (run_folder / "report.html").read_text("utf-8")
    table = html[html.index("The slowest requests") :]
    shown = re.findall(r"<td>(one by one|sharing)</td>\s*<td[^>]*>(\d+)</td>", table)
    for system, rows in at_point.groupby("system"):
        ttft_ns = rows["first_token_ns"] - rows["arrival_ns"]
        expected = rows.loc[ttft_ns.sort_values(ascending=False, kind="stable").index[:10]]
        assert [int(number) for name, number in shown if name == system] == list(
            expected["request"]
        )


def test_the_command_it_names_finds_the_same_run_again(kvsim_of_module, run_folder):
    html = (run_folder / "report.html").read_text("utf-8")
    (command,) = re.findall(r"<pre>kvsim (run [^<]+)</pre>", html)
    done = kvsim_of_module(*command.split())
    assert f"found in runs/{run_folder.name}" in done.stderr


@pytest.mark.slow
def test_equal_folders_have_equal_reports(kvsim_of_module, pages):
    for path in pages.values():
        folder = str(path.parent.relative_to(kvsim_of_module.folder))
        assert kvsim_of_module("report", folder, "--out", "again.html").returncode == 0
        assert (kvsim_of_module.folder / "again.html").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nowhere",), "nowhere: is no folder that"),
        ((".",), "is no folder that `kvsim run`, `sweep` or `plan` has left"),
        (("RUN", "--out", "x.pdf"), "--out: got 'x.pdf', expected a name ending in .html"),
    ],
)
def test_mistakes_are_one_line(kvsim_of_module, run_folder, args, words):
    args = [f"runs/{run_folder.name}" if arg == "RUN" else arg for arg in args]
    done = kvsim_of_module("report", *args)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert words in line


def test_what_is_read_from_files_is_text_and_never_markup(kvsim):
    """The name of a trace is shown in the settings, and in a script as data."""
    name = "<script>alert(1)<"
    rows = ["arrived_at,num_prefill_tokens,num_decode_tokens", "0,8,4", "1,8,4"]
    (kvsim.folder / f"{name}.csv").write_text("\n".join(rows) + "\n", "utf-8")
    scenario = f"name: x\nworkload: {{trace: '{name}.csv'}}\nlatency: roofline\n"
    (kvsim.folder / "x.yaml").write_text(scenario, "utf-8")
    done = kvsim("run", "x.yaml", "--report", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    (folder,) = kvsim.left()
    html = (kvsim.folder / "runs" / folder / "report.html").read_text("utf-8")
    assert "&lt;script&gt;alert(1)&lt;.csv" in html
    assert "<script>alert" not in html


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "sweep", "plan"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_draws_all_its_figures_without_a_mistake_or_the_network(browser, pages, kind, scheme):
    opened = Opened(browser, pages[kind], color_scheme=scheme)
    assert opened.mistakes == []
    assert {url.partition(":")[0] for url in opened.asked} <= {"file", "data", "blob"}
    plots = opened.page.locator(".plot")
    drawn = plots.evaluate_all(
        "all => all.map(p => p.querySelectorAll('.scatterlayer .trace, .barlayer .trace, "
        ".heatmaplayer image').length)"
    )
    assert len(drawn) == len(figures_of(pages[kind].read_text("utf-8")))
    assert all(drawn)


@needs_chromium
@pytest.mark.slow
def test_text_of_figures_follows_the_colours_of_the_page(browser, pages):
    shades = {}
    for scheme in ("light", "dark"):
        page = Opened(browser, pages["run"], color_scheme=scheme).page
        page.wait_for_function("document.querySelector('.plot').layout.font?.color")
        colours = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, "
            "getComputedStyle(document.querySelector('.plot .xtick text')).fill]"
        )
        shades[scheme] = [sum(map(int, re.findall(r"\d+", c)[:3])) for c in colours]
    (light, light_text), (dark, dark_text) = shades["light"], shades["dark"]
    assert min(light, dark_text) > 600
    assert max(dark, light_text) < 200


@needs_chromium
@pytest.mark.slow
def test_a_click_in_the_legend_hides_a_system_in_all_panels(browser, pages):
    page = Opened(browser, pages["run"]).page
    visible = "document.getElementById('plot-latency')._fullData.map(t => t.name + t.visible)"
    assert len(page.evaluate(visible)) == 12
    page.locator("#plot-latency .legendtoggle").first.click()
    page.wait_for_function(f"{visible}.some(t => t.includes('legendonly'))")
    assert set(page.evaluate(visible)) == {"one by onelegendonly", "sharingtrue"}


@needs_chromium
@pytest.mark.slow
def test_a_click_on_a_heading_sorts_by_numbers_and_another_turns_it_round(browser, pages):
    page = Opened(browser, pages["run"]).page
    heading = page.locator("#comparison th", has_text="tokens/s")
    column = heading.evaluate("th => th.cellIndex")
    shown = (
        "[...document.querySelectorAll('#comparison tbody tr')]"
        f".map(tr => parseFloat(tr.cells[{column}].textContent))"
    )
    before = page.evaluate(shown)
    heading.locator("button").click()
    assert page.evaluate(shown) == sorted(before)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert page.evaluate(shown) == sorted(before, reverse=True)


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "sweep", "plan"])
def test_page_is_as_wide_as_a_phone(browser, pages, kind):
    """Only tables scroll sideways; a legend of several lines covers no title."""
    page = Opened(browser, pages[kind], width=360).page
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    overlaps = page.evaluate(
        """[...document.querySelectorAll('.plot')].filter(plot => {
          const legend = plot.querySelector('.legend')?.getBoundingClientRect();
          const title = plot.querySelector('.annotation')?.getBoundingClientRect();
          return legend && title && legend.bottom > title.top + 2;
        }).map(plot => plot.id)"""
    )
    assert overlaps == []


@needs_chromium
@pytest.mark.slow
def test_page_prints_dark_on_white_without_navigation(browser, pages):
    page = Opened(browser, pages["run"], color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(300)
    colours = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, "
        "getComputedStyle(document.querySelector('.plot .xtick text')).fill, "
        "getComputedStyle(document.querySelector('nav')).display]"
    )
    assert colours == ["rgb(255, 255, 255)", "rgb(0, 0, 0)", "none"]
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.slow
def test_the_report_of_a_plan_says_what_the_command_said(plan_folder):
    found = json.loads((plan_folder / "plan.json").read_text("utf-8"))
    html = (plan_folder / "report.html").read_text("utf-8")
    first, *_ = verdict_of(html)
    assert first.endswith(f"highest rate that keeps every promise: {found['words'][1][-15:]}.")
    assert f"{found['best']['answer']:.3g} requests/s" in first
    assert re.search(
        r"<pre>kvsim plan queue\.yaml --slo 'queueing_mean&lt;0\.1s' ", html.replace("&#39;", "'")
    )


@pytest.mark.slow
def test_the_curve_of_a_plan_is_that_of_its_runs_up_to_three_limits(plan_folder):
    runs = pd.read_csv(plan_folder / "curve.csv")
    best = runs[runs["latency.step_time_s"] == 0.01]
    figure = figures_of((plan_folder / "report.html").read_text("utf-8"))["curve"]
    (trace,) = figure["data"]
    means = best.groupby("rate")["ratio queueing_mean<0.1s"].mean().clip(upper=3)
    assert trace["x"] == pytest.approx(list(means.index), rel=1e-3)
    assert trace["y"] == pytest.approx(means.to_list(), rel=1e-3)
