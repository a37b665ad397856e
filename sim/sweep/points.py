"""Which points a sweep has: a grid of values, or some points of it."""

from pathlib import Path

import yaml

from sim.errors import UserError
from sim.experiment import Job
from sim.scenario import Scenario
from sim.scenario.file import load_scenario, points


def load_swept(path: Path, settings: list[str], *, checks_points: bool = True) -> Scenario:
    """A scenario with a sweep over each setting of several values: "engine.block_size=8,16".

    A setting of one value overrides a key. Raises UserError for mistakes, as `load_scenario` does,
    which also says what checks_points is.
    """
    overrides = [_as_override(setting) for setting in settings]
    return load_scenario(path, overrides, checks_points=checks_points)


def _as_override(setting: str) -> str:
    """>>> _as_override("engine.block_size=8,16")
    'sweep.engine.block_size=[8,16]'
    """
    key_path, equals, text = setting.partition("=")
    if not equals:
        return setting  # whose mistake is named where overrides are applied
    try:
        values = yaml.safe_load(f"[{text}]")
    except yaml.YAMLError:
        return setting
    several = isinstance(values, list) and len(values) > 1
    return f"sweep.{key_path}=[{text}]" if several else setting


def plan_points(scenario: Scenario, sample: int | None, seeds: range) -> list[Job]:
    """A job for each system, point and seed, in the order of tables.

    sample: so many points, spread over the grid as evenly as a Halton sequence is; None: all.
    """
    swept = points(scenario)
    if sample is not None and sample < len(swept):
        swept = [swept[place] for place in _spread(scenario, sample)]
    return [
        Job(system, labels, point.model_copy(update={"seed": seed}))
        for system in scenario.systems
        for labels, point in swept
        for seed in seeds
    ]


def _spread(scenario: Scenario, num: int) -> list[int]:
    """Places in the grid, in its order."""
    from scipy.stats import qmc  # slow to import

    sizes = [len(values) for values in scenario.sweep.values()]
    sequence = qmc.Halton(len(sizes), scramble=True, seed=scenario.seed)
    places: dict[int, None] = {}
    while len(places) < num:  # points of the sequence may fall on one of the grid
        for coordinates in sequence.random(num):
            place = 0
            for size, coordinate in zip(sizes, coordinates.tolist(), strict=True):
                place = place * size + int(coordinate * size)
            places.setdefault(place)
    return sorted(list(places)[:num])


def parse_share(option: str, text: str) -> float:
    """A share such as 5% or 0.05. Raises UserError, naming the option."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UserError(f"{option}: got {text!r}, expected a share such as 5%")
    return value
