"""How many KV blocks a deployment has, found as vLLM V1 finds it at start-up; docs/kv_size.md."""

from dataclasses import dataclass

from sim.deployment import Deployment
from sim.errors import UserError

NULL_BLOCKS = 1  # of those that vLLM counts: requests never get it

# What a process takes of a GPU beside what PyTorch allocates: the CUDA context, libraries, and with
# more GPUs the buffers of NCCL. Fitted on one start-up, see docs/kv_size.md.
_CONTEXT_BYTES = 0.7e9
_NCCL_BYTES = 0.4e9
# Numbers of the forward pass are held twice at its peak: temporaries, and blocks that the caching
# allocator cannot join. Fitted on the start-up logs of seven runs, see docs/kv_size.md.
_FORWARD_COPIES = 2
_SAMPLER_BYTES = 14  # of a logit: in 16 bits, in 32, and two more copies in 32 while it is sampled


@dataclass(frozen=True)
class KVSize:
    """The KV cache of one GPU.

    num_gpu_blocks: as vLLM counts them, the null block included.
    """

    num_gpu_blocks: int
    block_size: int
    max_model_len: int

    @property
    def num_blocks(self) -> int:
        """Blocks that requests can have."""
        return self.num_gpu_blocks - NULL_BLOCKS

    def lines(self) -> list[str]:
        """What vLLM prints of it."""
        num_tokens = self.num_gpu_blocks * self.block_size
        concurrency = self.num_gpu_blocks / -(-self.max_model_len // self.block_size)
        return [
            f"GPU KV cache size: {num_tokens:,} tokens",
            f"Maximum concurrency for {self.max_model_len:,} tokens per request: "
            f"{concurrency:.2f}x",
        ]


def kv_size(
    deployment: Deployment,
    *,
    block_size: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    max_model_len: int,
    gpu_memory_utilization: float = 0.9,
    kv_cache_memory_bytes: int | None = None,
) -> KVSize:
    """The KV cache that fits beside the weights and the largest step.

    Raises UserError where not even one request of max_model_len tokens fits, as vLLM refuses too.
    """
    left_bytes = kv_cache_memory_bytes or _left_bytes(
        deployment, gpu_memory_utilization, max_num_seqs, max_num_batched_tokens
    )
    num_gpu_blocks = int(left_bytes // (deployment.kv_bytes_per_token * block_size))
    num_needed = -(-max_model_len // block_size)
    if num_gpu_blocks <= num_needed:
        raise UserError(
            f"engine.num_blocks: auto leaves {max(num_gpu_blocks - 1, 0)} blocks of "
            f"{block_size} tokens for the KV cache of {deployment.model.title} "
            f"({deployment.weight_bytes / 1e9:.3g} GB of weights a GPU) on "
            f"{deployment.tensor_parallel_size} x {deployment.hardware.title} "
            f"({deployment.hardware.memory_bytes / 1e9:.3g} GB), expected at least "
            f"the {num_needed} of max_model_len {max_model_len}"
        )
    return KVSize(num_gpu_blocks, block_size, max_model_len)


def _left_bytes(
    deployment: Deployment,
    gpu_memory_utilization: float,
    max_num_seqs: int,
    max_num_batched_tokens: int,
) -> float:
    """Memory of one GPU that vLLM gives to the KV cache."""
    requested = deployment.hardware.memory_bytes * gpu_memory_utilization
    context = _CONTEXT_BYTES + (_NCCL_BYTES if deployment.tensor_parallel_size > 1 else 0)
    peak = activation_peak_bytes(deployment, max_num_seqs, max_num_batched_tokens)
    return requested - deployment.weight_bytes - context - peak


def activation_peak_bytes(
    deployment: Deployment, max_num_seqs: int, max_num_batched_tokens: int
) -> float:
    """Most memory that the largest step needs on one GPU: its forward pass, or its sampling."""
    model, num_gpus = deployment.model, deployment.tensor_parallel_size
    qkv = deployment.layer_matrices[0].n
    ffn = (model.num_up_matrices + 1) * model.d_ff * max(model.num_experts_per_token, 1) / num_gpus
    width = 4 * model.d_model + qkv + ffn
    forward = max_num_batched_tokens * width * deployment.activation_bytes * _FORWARD_COPIES
    sampled = min(max_num_seqs, max_num_batched_tokens)
    return max(forward, sampled * model.vocab_size * _SAMPLER_BYTES)
