"""Roofline: every operator is bound by the GPU's arithmetic or by its memory bandwidth.

Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009. docs/latency.md has the formulas.
"""

from sim.catalogue.efficiency import Efficiency
from sim.deployment import Deployment, Matrix
from sim.latency.allreduce import AllReduce
from sim.latency.model import Curve, Prefills, num_pairs
from sim.latency.operators import Operators

_NUM_ELEMENTWISE = 4  # kernels of a layer that are no product: two norms, rotation, activation


def roofline_operators(deployment: Deployment, efficiency: Efficiency) -> Operators:
    """Every operator from the sizes of the model and the peaks of the GPU."""
    arithmetic = deployment.arithmetic
    return Operators(
        RooflineProducts(deployment, efficiency),
        RooflineAttention(deployment, efficiency),
        AllReduce(deployment, efficiency),
        f"roofline with products at {efficiency.flop_share(arithmetic):.0%} of peak FLOP/s and "
        f"{efficiency.bandwidth_share(arithmetic):.0%} of bandwidth ({efficiency.source})",
    )


class RooflineProducts:
    """See Products. A product costs its kernel, and its arithmetic or its reading, if longer."""

    def __init__(self, deployment: Deployment, efficiency: Efficiency) -> None:
        self._deployment = deployment
        self._efficiency = efficiency
        model, bandwidth = deployment.model, deployment.hardware.bandwidth_bytes_per_s
        # Read and written for each token and layer: two norms with the residual added, queries and
        # keys rotated, what lies between the halves of the feed-forward network (a GPU's share).
        d_ff = model.d_ff / deployment.tensor_parallel_size
        d_between = (model.num_up_matrices + 1) * d_ff * max(model.num_experts_per_token, 1)
        widths = 8 * model.d_model + d_between
        between_bytes = model.num_layers * widths * deployment.activation_bytes
        self._between_s = model.num_layers * _NUM_ELEMENTWISE * efficiency.kernel_s
        share = efficiency.bandwidth_share(deployment.activation_arithmetic)
        self._between_token_s = between_bytes / (bandwidth * share)

    def layers_s(self, num_tokens: int) -> float:
        """See Products."""
        deployment = self._deployment
        layers = sum(
            m.num_layers * self.product_s(m, num_tokens) for m in deployment.layer_matrices
        )
        experts = sum(self._experts_s(m, num_tokens) for m in deployment.expert_matrices)
        between = self._between_s + num_tokens * self._between_token_s
        return layers + experts + between

    def rows_s(self, num_rows: int) -> float:
        """See Products. Sampling is not counted."""
        return self.product_s(self._deployment.output_matrix, num_rows)

    def product_s(self, matrix: Matrix, num_tokens: int) -> float:
        """One product of num_tokens with a matrix."""
        return self._roofline_s(matrix, num_tokens, matrix.weight_bytes)

    def _experts_s(self, matrix: Matrix, num_tokens: int) -> float:
        """Products in all layers with one matrix of each expert: those that are chosen are read."""
        model = self._deployment.model
        num_read = num_experts_touched(model.num_experts, model.num_experts_per_token, num_tokens)
        num_rows = num_tokens * model.num_experts_per_token
        return matrix.num_layers * self._roofline_s(
            matrix, num_rows, num_read * matrix.weight_bytes
        )

    def _roofline_s(self, matrix: Matrix, num_tokens: int, weight_bytes: float) -> float:
        efficiency, hardware = self._efficiency, self._deployment.hardware
        flop_per_s = hardware.peak(matrix.arithmetic) * efficiency.flop_share(matrix.arithmetic)
        bytes_per_s = hardware.bandwidth_bytes_per_s * efficiency.bandwidth_share(matrix.arithmetic)
        activations = num_tokens * (matrix.k + matrix.n) * self._deployment.activation_bytes
        return efficiency.kernel_s + max(
            2 * matrix.k * matrix.n * num_tokens / flop_per_s,
            (weight_bytes + activations) / bytes_per_s,
        )


def num_experts_touched(num_experts: int, num_experts_per_token: int, num_tokens: int) -> float:
    """Experts that at least one of the tokens chooses, if each chooses at random.

    >>> num_experts_touched(8, 2, 1)
    2.0
    """
    return float(num_experts * (1 - (1 - num_experts_per_token / num_experts) ** num_tokens))


class RooflineAttention:
    """See Attention. Decodes read K/V; prefill chunks compute, and read and write their own rows.

    The longer of arithmetic and reading counts for decodes, both for chunks: what the kernels of
    GPUs show (docs/latency.md).
    """

    def __init__(self, deployment: Deployment, efficiency: Efficiency) -> None:
        model, hardware = deployment.model, deployment.hardware
        arithmetic = deployment.activation_arithmetic
        peak, bandwidth = hardware.peak(arithmetic), hardware.bandwidth_bytes_per_s
        pair_flop = deployment.attention_flop_per_pair
        self._window = model.sliding_window
        self._window_share = model.num_window_layers / model.num_layers
        self._pair_s = pair_flop / (peak * efficiency.attention_flop)
        kv_bytes, flop_s = (
            deployment.kv_bytes_per_token,
            pair_flop / (peak * efficiency.flop_share(arithmetic)),
        )
        self._decode_s = max(kv_bytes / (bandwidth * efficiency.attention_bandwidth), flop_s)
        self._mixed_decode_s = max(
            kv_bytes / (bandwidth * efficiency.mixed_attention_bandwidth), flop_s
        )
        # Queries are read and outputs written, of every head; K/V of the chunk as well.
        num_heads = model.num_layers * model.num_heads / deployment.tensor_parallel_size
        row_bytes = 2 * num_heads * model.head_size * deployment.activation_bytes + kv_bytes
        self._row_s = row_bytes / (bandwidth * efficiency.bandwidth_share(arithmetic))
        self._key_s = model.num_layers * efficiency.attention_key_s
        self._decode_kernels_s = model.num_layers * efficiency.attention_s
        self._prefill_kernels_s = model.num_layers * efficiency.prefill_attention_s

    def decode_curve(self, num_decodes: int) -> Curve:
        """See Attention."""
        if not self._window_share:
            return Curve.line(self._decode_kernels_s, self._decode_s)
        knot = float(num_decodes * self._window)
        beyond_s = self._decode_s * (1 - self._window_share)
        return Curve(
            [0.0, knot],
            [self._decode_kernels_s, self._decode_kernels_s + knot * self._decode_s],
            [self._decode_s, beyond_s],
        )

    def mixed_s(self, num_decodes: int, decode_context_tokens: int, prefills: Prefills) -> float:
        """See Attention."""
        share, window = self._window_share, self._window
        num_read = (1 - share) * decode_context_tokens
        num_read += share * min(decode_context_tokens, num_decodes * window)
        seconds = self._prefill_kernels_s + num_read * self._mixed_decode_s
        for num_tokens, _ in prefills:
            seconds += num_tokens * self._row_s
        seconds += (1 - share) * self._chunks_s(prefills, None)
        return seconds + (share * self._chunks_s(prefills, window) if share else 0)

    def _chunks_s(self, prefills: Prefills, window: int | None) -> float:
        """The arithmetic of all chunks, or one's way through its context if that takes longer."""
        pairs = longest = 0
        for num_tokens, context in prefills:
            pairs += num_pairs(num_tokens, context, window)
            longest = max(longest, context)
        num_keys = longest if window is None else min(longest, window)
        return max(pairs * self._pair_s, num_keys * self._key_s)
