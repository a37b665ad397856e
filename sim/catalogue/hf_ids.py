"""Finds a model of the catalogue by its id on Hugging Face, however it ends there."""

import difflib
from collections.abc import Iterator, Mapping, Sequence

from sim.errors import UserError

# Endings of models of the same sizes: formats, tuned versions, types of the weights.
_ENDINGS = (
    *("-hf", "-instruct", "-instruct-2507", "-thinking-2507", "-chat", "-base", "-it"),
    *("-fp8", "-fp8-dynamic", "-awq", "-awq-int4", "-gptq", "-gptq-int4", "-bf16"),
)


def key_of(name: str, hf_ids: Mapping[str, Sequence[str]]) -> str:
    """The key under which a name or an id stands in hf_ids, found with as little cut off as can be.

    Raises UserError.
    """
    known = {form: key for key, ids in hf_ids.items() for hf_id in ids for form in _forms(hf_id)}
    known |= {key.lower(): key for key in hf_ids}
    shortest = ""
    for shortest in _forms(name):
        if shortest in known:
            return known[shortest]
    close = difflib.get_close_matches(shortest, known, n=3)
    keys = " or ".join(dict.fromkeys(known[form] for form in close))
    hint = f"; did you mean {keys}?" if keys else f": {', '.join(sorted(hf_ids))}"
    raise UserError(
        f"got {name!r}, expected the path of a config.json or a model of the catalogue{hint}"
    )


def _forms(name: str) -> Iterator[str]:
    """A name without its organisation, and without one ending after the other.

    "Qwen/Qwen3-8B-FP8" -> "qwen/qwen3-8b-fp8", "qwen3-8b-fp8", "qwen3-8b"
    """
    form = name.strip().lower()
    yield form
    form = form.rpartition("/")[2]
    yield form
    while endings := [ending for ending in _ENDINGS if form.endswith(ending)]:
        form = form.removesuffix(max(endings, key=len))
        yield form
