"""Metrics and their values as a reader wants them."""

from sim.tables import milliseconds, three_digits

_ABBREVIATIONS = ("ttft", "tpot", "itl", "e2e")
_SHARES = ("_share", "utilisation", "fragmentation")


def metric_words(metric: str) -> str:
    """The name of a metric, without a unit that its values have.

    >>> metric_words("ttft_mean_s"), metric_words("output_tokens_per_s")
    ('TTFT mean', 'output tokens/s')
    """
    if not metric.endswith("_per_s"):
        metric = metric.removesuffix("_s")
    parts = metric.replace("_per_s", "/s").split("_")
    return " ".join(part.upper() if part in _ABBREVIATIONS else part for part in parts)


def is_share(metric: str) -> bool:
    """Whether its values are from 0 to 1, shown in percent."""
    return metric.endswith(_SHARES)


def value(metric: str, number: float) -> str:
    """A value of a metric with its unit."""
    if is_share(metric):
        return f"{number:.1%}"
    if metric.endswith("_per_s") or not metric.endswith("_s"):
        return f"{number:,.0f}" if number >= 1000 else three_digits(number)
    return f"{number:.3g} s" if number >= 1 else f"{milliseconds(number)} ms"
