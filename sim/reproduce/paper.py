"""What a publication printed, and the scenarios that redraw it: scenarios/published/*.toml."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from sim.errors import UserError
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
        for name, column in {**self.points, **self.published, **self.tolerance}.items():
            if len(column) != len(self.at):
                raise ValueError(f"{name}: got {len(column)} values, expected {len(self.at)}")
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
        except (KeyError, ValueError, IndexError) as error:
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


def load_papers(folder: Path, names: list[str]) -> dict[str, Paper]:
    """By name, which is that of the file; all of a folder if none is named.

    Raises UserError for a name that is not there and for a file that is no such description.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    if not files:
        raise UserError(f"{folder}: no published figures; expected files such as NAME.toml")
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
