"""Roofline: every operator is bound by the GPU's arithmetic or by its memory bandwidth.

Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009.
"""

from sim.catalogue import Hardware, Model
from sim.latency.model import FormulaLatency


class RooflineLatency(FormulaLatency):
    """Time of a step of a model on one GPU.

    Matrix products: 2 FLOPs per weight and token, all weights read once a step. Attention: 4 FLOPs
    per head dimension and (query, context) pair, all K/V of the contexts read once. Each takes the
    larger of its arithmetic and its memory time, one after the other.

    flop_efficiency, bandwidth_efficiency: achieved shares of the peaks. overhead_s: what a step
    costs besides, on the host.
    """

    def __init__(
        self,
        model: Model,
        hardware: Hardware,
        *,
        flop_efficiency: float,
        bandwidth_efficiency: float,
        overhead_s: float,
    ) -> None:
        s_per_flop = 1 / (hardware.peak_flop_per_s * flop_efficiency)
        s_per_byte = 1 / (hardware.bandwidth_bytes_per_s * bandwidth_efficiency)
        read = model.num_layer_matrix_parameters + model.num_output_parameters
        self._weights_s = read * model.bytes_per_parameter * s_per_byte
        self._layers_s_per_token = 2 * model.num_layer_matrix_parameters * s_per_flop
        self._output_s_per_row = 2 * model.num_output_parameters * s_per_flop
        self._attention_s_per_pair = model.attention_flop_per_pair * s_per_flop
        self._kv_s_per_token = model.kv_bytes_per_token * s_per_byte
        self._overhead_s = overhead_s

    def decode_line(self, num_decodes: int) -> tuple[float, float]:
        """See FormulaLatency. Every decode attends to as many tokens as it reads."""
        step_s = self._matrices_s(num_decodes, num_decodes) + self._overhead_s
        return step_s, max(self._attention_s_per_pair, self._kv_s_per_token)

    def seconds(
        self, num_decodes: int, decode_context_tokens: int, prefills: list[tuple[int, int]]
    ) -> float:
        """See FormulaLatency. Every prefill chunk is charged one row of the output projection."""
        num_tokens, num_pairs = num_decodes, decode_context_tokens
        num_context_tokens = decode_context_tokens
        for num_chunk_tokens, context in prefills:
            num_tokens += num_chunk_tokens
            num_context_tokens += context + num_chunk_tokens
            # Query k of the chunk attends to context + k tokens, k = 1 ... num_chunk_tokens.
            num_pairs += num_chunk_tokens * context
            num_pairs += num_chunk_tokens * (num_chunk_tokens + 1) // 2
        attention_s = max(
            num_pairs * self._attention_s_per_pair, num_context_tokens * self._kv_s_per_token
        )
        num_rows = num_decodes + len(prefills)
        return attention_s + (self._matrices_s(num_tokens, num_rows) + self._overhead_s)

    def _matrices_s(self, num_tokens: int, num_rows: int) -> float:
        """Products of all tokens with the layers, and of rows with the output projection."""
        return max(
            self._weights_s,
            num_tokens * self._layers_s_per_token + num_rows * self._output_s_per_row,
        )
