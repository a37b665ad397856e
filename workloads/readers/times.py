"""Times as files have them, in whole nanoseconds."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from workloads.checks import LATEST_NS
from workloads.workload import Int64Column, int64_column

_DATE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_NUMBER = re.compile(r"[0-9]{1,13}(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,2})?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DATE_EXPECTED = "YYYY-MM-DD HH:MM:SS.fffffff, from 1970 to 2199"
SECONDS_EXPECTED = "seconds, a number from 0 to 9e9"


def date_ns(text: str) -> int | None:
    """Nanoseconds since 1970, exactly; None for what is no time of the years 1970 to 2199.

    A time without a zone is taken to be of UTC; with one, what is meant is the instant.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    try:
        time = datetime.fromisoformat(f"{day} {clock}{zone}")
    except ValueError:  # a 13th month, a 30th of February
        return None
    if not 1970 <= time.year < 2200:  # int64 nanoseconds end in 2262
        return None
    return (time - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "0").ljust(9, "0"))


def zone_of(text: str) -> str:
    """The zone of what `date_ns` knows as a time, as `+02:00` or `UTC`; empty without one."""
    match = _DATE.fullmatch(text)
    zone = match[4] if match and match[4] else ""
    if zone[1:].replace(":", "") in ("", "0000"):
        return "UTC" if zone else ""
    return f"{zone[:3]}:{zone[-2:]}"


def seconds_ns(text: str) -> int | None:
    """Nanoseconds of a number of seconds as it is written, rounded; None for what is none."""
    if not _NUMBER.fullmatch(text) or Decimal(text) * 10**9 > int(LATEST_NS):
        return None
    return round(Decimal(text) * 10**9)


def in_ns(value: int | float, unit_ns: int) -> int:
    """Nanoseconds of a number of units, exactly as its shortest decimal form says."""
    return round(Decimal(repr(value)) * unit_ns)


def times_ns(values: Sequence[int | float], unit_ns: int) -> Int64Column:
    """[n] the same of many."""
    return int64_column(in_ns(value, unit_ns) for value in values)
