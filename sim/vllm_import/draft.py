"""A scenario with a comment on where each value is from, written so that `kvsim run` reads it."""

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim import catalogue
from sim.errors import UserError
from sim.scenario.deployed import build_deployment
from sim.scenario.file import points
from sim.scenario.keys import set_key
from sim.scenario.mistakes import validated
from sim.scenario.yaml_text import parse, to_yaml
from sim.whole_file import refuse_existing, whole_file

PLACEHOLDER_MODEL = "llama-3.1-8b"
_WIDTH = 98
_TOP = ("name", "model", "hardware", "engine", "deployment", "workload")


@dataclass
class Draft:
    """A scenario in the making. Keys are dotted paths, in the order in which they are written.

    about: lines at the top of the file. values: key -> (value, comment).
    """

    source: str
    about: list[str] = field(default_factory=list)
    values: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def set(self, key: str, value: Any, comment: str) -> None:
        """Write a key, and where its value is from."""
        self.values[key] = (value, comment)

    def note(self, text: str) -> None:
        """A line at the top of the file."""
        self.about.append(text)

    def text(self) -> str:
        """The file. Raises UserError where what was imported makes no scenario."""
        self._drop_what_the_model_cannot_do()
        lines = [line for each in self.about for line in textwrap.wrap(_printable(each), _WIDTH)]
        text = "".join(f"# {line}\n" for line in lines) + self._body()
        points(validated(parse(text, self.source), self.source), self.source)
        return text

    def as_data(self) -> dict[str, Any]:
        """The same for programs. Raises UserError as `text` does."""
        self.text()
        values = {
            key: {"value": value, "from": comment} for key, (value, comment) in self.values.items()
        }
        return {"about": self.about, "values": values}

    def _drop_what_the_model_cannot_do(self) -> None:
        """Such as a model that stands for another, on a number of GPUs that cannot share it."""
        for key in ("deployment.quantization", "deployment.tensor_parallel_size"):
            try:
                build_deployment(validated(self._data(), self.source))
            except UserError as error:
                if key in self.values and f"{key}: " in str(error):
                    value, comment = self.values.pop(key)
                    self.note(f"Left out, {key}: {value} ({comment}), for {error}.")

    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, (value, _) in self.values.items():
            set_key(data, key.split("."), value, self.source)
        return data

    def _body(self) -> str:
        lines: list[str] = []
        for top in _TOP:
            of_top = [(k, v) for k, v in self.values.items() if k.partition(".")[0] == top]
            if any("." in key for key, _ in of_top):
                lines.append(f"{top}:")
            for key, (value, comment) in of_top:
                indent = "  " * key.count(".")
                lines.append(f"{indent}{key.rpartition('.')[2]}: {_in_line(value)}")
                lines[-1] += f"  # {_printable(comment)}"
        return "\n".join(lines) + "\n"


def _in_line(value: Any) -> str:
    """A value as it stands behind its key; a mapping in braces."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key}: {_in_line(each)}" for key, each in value.items())
        return f"{{{inside}}}"
    return to_yaml({"k": value}).removeprefix("k: ").strip()


def _printable(text: str) -> str:
    """On one line, with nothing that ends a comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def scenario_name(model: str) -> str:
    """A name of a scenario, of that of a model or its path."""
    stem = re.sub("[^A-Za-z0-9.]+", "-", model.strip("/").rpartition("/")[2]).strip("-.")
    return f"vllm-{stem}"[:40].rstrip("-.") if stem else "vllm"


def find_model(*names: str) -> str | None:
    """The model of the catalogue that a server calls by one of these names, None if there is none.

    A folder of the Hugging Face cache has the id in its name: `models--org--name/snapshots/...`.
    """
    for name in names:
        cached = re.search(r"models--([^/]+?)--([^/]+)", name)
        try:
            return catalogue.find_model("/".join(cached.groups()) if cached else name.strip("/"))
        except UserError:
            continue
    return None


def find_hardware(device_name: str) -> str | None:
    """The GPU of the catalogue with such a name of the driver: `NVIDIA_H100_80GB_HBM3`."""
    parts = set(re.split("[^a-z0-9]+", device_name.lower()))
    fitting = [name for name in catalogue.names("hardware") if set(name.split("-")) <= parts]
    return max(fitting, key=len, default=None)


def set_model(draft: Draft, names: list[str], comment: str) -> None:
    """The model by the names that a server has for it, or one that stands for it."""
    key = find_model(*names)
    if key is None:
        what = f"{names[0]!r} is not in the catalogue" if names else "not said"
        comment = f"{what} ({comment}): REPLACE, by the path of its config.json or another model"
    draft.set("model", key or PLACEHOLDER_MODEL, comment)


def write_draft(draft: Draft, out: Path | None) -> None:
    """To stdout, or into a new file. Raises UserError for a place that cannot be written to."""
    text = draft.text()
    if out is None:
        print(text, end="")
        return
    refuse_existing(out)
    with whole_file(out) as path:
        path.write_text(text, "utf-8")
