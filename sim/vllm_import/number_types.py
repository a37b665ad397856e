"""vLLM's names of number types, and kvsim's."""

from sim.scenario.engine import DeploymentSpec
from sim.vllm_import.draft import Draft

_FLOATS = {name: name for name in ("auto", "float32", "float16", "bfloat16")}
_FLOATS |= {"half": "float16", "float": "float32"}
_FP8_CACHE = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
_INT4 = ("awq", "awq_marlin", "gptq", "gptq_marlin", "auto_round")
TYPES = {
    "dtype": _FLOATS,
    "kv_cache_dtype": _FLOATS | dict.fromkeys(_FP8_CACHE, "fp8"),
    "quantization": {"None": "none", "mxfp4": "mxfp4", "gpt_oss_mxfp4": "mxfp4"}
    | dict.fromkeys(("fp8", "fbgemm_fp8", "ptpc_fp8"), "fp8")
    | dict.fromkeys(_INT4, "int4"),
}


def set_type(draft: Draft, key: str, value: str, comment: str) -> None:
    """A key of `deployment` by vLLM's name of a type; one that kvsim does not have is a note."""
    name = value.removeprefix("torch.")
    if name in TYPES[key]:
        draft.set(f"deployment.{key}", TYPES[key][name], comment)
    else:
        default = DeploymentSpec.model_fields[key].default
        draft.note(f"Not in kvsim, left at {default}: deployment.{key} ({comment}).")
