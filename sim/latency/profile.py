"""A step from tables of measured operators, in whichever of three forms a folder has them."""

from pathlib import Path
from typing import NamedTuple

from sim.catalogue.efficiency import Efficiency
from sim.deployment import Deployment
from sim.errors import UserError
from sim.latency.kernel_tables import KernelAttention, KernelProducts
from sim.latency.layer_tables import LayerAttention, LayerProducts, MlpProducts
from sim.latency.measurements import find_table
from sim.latency.operators import Attention, Products
from sim.latency.roofline import RooflineAttention


class Profile(NamedTuple):
    """What a folder of tables says of a deployment, and in words what it does not say."""

    products: Products
    attention: Attention
    missing: str


def load_profile(folder: Path, deployment: Deployment, efficiency: Efficiency) -> Profile:
    """The tables of a folder; what they lack is taken from the roofline.

    Raises UserError for a folder without tables, or whose tables are of another model or GPU shard.
    """
    num_gpus = deployment.tensor_parallel_size
    if find_table(folder / f"tp{num_gpus}_dense.csv"):
        layers = LayerProducts(folder, deployment), LayerAttention(folder, deployment)
        return Profile(*layers, missing="")
    if find_table(folder / "gemm.csv"):
        products = KernelProducts(folder, deployment, efficiency)
        attention = KernelAttention(folder, deployment, efficiency)
        return Profile(products, attention, missing="all that is no product and no attention")
    if find_table(folder / "mlp.csv"):
        return Profile(
            MlpProducts(folder, deployment, efficiency),
            RooflineAttention(deployment, efficiency),
            missing="attention and the output projection",
        )
    raise UserError(
        f"{folder}: no tables for {num_gpus} GPUs; expected tp{num_gpus}_dense.csv and others, "
        "gemm.csv and others, or mlp.csv (see docs/profiles.md)"
    )
