"""The kinds of things that `kvsim list` shows: the data of each, and the cells of its table."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from sim import catalogue
from sim.definitions.plain import METRICS
from sim.listing.scenarios import scenarios

Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """data: for programs, each with a `name`. cells: heading -> cell, of one of them."""

    data: Callable[[], list[Row]]
    cells: Callable[[Row], dict[str, str]]

    @property
    def names(self) -> list[str]:
        """Of all."""
        return [str(row["name"]) for row in self.data()]


def _gpus() -> list[Row]:
    return [asdict(catalogue.load_hardware(name)) for name in catalogue.names("hardware")]


def _gpu_cells(gpu: Row) -> dict[str, str]:
    peaks = gpu["peak_flop_per_s"]
    return {
        "GPU": gpu["name"],
        "title": gpu["title"],
        "GiB": f"{gpu['memory_bytes'] / 2**30:.1f}",
        "TB/s": f"{gpu['bandwidth_bytes_per_s'] / 1e12:.2f}",
        "bf16\nTFLOP/s": f"{peaks['bf16'] / 1e12:,.0f}",
        "fp8\nTFLOP/s": f"{peaks['fp8'] / 1e12:,.0f}" if "fp8" in peaks else "-",
        "link\nGB/s": f"{gpu['interconnect_bytes_per_s'] / 1e9:,.0f}",
    }


def _models() -> list[Row]:
    return [
        {"name": name, **asdict(model), "num_parameters": model.num_parameters}
        for name in catalogue.names("models")
        for model in [catalogue.load_model(name)]
    ]


def _model_cells(model: Row) -> dict[str, str]:
    experts = f"{model['num_experts_per_token']} of {model['num_experts']}"
    return {
        "model": model["name"],
        "title": model["title"],
        "parameters": f"{model['num_parameters'] / 1e9:,.1f} B",
        "layers": str(model["num_layers"]),
        "KV heads": str(model["num_kv_heads"]),
        "experts": experts if model["num_experts"] else "-",
        "weights": model["dtype"] if model["quantization"] == "none" else model["quantization"],
    }


def _systems() -> list[Row]:
    return [asdict(catalogue.load_system(name)) for name in catalogue.names("systems")]


def _system_cells(system: Row) -> dict[str, str]:
    settings = _settings(system["engine"])
    return {"preset": system["name"], "meaning": system["meaning"], "settings": settings}


def _workloads() -> list[Row]:
    return [asdict(catalogue.load_workload(name)) for name in catalogue.names("workloads")]


def _workload_cells(workload: Row) -> dict[str, str]:
    meaning = (
        f"{workload['meaning']}; like {workload['resembles']}; needs a max_model_len of "
        f"{workload['max_model_len']}"
    )
    settings = _settings(workload["settings"])
    return {"preset": workload["name"], "meaning": meaning, "settings": settings}


def _figures() -> list[Row]:
    from sim.plots.run_figures import FIGURES  # matplotlib, slow to import

    return [
        {"name": name, "shows": figure.shows, "needs": figure.needs}
        for name, figure in FIGURES.items()
    ]


def _figure_cells(figure: Row) -> dict[str, str]:
    return {**figure, "needs": figure["needs"] or "-"}


def _metrics() -> list[Row]:
    return [
        {"name": name, "unit": metric.unit, "meaning": metric.meaning}
        for name, metric in METRICS.items()
    ]


def _as_they_are(row: Row) -> dict[str, str]:
    return {key: str(value) for key, value in row.items()}


def _settings(settings: Row) -> str:
    """Settings as a scenario writes them."""
    return ", ".join(f"{key}: {_word(value)}" for key, value in settings.items())


def _word(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")


KINDS = {
    "scenarios": Kind(scenarios, _as_they_are),
    "systems": Kind(_systems, _system_cells),
    "gpus": Kind(_gpus, _gpu_cells),
    "models": Kind(_models, _model_cells),
    "workloads": Kind(_workloads, _workload_cells),
    "figures": Kind(_figures, _figure_cells),
    "metrics": Kind(_metrics, _as_they_are),
}
