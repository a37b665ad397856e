"""Roofline: every operator is bound by the GPU's arithmetic or by its memory bandwidth.

Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009. docs/latency.md has the formulas.
"""

from sim.catalogue.efficiency import Efficiency
from sim.deployment import Deployment, Matrix
from sim.latency.allreduce import AllReduce
from sim.latency.model import Curve, CurveLatency, Prefills


class RooflineLatency(CurveLatency):
    """Time of a step of a deployed model, one operator after the other.

    overhead_s, per_sequence_s: what a step, and each of its decodes and prefill chunks, costs
    besides, on the host.
    """

    def __init__(
        self,
        deployment: Deployment,
        efficiency: Efficiency,
        *,
        overhead_s: float,
        per_sequence_s: float,
    ) -> None:
        super().__init__()
        self._overhead_s = overhead_s
        self._per_sequence_s = per_sequence_s
        self._matrices = MatrixTimes(deployment, efficiency)
        self._attention = AttentionTimes(deployment, efficiency)
        self._allreduce = AllReduce(deployment, efficiency)

    def decode_curve(self, num_decodes: int) -> Curve:
        """See CurveLatency."""
        step_s = self._all_but_attention_s(num_decodes, num_decodes)
        curve = self._attention.decode_curve(num_decodes)
        return curve._replace(seconds=[step_s + seconds for seconds in curve.seconds])

    def seconds(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See CurveLatency. Every prefill chunk is charged one row of the output projection."""
        num_tokens = num_decodes + sum(num_chunk_tokens for num_chunk_tokens, _ in prefills)
        return self._all_but_attention_s(
            num_tokens, num_decodes + len(prefills)
        ) + self._attention.mixed_s(num_decodes, decode_context_tokens, prefills)

    def _all_but_attention_s(self, num_tokens: int, num_rows: int) -> float:
        return (
            self._overhead_s
            + num_rows * self._per_sequence_s
            + self._matrices.seconds(num_tokens, num_rows)
            + self._allreduce.step_s(num_tokens)
        )


class MatrixTimes:
    """Products with the weights, and what is done to the activations between them."""

    def __init__(self, deployment: Deployment, efficiency: Efficiency) -> None:
        self._deployment = deployment
        self._efficiency = efficiency
        model = deployment.model
        # Read and written for each token and layer: two norms with the residual added, queries and
        # keys rotated, what lies between the halves of the feed-forward network.
        widths = 8 * model.d_model + 3 * model.d_ff * max(model.num_experts_per_token, 1)
        self._elementwise_bytes = model.num_layers * widths * deployment.activation_bytes
        self._elementwise_s = model.num_layers * _NUM_ELEMENTWISE * efficiency.kernel_s

    def seconds(self, num_tokens: int, num_rows: int) -> float:
        """Time of num_tokens through the layers, and of num_rows through the output projection."""
        deployment = self._deployment
        layers = sum(self._product_s(m, num_tokens) for m in deployment.layer_matrices)
        experts = sum(self._experts_s(m, num_tokens) for m in deployment.expert_matrices)
        elementwise = self._elementwise_s + num_tokens * self._elementwise_bytes / self._bytes_per_s
        return layers + experts + elementwise + self._product_s(deployment.output_matrix, num_rows)

    def _product_s(self, matrix: Matrix, num_tokens: int) -> float:
        """A product of num_tokens with the matrix of every layer."""
        return matrix.count * (
            self._efficiency.kernel_s + self._roofline_s(matrix, num_tokens, matrix.weight_bytes)
        )

    def _experts_s(self, matrix: Matrix, num_tokens: int) -> float:
        """The same for one matrix of each expert: only the experts that are chosen are read."""
        model = self._deployment.model
        read_bytes = num_experts_touched(model.num_experts, model.num_experts_per_token, num_tokens)
        return matrix.count * (
            self._efficiency.kernel_s
            + self._roofline_s(
                matrix, num_tokens * model.num_experts_per_token, read_bytes * matrix.weight_bytes
            )
        )

    def _roofline_s(self, matrix: Matrix, num_tokens: int, weight_bytes: float) -> float:
        efficiency, hardware = self._efficiency, self._deployment.hardware
        flop_per_s = hardware.peak(matrix.arithmetic) * efficiency.flop[matrix.arithmetic]
        bytes_per_s = hardware.bandwidth_bytes_per_s * efficiency.bandwidth[matrix.arithmetic]
        activations = num_tokens * (matrix.k + matrix.n) * self._deployment.activation_bytes
        return max(
            2 * matrix.k * matrix.n * num_tokens / flop_per_s,
            (weight_bytes + activations) / bytes_per_s,
        )

    @property
    def _bytes_per_s(self) -> float:
        bandwidth = self._deployment.hardware.bandwidth_bytes_per_s
        return bandwidth * self._efficiency.bandwidth["bf16"]


_NUM_ELEMENTWISE = 4  # kernels of a layer that are no product: two norms, rotation, activation


def num_experts_touched(num_experts: int, num_experts_per_token: int, num_tokens: int) -> float:
    """Experts that at least one of the tokens chooses, if each chooses at random.

    >>> num_experts_touched(8, 2, 1)
    2.0
    """
    return float(num_experts * (1 - (1 - num_experts_per_token / num_experts) ** num_tokens))


class AttentionTimes:
    """Attention of decodes, which read K/V, and of prefill chunks, which compute."""

    def __init__(self, deployment: Deployment, efficiency: Efficiency) -> None:
        model, hardware = deployment.model, deployment.hardware
        peak = hardware.peak("bf16")
        bandwidth = hardware.bandwidth_bytes_per_s
        kv_bytes = deployment.kv_bytes_per_token
        decode_flop_s = deployment.attention_flop_per_pair / (peak * efficiency.flop["bf16"])
        self._window = model.sliding_window
        self._window_share = model.num_window_layers / model.num_layers
        self._decode_s = max(kv_bytes / (bandwidth * efficiency.attention_bandwidth), decode_flop_s)
        self._mixed_decode_s = max(
            kv_bytes / (bandwidth * efficiency.mixed_attention_bandwidth), decode_flop_s
        )
        self._pair_s = deployment.attention_flop_per_pair / (peak * efficiency.attention_flop)
        self._kv_s = kv_bytes / (bandwidth * efficiency.bandwidth["bf16"])
        self._kernels_s = model.num_layers * efficiency.kernel_s

    def decode_curve(self, num_decodes: int) -> Curve:
        """Attention of so many decodes alone, over their total context."""
        if not self._window_share:
            return Curve.line(self._kernels_s, self._decode_s)
        knot = float(num_decodes * self._window)
        beyond_s = self._decode_s * (1 - self._window_share)
        return Curve(
            [0.0, knot],
            [self._kernels_s, self._kernels_s + knot * self._decode_s],
            [self._decode_s, beyond_s],
        )

    def mixed_s(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """Attention of a step with prefill chunks."""
        share, window = self._window_share, self._window
        num_read = (1 - share) * decode_context_tokens
        num_read += share * min(decode_context_tokens, num_decodes * window)
        seconds = self._kernels_s + num_read * self._mixed_decode_s
        for num_tokens, context in prefills:
            pairs = (1 - share) * num_pairs(num_tokens, context)
            if share:
                pairs += share * num_pairs(num_tokens, context, window)
            seconds += max(pairs * self._pair_s, (context + num_tokens) * self._kv_s)
        return seconds


def num_pairs(num_tokens: int, context: int, window: int | None = None) -> int:
    """Pairs (query, token it attends to) of a chunk after `context` tokens, itself included.

    window: the most recent tokens that a query attends to; None: all.

    >>> num_pairs(3, 10), num_pairs(3, 10, 12)
    (36, 35)
    """
    if window is None:
        return num_tokens * context + num_tokens * (num_tokens + 1) // 2
    num_full = min(max(window - context, 0), num_tokens)  # queries that still see all
    return num_full * context + num_full * (num_full + 1) // 2 + (num_tokens - num_full) * window
