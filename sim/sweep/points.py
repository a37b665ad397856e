"""Which points a sweep has: a grid of values, or some points of it."""

from pathlib import Path

from sim.errors import UserError
from sim.experiment import Job
from sim.scenario import Scenario
from sim.scenario.file import Points, load_scenario, num_points, points, refuse_many
from sim.scenario.yaml_text import parse

_MOST_RUNS = 100_000
_SHARES = {  # option -> what it expects
    "--precision": "half the width of an interval by its mean, above 0 and below 100 %, such as 5%",
    "--attainment": "a share of the requests, above 0 and below 100 %, such as 90%: no finite "
    "number of runs shows that all are kept",
}


def load_swept(
    path: Path, settings: list[str], sample: int | None = None, *, checks_points: bool = True
) -> Scenario:
    """A scenario with a sweep over each setting of several values: "engine.block_size=8,16".

    A setting of one value overrides a key. sample: so many points are wanted; None: all.
    checks_points: see `load_scenario`.

    Raises UserError for mistakes, as `load_scenario` does.
    """
    overrides = [_as_override(setting) for setting in settings]
    _refuse_twice(settings, overrides)
    scenario = load_scenario(path, overrides, checks_points=checks_points and sample is None)
    if sample is not None:
        sampled(scenario, sample, str(path))  # for the mistakes of those alone
    return scenario


def _as_override(setting: str) -> str:
    """>>> _as_override("engine.block_size=8,16")
    'sweep.engine.block_size=[8,16]'
    """
    key_path, equals, text = setting.partition("=")
    if not equals:
        return setting  # whose mistake is named where overrides are applied
    try:
        values = parse(f"[{text}]", setting)
    except UserError:
        return setting
    several = isinstance(values, list) and len(values) > 1
    return f"sweep.{key_path}=[{text}]" if several else setting


def _refuse_twice(settings: list[str], overrides: list[str]) -> None:
    """Raise UserError for a key of several values that is there again, and would lose some."""
    keys = [override.partition("=")[0] for override in overrides]
    for key in keys:
        plain = key.removeprefix("sweep.")
        places = [place for place, other in enumerate(keys) if other in (plain, key)]
        if plain != key and len(places) > 1:
            raise UserError(
                f"--set {settings[places[1]]}: got {plain} twice, expected all of its values in "
                "one --set, with commas"
            )


def sampled(scenario: Scenario, sample: int | None, source: str = "sweep") -> Points:
    """As `points`; so many of them, spread over a grid that is never listed, or for None all."""
    size = num_points(scenario)
    if sample is None or sample >= size:
        return points(scenario, source)
    refuse_many(sample, source)
    return points(scenario, source, _spread(scenario, sample))


def plan_points(scenario: Scenario, sample: int | None, seeds: range) -> list[Job]:
    """A job for each system, point and seed, in the order of tables.

    sample: so many points, spread over the grid as evenly as a Halton sequence is; None: all.

    Raises UserError for too many.
    """
    swept = sampled(scenario, sample)
    num_runs = len(swept) * len(scenario.systems) * len(seeds)
    if num_runs > _MOST_RUNS:
        raise UserError(
            f"sweep: got {len(swept):,} points, {len(scenario.systems)} systems and "
            f"{len(seeds):,} seeds, {num_runs:,} runs, expected at most {_MOST_RUNS:,}"
        )
    return [
        Job(system, labels, point.model_copy(update={"seed": seed}))
        for system in scenario.systems
        for labels, point in swept
        for seed in seeds
    ]


def _spread(scenario: Scenario, num: int) -> list[int]:
    """Places of points that are spread over the grid."""
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
    """A share such as 5% or 0.05, of an option of `_SHARES`. Raises UserError, naming it."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UserError(f"{option}: got {text!r}, expected {_SHARES[option]}")
    return value
