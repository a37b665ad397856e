"""What `kvsim profile-gpu` does: time a model's operators on this machine's GPU, write tables."""

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.catalogue import load_model
from sim.errors import UserError
from sim.profile_gpu.points import points_for
from sim.profile_gpu.shard import shard_of
from sim.progress import progress_bar
from sim.run_folder import new_folder

if TYPE_CHECKING:
    from sim.profile_gpu.measure import Profile

_NO_TORCH = "torch cannot be imported ({error}): pip install 'kvsim[gpu]'"
_UNITS = {
    "time_us": "microseconds that one call keeps the device busy, median",
    "tokens": "tokens of a step",
    "sequences": "sequences that are sampled from",
    "activated_experts": "experts that at least one token is computed by",
    "prefill_chunk": "new tokens of one prompt",
    "kv_prefill": "tokens of that prompt in the cache before them",
    "n_decode": "sequences that decode",
    "kv_decode": "tokens that each of them attends to, its own included",
}


def profile_gpu(
    model_name: str, out: Path, *, device: str, tensor_parallel_size: int, max_tokens: int
) -> None:
    """Time one layer of a GPU's shard of a model and write the tables into a new folder `out`.

    device: cuda or cpu. max_tokens: of a step. Raises UserError for mistakes of the user.
    """
    if out.exists():
        raise UserError(f"{out}: exists already and is not overwritten")
    model = load_model(model_name)
    torch = _find_torch(device)
    dtype = model.dtype if device == "cuda" else "float32"
    shard = shard_of(model, tensor_parallel_size, dtype)
    points = points_for(model, max_tokens)

    from sim.profile_gpu.measure import Bench, measure_shard, num_points
    from sim.profile_gpu.tensors import Tensors
    from sim.profile_gpu.timing import CpuTimer, CudaTimer

    tensors = Tensors(device, getattr(torch, dtype))
    with new_folder(out) as partial, progress_bar() as progress:
        task = progress.add_task(model_name, total=num_points(shard, tensors, points))
        timer = CudaTimer() if device == "cuda" else CpuTimer()
        profile = measure_shard(
            shard, points, Bench(tensors, timer, lambda: progress.advance(task))
        )
        about = {
            "model": model_name,
            "title": model.title,
            "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
            "torch": torch.__version__,
            "dtype": dtype,
            "tensor_parallel_size": tensor_parallel_size,
            "max_tokens": max_tokens,
        }
        _write(partial, f"tp{tensor_parallel_size}_", about, profile)
    _report(profile, out)


def _find_torch(device: str) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise UserError(_NO_TORCH.format(error=" ".join(str(error).split()))) from None
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "--device cuda: torch sees no such GPU here; --device cpu shows what would be timed"
        )
    return torch


def _write(folder: Path, prefix: str, about: dict[str, Any], profile: "Profile") -> None:
    columns: set[str] = set()
    for name, table in profile.tables.items():
        table.to_csv(folder / f"{prefix}{name}.csv", index=False, float_format="%.6g")
        columns.update(table.columns)
    about = {
        **about,
        "kernels": profile.kernels,
        "points_left_out": profile.left_out,
        "units": {name: unit for name, unit in _UNITS.items() if name in columns},
    }
    (folder / f"{prefix}profile.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")


def _report(profile: "Profile", out: Path) -> None:
    num_timed = sum(len(table) for table in profile.tables.values())
    num_left_out = sum(profile.left_out.values())
    print(f"attention: {profile.kernels['attention']}", file=sys.stderr)
    if num_left_out:
        print(f"{num_left_out} points left out for want of memory", file=sys.stderr)
    print(f"{num_timed} times written to {out}", file=sys.stderr)
