"""What was reproduced, as tables for a terminal and in Markdown."""

from collections.abc import Iterator

from rich.table import Table

from sim.reproduce.outcome import Outcome
from sim.reproduce.paper import Paper
from sim.reproduce.run import Result

_VERDICTS = {True: "inside", False: "OUTSIDE", None: ""}
_HEADINGS = ("series", "at", "metric", "published", "ours", "error", "tolerance", "")
_CHECK_HEADINGS = ("what follows", "published", "ours", "expected", "")


def tables(paper: Paper, results: list[Result], outcomes: list[Outcome]) -> list[Table]:
    """A line for each published value, and one for each thing that follows from several."""
    values = _table(paper.title, _HEADINGS, num_names=3)
    for row in _value_rows(results):
        values.add_row(*row)
    follows = _table("" if results else paper.title, _CHECK_HEADINGS, num_names=1)
    for row in _outcome_rows(outcomes):
        follows.add_row(*row)
    return [table for table in (values, follows) if table.row_count]


def markdown(paper: Paper, name: str, results: list[Result], outcomes: list[Outcome]) -> str:
    """The same as a page. name: of the figure beside it."""
    lines = [f"# {paper.title}", "", paper.source, "", count(results, outcomes), ""]
    if results:
        lines += [f"![ours by published]({name}.png)", ""]
        lines += _pipes(_HEADINGS, _value_rows(results))
    if outcomes:
        lines += ["", *_pipes(_CHECK_HEADINGS, _outcome_rows(outcomes))]
    return "\n".join(lines) + "\n"


def count(results: list[Result], outcomes: list[Outcome]) -> str:
    """How many of the values that have a tolerance are inside."""
    all_verdicts = [*(r.is_inside for r in results), *(o.is_inside for o in outcomes)]
    verdicts = [verdict for verdict in all_verdicts if verdict is not None]
    return f"{verdicts.count(True)} of {len(verdicts)} inside"


def _value_rows(results: list[Result]) -> Iterator[list[str]]:
    for r in results:
        verdict = _VERDICTS[r.is_inside]
        tolerance = "" if r.is_inside is None else _percent(r, r.tolerance, "g")
        yield [
            r.series.title,
            str(r.at),
            r.metric.removesuffix("_s") if not r.metric.endswith("_per_s") else r.metric,
            value(r.metric, r.published),
            value(r.metric, r.ours),
            _percent(r, r.error, "+.1f"),
            tolerance,
            verdict,
        ]


def _outcome_rows(outcomes: list[Outcome]) -> Iterator[list[str]]:
    for name, published, ours, expected, is_inside in outcomes:
        yield [name, published, ours, expected, _VERDICTS[is_inside]]


def _percent(result: Result, error: float, form: str) -> str:
    """Percent of a value, or points of a share."""
    text = format(100 * error, form)
    return ("0" if text in ("+0.0", "-0.0") else text) + (" pt" if result.series.absolute else "%")


def value(metric: str, number: float) -> str:
    """A value of a metric with its unit."""
    if metric.endswith("_share"):
        return f"{number:.1%}"
    if metric.endswith("_per_s") or not metric.endswith("_s"):
        return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
    return f"{number:.3g} s" if number >= 1 else f"{number * 1000:.3g} ms"


def _table(title: str, headings: tuple[str, ...], num_names: int) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="")
    for place, heading in enumerate(headings):
        is_number = num_names <= place < len(headings) - 1
        table.add_column(heading, justify="right" if is_number else "left")
    return table


def _pipes(headings: tuple[str, ...], rows: Iterator[list[str]]) -> list[str]:
    lines = [list(headings), ["---"] * len(headings), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
