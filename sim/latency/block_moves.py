"""What it costs to copy blocks: to the host and back, and within a GPU."""

from dataclasses import dataclass

from engine.config import EngineConfig
from engine.step import Step
from sim import catalogue
from sim.latency.model import LatencyModel
from sim.scenario import ProfileSpec, RooflineSpec, Scenario, SiliconSpec
from sim.scenario.deployed import build_deployment


@dataclass(frozen=True)
class BlockMoves:
    """A latency model, and before a step computes anything the time of its copies.

    swap_s: of a block, to the host or back. copy_s: of a block within the GPU.
    """

    latency: LatencyModel
    swap_s: float
    copy_s: float

    @property
    def wake_ns(self) -> int:
        """See LatencyModel."""
        return self.latency.wake_ns

    def step_time_ns(self, step: Step) -> int:
        """See LatencyModel."""
        out, back, within = step.moves
        moves_s = (len(out) + len(back)) * self.swap_s + len(within) * self.copy_s
        return self.latency.step_time_ns(step) + round(moves_s * 1e9)

    def decode_times_ns(self, num_seqs: int, context_tokens: int, num_steps: int) -> list[int]:
        """See LatencyModel. Nothing is copied in these."""
        return self.latency.decode_times_ns(num_seqs, context_tokens, num_steps)


def with_block_moves(
    latency: LatencyModel, scenario: Scenario, config: EngineConfig
) -> LatencyModel:
    """The latency model of a system whose blocks may be copied; the same where none ever are.

    A block is swapped at `deployment.swap_bandwidth_bytes_per_s`. Within a GPU it is read and
    written, at the share of its bandwidth that products reach, unless step times are of no GPU in
    particular: then that is free.
    """
    if config.preemption != "swap" and scenario.workload.n == 1:
        return latency
    deployment = build_deployment(scenario)
    block_bytes = config.block_size * deployment.kv_bytes_per_token
    copy_s = 0.0
    if isinstance(scenario.latency, RooflineSpec | ProfileSpec | SiliconSpec):
        hardware = deployment.hardware
        share = catalogue.load_efficiency(hardware.name).bandwidth_share("bf16")
        copy_s = 2 * block_bytes / (hardware.bandwidth_bytes_per_s * share)
    swap_s = block_bytes / scenario.deployment.swap_bandwidth_bytes_per_s
    return BlockMoves(latency, swap_s, copy_s)
