"""All-reduce: after attention and after the feed-forward network, GPUs add up their parts."""

from sim.catalogue.efficiency import Efficiency
from sim.deployment import Deployment


class AllReduce:
    """Time that a step spends in all-reduces, two a layer; none on a single GPU.

    A ring moves 2 (n - 1) / n of a message through each GPU's link (Patarasuk and Yuan, J. Parallel
    Distrib. Comput. 69(2), 2009, Bandwidth optimal all-reduce algorithms). Over NVLink every GPU
    reads from all others at once, and the latency does not grow with their number; over PCIe the
    message goes round the ring, and it grows with n - 1.
    """

    def __init__(self, deployment: Deployment, efficiency: Efficiency) -> None:
        num_gpus = deployment.tensor_parallel_size
        bytes_per_s = deployment.hardware.interconnect_bytes_per_s * efficiency.allreduce_bandwidth
        message_bytes = deployment.model.d_model * deployment.activation_bytes
        num_messages = 2 * deployment.model.num_layers if num_gpus > 1 else 0
        self._token_s = num_messages * 2 * (num_gpus - 1) / num_gpus * message_bytes / bytes_per_s
        num_hops = num_gpus - 1 if deployment.hardware.interconnect.startswith("PCIe") else 1
        self._latency_s = num_messages * num_hops * efficiency.allreduce_s

    def step_s(self, num_tokens: int) -> float:
        """Of a step of so many tokens."""
        return self._latency_s + num_tokens * self._token_s


class NoAllReduce:
    """Where the time of all-reduces is part of other operators."""

    def step_s(self, _num_tokens: int) -> float:
        """Nothing."""
        return 0.0
