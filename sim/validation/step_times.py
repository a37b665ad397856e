"""Which step times a case is predicted with, and where all their constants are from."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sim.errors import UserError
from sim.latency.silicon import SYSTEMS
from sim.measured_table import find_table
from sim.scenario import Scenario
from sim.validation.case import Case
from sim.validation.folder_name import parse_folder_name
from sim.validation.host_cost import HostCost, default_host_cost

COMMON = "roofline-common"  # with the shares that no measurement of this GPU went into


class StepTimes(NamedTuple):
    """Value of a scenario's key `latency`, and the source of its host cost.

    is_in_sample: whether that was fitted on the case itself.
    """

    latency: dict[str, Any]
    host_source: str
    is_in_sample: bool = False


def choose(
    case: Case,
    folder: Path,
    kind: str | None,
    fit_files: list[Path],
    host_cost: HostCost | None,
) -> StepTimes:
    """Step times of a kind; of none: the best there is.

    That is a profile of the same model on the same GPU beside the case (../../profiles), the
    library of measured kernels where it is installed and knows the GPU, or the roofline.

    Raises UserError for a kind that lacks what it needs.
    """
    if not (case.is_gpu_known or fit_files):
        raise UserError(
            f"{folder}: of no known GPU; give steps that were measured on it with --fit"
        )
    scenario = case.points[0].scenario
    profile = find_profile(folder, [point.scenario for point in case.points])
    if fit_files:
        files = [str(file.absolute()) for file in fit_files]
        return StepTimes({"kind": "fitted", "files": files}, "")
    kind = kind or _best(scenario, profile)
    if kind == "profile" and profile is None:
        raise UserError(
            f"{folder}: no folder of tables of {scenario.model} on {scenario.hardware} in "
            f"{_profiles(folder)}"
        )
    cost = host_cost or default_host_cost(case.measured_by, kind)
    host = {"overhead_s": cost.overhead_s, "per_sequence_s": cost.per_sequence_s}
    latency = {**_of_kind(kind, profile), **host}
    return StepTimes(latency, cost.source, cost.fitted_on == case.name)


def _of_kind(kind: str, profile: Path | None) -> dict[str, Any]:
    """The keys of `latency` but for the host's."""
    if kind == COMMON:
        return {"kind": "roofline", "constants": "common"}
    if kind == "profile" and profile:
        return {"kind": kind, "folder": str(profile.absolute())}
    return {"kind": kind}


def _best(scenario: Scenario, profile: Path | None) -> str:
    if profile:
        return "profile"
    is_installed = find_spec("aiconfigurator_core") is not None
    return "silicon" if is_installed and scenario.hardware in SYSTEMS else "roofline"


def _profiles(folder: Path) -> Path:
    return folder.absolute().parent.parent / "profiles"


def find_profile(folder: Path, scenarios: list[Scenario]) -> Path | None:
    """Tables of the layers of the model of all scenarios on their GPU, beside a case's folder."""
    sought = {(one.hardware, one.model, one.deployment.quantization) for one in scenarios}
    num_gpus = scenarios[0].deployment.tensor_parallel_size
    for candidate in sorted(_profiles(folder).glob("*")):
        try:
            named = parse_folder_name(candidate.name)
        except UserError:
            continue
        if sought == {named} and find_table(candidate / f"tp{num_gpus}_dense.csv"):
            return candidate
    return None
