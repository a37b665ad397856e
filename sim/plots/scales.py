"""How far figures show what they show, with or without matplotlib."""

MOST_OF_LIMIT = 3.0  # of a promise: beyond, it is broken however far
WIDE = 8  # highest by lowest value from which an axis is logarithmic
LEAST_LABELLED_PERCENT = 4  # parts of a bar that are narrower have no room for a number
MOST_CELLS = 16  # of a heat map, in one direction, with a number in each


def is_time(metric: str) -> bool:
    """Whether it is in seconds: times are over several powers of ten, and go by the logarithm."""
    return metric.endswith("_s") and not metric.endswith("_per_s")


def log_ticks(low: float, high: float) -> list[float]:
    """On a logarithmic axis, one to five of each power of ten."""
    digits = (1, 2, 3, 5, 7) if high < 30 * low else (1, 3) if high < 3000 * low else (1,)
    values = (digit * 10.0**power for power in range(-4, 9) for digit in digits)
    return [float(f"{value:g}") for value in values if low <= value <= high]
