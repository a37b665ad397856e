"""What a publication printed, and the scenarios that redraw it: scenarios/published/*.toml."""

import math
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from sim.errors import UserError
from sim.reproduce.capacities import Gain
from sim.reproduce.checks import Check
from sim.scenario.mistakes import user_error
from sim.scenario.spec import Spec

_WITH_NAN = ConfigDict(allow_inf_nan=True)
Numbers = Annotated[list[float], Field(min_length=1)]


class Series(Spec):
    """One line of a published table or figure.

    scenario: a file beside this one, without its ending. system: the one of it that is run.
    settings: overrides of the scenario, as after --set; a name in braces stands for its value.
    points: names -> values at each point; `at` is what is printed.
    published: metric (docs/metrics.md, and docs/reproduce.md) -> value at each point, nan for none.
    tolerance: what is still called inside, relative to the value, or by so much where `absolute`.
    warm_up, cool_down: shares of the requests, the first and the last, that are not counted.
    """

    model_config = _WITH_NAN

    title: str
    scenario: str
    system: str = "default"
    settings: list[str] = Field([])
    points: dict[str, list[Any]]
    published: dict[str, Numbers]
    tolerance: dict[str, Numbers] = Field({})
    absolute: bool = False
    warm_up: float = Field(0.0, ge=0, lt=0.5)
    cool_down: float = Field(0.0, ge=0, lt=0.5)

    @model_validator(mode="after")
    def _has_a_value_at_each_point(self) -> Self:
        if "at" not in self.points:
            raise ValueError("points: got no `at`, expected names of the points")
        for name, column in chain(
            *(d.items() for d in (self.points, self.published, self.tolerance))
        ):
            if len(column) != len(self.at):
                raise ValueError(f"{name}: got {len(column)} values, expected {len(self.at)}")
        if len({str(at) for at in self.at}) < len(self.at):
            raise ValueError(f"points.at: got {self.at}, expected different ones")
        zeros = [name for name, column in self.published.items() if 0 in column]
        if zeros and not self.absolute:
            raise ValueError(f"{zeros[0]}: got 0, expected `absolute` with it, or another value")
        if unknown := self.tolerance.keys() - self.published.keys():
            raise ValueError(f"tolerance: got {', '.join(unknown)}, expected published metrics")
        return self

    @property
    def at(self) -> list[Any]:
        """What its points are called."""
        return self.points["at"]

    def overrides(self, place: int) -> list[str]:
        """The settings at one of the points."""
        values = {name: column[place] for name, column in self.points.items()}
        try:
            return [setting.format(**values) for setting in self.settings]
        except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
            raise UserError(
                f"{self.title}: settings: {{{str(error).strip(chr(39))}}} is no name of `points`"
            ) from None


class Paper(Spec):
    """A publication, or one figure of it. checks: what is asked of several values together."""

    model_config = _WITH_NAN

    title: str
    source: str
    series: list[Series] = Field(min_length=1)
    checks: list[Check] = Field([])

    @model_validator(mode="after")
    def _checks_ask_of_what_is_there(self) -> Self:
        all_series = {series.title: series for series in self.series}
        if len(all_series) < len(self.series):
            raise ValueError("series: got a title twice, expected different ones")
        for number, check in enumerate(self.checks):
            titles = list(_series_in(check))
            if unknown := [title for title in titles if title not in all_series]:
                raise ValueError(
                    f"checks.{number}: got series {unknown[0]!r}, expected one of "
                    f"{', '.join(all_series)}"
                )
            asked = [all_series[title] for title in titles] or self.series
            if not any(check.metric in series.published for series in asked):
                raise ValueError(
                    f"checks.{number}.metric: got {check.metric!r}, expected one that is published "
                    "of these series"
                )
            points = {at for series in asked for at in series.at}
            if check.ASKS_NUMBERS and not all(type(at) in (int, float) for at in points):
                raise ValueError(f"checks.{number}: got points in words, expected numbers")
            first = getattr(check, "first", None)
            if first is not None and max(_num_printed(s, check.metric, first) for s in asked) < 2:
                raise ValueError(
                    f"checks.{number}.first: got {first:g}, expected two published values of a "
                    "series from it on"
                )
            if missing := [at for at in _points_in(check) if at not in points]:
                raise ValueError(
                    f"checks.{number}: got point {missing[0]!r}, expected one of "
                    f"{', '.join(str(at) for at in points)}"
                )
        return self


def _num_printed(series: Series, metric: str, first: float) -> int:
    """Published values of a series from a point on."""
    pairs = zip(series.at, series.published.get(metric, []), strict=False)
    return sum(at >= first and not math.isnan(published) for at, published in pairs)


def _series_in(check: Check | Gain) -> Iterator[str]:
    """The titles of the series that a check names."""
    for name, value in check:
        if name in ("of", "to") or (name == "series" and isinstance(value, str)):
            yield value
        elif name in ("series", "parts"):
            yield from value
        elif name == "gains":
            for gain in value:
                yield from _series_in(gain)


def _points_in(check: Check) -> Iterator[Any]:
    """The points that a check names."""
    for name, value in check:
        if name in ("at", "to_at") and value is not None:
            yield from value if isinstance(value, list) else [value]


def load_papers(folder: Path, names: list[str]) -> dict[str, Paper]:
    """By name, which is that of the file; all of a folder if none is named.

    Raises UserError for a name that is not there and for a file that is no such description.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    if not files:
        raise UserError(
            f"{folder}: no published figures; expected files such as NAME.toml "
            "(`--scenarios` says where)"
        )
    if unknown := [name for name in names if name not in files]:
        raise UserError(f"got {unknown[0]}, expected one of {', '.join(files)}")
    return {name: _load(files[name]) for name in names or files}


def _load(path: Path) -> Paper:
    try:
        return Paper.model_validate(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        raise user_error(error, str(path)) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from None
