"""Several settings at once: Optuna proposes combinations, and few of them are searched finely."""

from collections.abc import Mapping, Set
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import UserError
from sim.plan.alternatives import Prepare, ready, why_impossible
from sim.plan.evaluate import GLANCE_RUNS, Evaluator
from sim.plan.evaluation import Evaluation, Verdict
from sim.plan.findings import Impossible, Labels, Look
from sim.plan.goals import Goal
from sim.plan.plan import merit
from sim.plan.prices import Prices
from sim.plan.search import find_boundary
from sim.scenario import Scenario

if TYPE_CHECKING:
    from optuna import Study

FINALISTS = 3  # that are searched finely
Places = tuple[int, ...]  # of a value of each setting

_COARSE = 5  # of a goal's values one


def look_around(
    scenario: Scenario,
    prepare: Prepare,
    find: str,
    evaluator: Evaluator,
    num_trials: int,
    prices: Prices,
) -> tuple[list[Look], list[Impossible]]:
    """Try so many combinations of the swept values; equal seeds of the scenario try the same.

    Returns all that were tried, the best first, and those that were proposed and cannot be.

    Raises UserError without Optuna, where no combination can be, and as `Evaluator.judge` does.
    """
    study = _new_study(scenario.seed)
    rng = np.random.default_rng(scenario.seed)
    sizes = [len(values) for values in scenario.sweep.values()]
    looks: dict[Places, Look] = {}
    impossible: dict[Places, tuple[Labels, UserError]] = {}
    best = -float("inf")
    while len(looks) < num_trials and len(looks) + len(impossible) < prod(sizes):
        trial, places = _propose(study, scenario.sweep, rng, looks.keys() | impossible.keys())
        labels = {
            key: values[place]
            for (key, values), place in zip(scenario.sweep.items(), places, strict=True)
        }
        try:
            goal = ready(scenario, labels, prepare, find, evaluator.system)
        except UserError as error:
            impossible[places] = labels, error
            study.tell(trial, state=_state("FAIL"))
            continue
        look = look_at(labels, goal, evaluator, best, prices)
        looks[places] = look
        best = max(best, look.merit)
        _tell(study, trial, look)
    if not looks:
        raise next(iter(impossible.values()))[1]
    ranked = sorted(looks.values(), key=lambda look: (-look.merit, look.ratio))
    return ranked, [why_impossible(*one) for one in impossible.values()]


def _new_study(seed: int) -> "Study":
    try:
        import optuna
    except ImportError:
        raise UserError(
            "--optimize: Optuna is not installed, expected pip install 'kvsim[optimize]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))


def _propose(
    study: "Study", swept: Mapping[str, list[Any]], rng: np.random.Generator, known: Set[Places]
) -> tuple[Any, Places]:
    """A trial that is not known, and its places."""
    trial, places = _ask(study, swept)
    if places not in known:
        return trial, places
    # What it likes it would propose again and again: any other one instead.
    study.tell(trial, state=_state("FAIL"))
    while places in known:
        places = tuple(rng.integers([len(values) for values in swept.values()]).tolist())
    study.enqueue_trial(dict(zip(swept, places, strict=True)))
    return _ask(study, swept)


def _ask(study: "Study", swept: Mapping[str, list[Any]]) -> tuple[Any, Places]:
    """Places, since a value may be a mapping, which Optuna has none of."""
    from optuna.distributions import CategoricalDistribution

    trial = study.ask(
        {key: CategoricalDistribution(tuple(range(len(values)))) for key, values in swept.items()}
    )
    return trial, tuple(trial.params[key] for key in swept)


def _tell(study: "Study", trial: Any, look: Look) -> None:
    if look.is_kept:
        study.tell(trial, look.merit)
    else:  # known to be worse than all that are kept; of two such the ratio decides
        trial.report(-min(look.ratio, 1e9), step=0)
        study.tell(trial, state=_state("PRUNED"))


def _state(name: str) -> Any:
    from optuna.trial import TrialState

    return TrialState[name]


def _coarse_verdict(found: Evaluation) -> Verdict:
    if found.worst[1] > 1:
        return Verdict.BROKEN
    return Verdict.KEPT if found.is_steady else Verdict.UNSURE


def look_at(
    labels: dict[str, Any],
    goal: Goal,
    evaluator: Evaluator,
    best: float,
    prices: Prices,
) -> Look:
    """Search coarsely, unless a glance shows that it is worse than the best so far."""
    goal = replace(
        goal,
        values=goal.values[::_COARSE],
        start=goal.start // _COARSE,
        stride=max(goal.stride // _COARSE, 1),
    )

    def judge(place: int) -> tuple[Verdict, Evaluation]:
        scenario = goal.apply(goal.values[place])
        found = evaluator.evaluate(scenario, GLANCE_RUNS, _coarse_verdict)
        return _coarse_verdict(found), found

    def merit_at(place: int) -> float:
        value = goal.values[place]
        return merit(goal, value, goal.apply(value), evaluator.system, prices)

    def at(place: int, found: Evaluation, *, is_kept: bool) -> Look:
        worth = merit_at(place) if is_kept else -float("inf")
        value = goal.values[place]
        return Look(labels, goal.apply(value), value, is_kept, worth, found.worst[1])

    start, last = goal.start, len(goal.values) - 1
    if best > -float("inf"):
        start = next((place for place in range(last) if merit_at(place) >= best), last)
        verdict, found = judge(start)
        if verdict is Verdict.BROKEN:
            return at(start, found, is_kept=False)
    boundary = find_boundary(judge, judge, len(goal.values), start, goal.stride)
    if boundary.kept is None:
        place = min(boundary.tried)
        return at(place, boundary.tried[place], is_kept=False)
    return at(boundary.kept, boundary.tried[boundary.kept], is_kept=True)
