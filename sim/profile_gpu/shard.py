"""What of a model's layer lies on one GPU, as the operators need it."""

from dataclasses import dataclass

from sim.catalogue import load_hardware, names
from sim.catalogue.model import Model
from sim.deployment import Deployment, Matrix
from sim.errors import UserError


@dataclass(frozen=True)
class Shard:
    """One GPU's part of a model. The sizes of all matrices are those of `Deployment`.

    matrices: by name: qkv_proj, o_proj, gate_up_proj and down_proj (of one expert where there are
    experts), router where there are experts, lm_head.
    """

    model: Model
    num_heads: int
    num_kv_heads: int
    matrices: dict[str, Matrix]

    @property
    def d_ff(self) -> int:
        """Width of the feed-forward network, of one expert where there are experts."""
        return self.matrices["down_proj"].k


def shard_of(model: Model, tensor_parallel_size: int, dtype: str) -> Shard:
    """One GPU's part of a model on tensor_parallel_size of them, with activations of dtype.

    Raises UserError for what cannot be timed: quantized weights, layers that differ, and heads
    that the GPUs cannot share equally.
    """
    if model.quantization != "none":
        raise UserError(
            f"{model.title}: its weights are {model.quantization}; only the operators of weights "
            "that are not quantized can be timed"
        )
    if model.num_kv_heads_total:
        raise UserError(f"{model.title}: its layers have different KV heads; one layer is timed")
    num_kv_heads = max(model.num_kv_heads / tensor_parallel_size, 1)
    if model.num_heads % tensor_parallel_size or num_kv_heads % 1:
        raise UserError(
            f"--tp {tensor_parallel_size}: {model.title} has {model.num_heads} heads and "
            f"{model.num_kv_heads} KV heads, which so many GPUs cannot share equally"
        )
    deployment = Deployment(
        model=model,
        hardware=load_hardware(names("hardware")[0]),  # the sizes do not depend on it
        tensor_parallel_size=tensor_parallel_size,
        dtype=dtype,
    )
    matrices = [
        *deployment.layer_matrices,
        *deployment.expert_matrices,
        deployment.output_matrix,
    ]
    return Shard(
        model=model,
        num_heads=model.num_heads // tensor_parallel_size,
        num_kv_heads=int(num_kv_heads),
        matrices={matrix.name: matrix for matrix in matrices},
    )
