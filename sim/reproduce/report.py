"""What was reproduced, as tables for a terminal and in Markdown."""

from collections.abc import Iterable, Iterator

from rich.table import Table

from sim.reproduce.outcome import Outcome
from sim.reproduce.paper import Paper
from sim.reproduce.run import Result
from sim.reproduce.words import metric_words, value

_MUCH = 2  # from so large a relative error on it is said as times
_VERDICTS = {True: "inside", False: "OUTSIDE", None: ""}
_HEADINGS = ("series", "at", "metric", "published", "ours", "error", "tolerance", "")
_NUM_NAMES = 3  # of these: series, at, metric
_OTHER_HEADINGS = ("series", "at", "metric, not printed", "ours")
_CHECK_HEADINGS = ("what follows", "published", "ours", "expected", "")


def tables(paper: Paper, results: list[Result], outcomes: list[Outcome]) -> list[tuple[Table, int]]:
    """A line for each published value, and one for each thing that follows from several.

    With each table how many columns say what a row is.
    """
    values = _table(paper.title, _HEADINGS, num_names=_NUM_NAMES)
    printed = [result for result in results if result.is_printed]
    for row in _value_rows(printed):
        values.add_row(*row)
    follows = _table("" if printed else paper.title, _CHECK_HEADINGS, num_names=1)
    for row in _outcome_rows(outcomes):
        follows.add_row(*row)
    return [(table, num) for table, num in ((values, _NUM_NAMES), (follows, 1)) if table.row_count]


def markdown(
    paper: Paper, results: list[Result], outcomes: list[Outcome], figures: dict[str, str]
) -> str:
    """The same as a page, and ours where nothing was printed. figures: files -> what they show."""
    parts = [f"# {paper.title}", paper.source, count(results, outcomes)]
    parts += [f"![{words}]({file})" for file, words in figures.items()]
    printed, others = (
        [r for r in results if r.is_printed is is_printed] for is_printed in (True, False)
    )
    if printed:
        parts.append(_pipes(_HEADINGS, _value_rows(printed)))
    if outcomes:
        parts.append(_pipes(_CHECK_HEADINGS, _outcome_rows(outcomes)))
    if others:
        parts.append(_pipes(_OTHER_HEADINGS, _other_rows(others)))
    return "\n\n".join(parts) + "\n"


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
            metric_words(r.metric),
            value(r.metric, r.published),
            value(r.metric, r.ours),
            _error(r),
            tolerance,
            verdict,
        ]


def _other_rows(results: list[Result]) -> Iterator[list[str]]:
    for r in results:
        yield [r.series.title, str(r.at), metric_words(r.metric), value(r.metric, r.ours)]


def _outcome_rows(outcomes: list[Outcome]) -> Iterator[list[str]]:
    for name, published, ours, expected, is_inside, _ in outcomes:
        yield [name, published, ours, expected, _VERDICTS[is_inside]]


def _error(result: Result) -> str:
    """In percent, as times where that is much, or in points of a share."""
    if not result.series.absolute and result.error > _MUCH:
        return f"{1 + result.error:.2g} times"
    return _percent(result, result.error, "+.1f" if abs(result.error) < 0.1 else "+.0f")


def _percent(result: Result, error: float, form: str) -> str:
    """Percent of a value, or points of a share."""
    text = format(100 * error, form)
    return ("0" if text in ("+0.0", "-0.0") else text) + (" pt" if result.series.absolute else "%")


def _table(title: str, headings: tuple[str, ...], num_names: int) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="")
    for place, heading in enumerate(headings):
        is_number = num_names <= place < len(headings) - 1
        table.add_column(heading, justify="right" if is_number else "left")
    return table


def _pipes(headings: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
