"""What the name of a folder says: GPU, model and quantization, as in h100-llama-70b-fp8-burst."""

import re
from typing import NamedTuple

from sim import catalogue
from sim.errors import UserError

# Where the name gives no size of the memory.
_DEFAULT_MEMORY = {"h100": "h100-80gb", "a100": "a100-80gb", "v100": "v100-32gb"}
_KINDS = r"-(closed-?loop|burst|static-?batch|static|dp\d+ep\d+|[dt]p\d+|trace)(?=-|$)"
# How weights were quantized, in names of models and settings of vLLM -> their numbers.
QUANTIZED = {"fp8": "fp8", "int4": "int4", "awq": "int4", "gptq": "int4", "w4a16": "int4"}
_QUANTIZED = rf"(?:^|[-_.])({'|'.join(QUANTIZED)})(?=[-_.]|$)"
_ALIASES = {"llama-70b": "llama-3.3-70b", "llama-8b": "llama-3.1-8b"}


class Named(NamedTuple):
    """A GPU of the catalogue, a model of it (None where the name has none), a quantization."""

    hardware: str
    model: str | None
    quantization: str


def parse_folder_name(name: str) -> Named:
    """See Named. Raises UserError for a name without a GPU or with an unknown model."""
    plain = re.sub(_KINDS, "", name.lower())
    hardware, rest = _split_hardware(plain, name)
    quantization = quantization_in(rest)
    rest = re.sub(_QUANTIZED, "", rest).strip("-")
    try:
        model = catalogue.find_model(_ALIASES.get(rest, rest)) if rest else None
    except UserError as error:
        raise UserError(f"{name}: the model in the folder's name: {error}") from None
    return Named(hardware, model, quantization)


def quantization_in(name: str) -> str:
    """Of the weights, as the name of a model or of a method says; `auto` where it says nothing."""
    found = re.search(_QUANTIZED, name.lower())
    return QUANTIZED[found[1]] if found else "auto"


def _split_hardware(plain: str, name: str) -> tuple[str, str]:
    """The GPU at the beginning of a name, written with or without hyphens, and what follows it."""
    keys = {key: key for key in catalogue.names("hardware")} | _DEFAULT_MEMORY
    for key in sorted(keys, key=len, reverse=True):
        pattern = "-?".join(re.escape(part) for part in key.split("-"))
        if found := re.match(rf"{pattern}(?=-|$)", plain):
            return keys[key], plain[found.end() :]
    raise UserError(
        f"{name}: no GPU at the beginning of the folder's name; expected one of "
        f"{', '.join(sorted(keys))}"
    )
