"""vLLM's names of number types, and kvsim's."""

import re

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

# Formats of files that hold weights of several types; the name of the model mostly says which.
_FORMATS = ("compressed-tensors", "modelopt", "quark")
_BY_NAME = {"fp8": r"fp8|w8a8-f", "int4": r"int4|4bit|w4a16|awq|gptq"}


def quantization_by_name(model: str) -> str | None:
    """Of the weights of a model by its name; None where that says nothing of it.

    >>> quantization_by_name("RedHatAI/Qwen3-8B-FP8-dynamic")
    'fp8'
    """
    found = [key for key, pattern in _BY_NAME.items() if re.search(pattern, model.lower())]
    return found[0] if len(found) == 1 else None


def set_quantization(draft: Draft, value: str, model: str, comment: str) -> None:
    """`deployment.quantization` by vLLM's method, or, of a format of files, by the model's name."""
    by_name = quantization_by_name(model) if value in _FORMATS else None
    if by_name:
        draft.set("deployment.quantization", by_name, f"{comment}, by the model's name")
    else:
        set_type(draft, "quantization", value, comment)


def set_type(draft: Draft, key: str, value: str, comment: str) -> None:
    """A key of `deployment` by vLLM's name of a type; one that kvsim does not have is a note."""
    name = value.removeprefix("torch.")
    if name in TYPES[key]:
        draft.set(f"deployment.{key}", TYPES[key][name], comment)
    else:
        default = DeploymentSpec.model_fields[key].default
        draft.note(f"Not in kvsim, left at {default}: deployment.{key} ({comment}).")
