"""A step from tables of measured operators, in whichever of three forms a folder has them."""

import json
from pathlib import Path

from sim.catalogue.efficiency import Efficiency
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.allreduce import AllReduce
from sim.latency.kernel_tables import KernelAttention, KernelProducts
from sim.latency.layer_tables import LayerAttention, LayerProducts, MlpProducts
from sim.latency.operators import Operators
from sim.latency.roofline import RooflineAttention
from sim.measured_table import find_table


def profile_operators(folder: Path, deployment: Deployment, efficiency: Efficiency) -> Operators:
    """The tables of a folder; what they lack is taken from the roofline.

    Tables of layers do not say of which model they are, but those of `kvsim profile-gpu` have a
    file beside them that does. Of others whoever names the folder must know.

    Raises UserError for a folder without tables, or without those of as many GPUs, or with tables
    of another model or number type.
    """
    num_gpus, allreduce = deployment.tensor_parallel_size, AllReduce(deployment, efficiency)
    tables = f"tables of {folder.name}"
    if find_table(folder / f"tp{num_gpus}_dense.csv"):
        about = folder / f"tp{num_gpus}_profile.json"
        source = tables if _is_of(about, deployment) else f"{tables}, {_TAKEN}"
        layers = LayerProducts(folder, deployment), LayerAttention(folder, deployment)
        return Operators(*layers, allreduce, source)
    if find_table(folder / "gemm.csv"):
        products = KernelProducts(folder, deployment, efficiency)
        attention = KernelAttention(folder, deployment, efficiency)
        lacking = "roofline for experts and all that is no product and no attention"
        return Operators(products, attention, allreduce, f"{tables}, {lacking}")
    if find_table(folder / "mlp.csv"):
        products_ = MlpProducts(folder, deployment, efficiency)
        attention_ = RooflineAttention(deployment, efficiency)
        lacking = f"{_TAKEN}, roofline for attention and the output projection"
        return Operators(products_, attention_, allreduce, f"{tables}, {lacking}")
    raise UserError(
        f"{folder}: no tables of tensor parallelism {num_gpus}; expected tp{num_gpus}_dense.csv "
        "and others, gemm.csv and others, or mlp.csv (see docs/profiles.md)"
    )


_TAKEN = "taken to be of this model and its number types"


def _is_of(about: Path, deployment: Deployment) -> bool:
    """Whether a description of tables is there and fits. Raises UserError for one that does not."""
    if not about.is_file():
        return False
    try:
        profiled = json.loads(about.read_text("utf-8"))
        got = profiled["title"], profiled["dtype"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{about}: not as `kvsim profile-gpu` writes it: {error!r}") from None
    if got == (deployment.model.title, deployment.activation_dtype):
        return True
    raise UserError(
        f"{about}: tables of {got[0]} in {got[1]}, expected {deployment.model.title} in "
        f"{deployment.activation_dtype}"
    )
