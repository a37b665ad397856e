"""The keys of a config.json: what is missing or wrong is one line that names file and key."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sim.errors import UserError

_LARGEST = 10_000_000  # of any size


@dataclass(frozen=True)
class ConfigKeys:
    """A mapping of a config.json, with its place in words: the file, or a key of it."""

    where: str
    data: dict[str, Any]

    def refuse(self, key: str, expected: str) -> NoReturn:
        """Raise what is wrong with a key."""
        came = f"got {_short(self.data[key])}" if key in self.data else "missing"
        raise UserError(f"{self.where}: {key}: {came}, expected {expected}")

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; null is as good as none, for so Hugging Face reads it."""
        value = self.data.get(key)
        return default if value is None else value

    def name_of(self, *synonyms: str) -> str:
        """The one of several names that a key has here; the first where it is missing."""
        return next((key for key in synonyms if self.get(key) is not None), synonyms[0])

    def size(self, *synonyms: str, default: int | None = None) -> int:
        """A whole number > 0. Raises UserError, also for none without a default."""
        key = self.name_of(*synonyms)
        value = self.get(key, default)
        if type(value) is not int or not 0 < value <= _LARGEST:
            self.refuse(key, f"a whole number from 1 to {_LARGEST:,}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false. Raises UserError."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def one_of(self, *synonyms: str, choices: tuple[str, ...]) -> str:
        """One of several words. Raises UserError."""
        key = self.name_of(*synonyms)
        value = self.get(key)
        if value not in choices:
            self.refuse(key, f"one of {', '.join(choices)}")
        return str(value)

    def part(self, key: str) -> "ConfigKeys":
        """The mapping at a key. Raises UserError."""
        value = self.get(key)
        if not isinstance(value, dict):
            self.refuse(key, "a mapping of keys")
        return ConfigKeys(f"{self.where}: {key}", value)


def read_config_keys(path: str) -> ConfigKeys:
    """The keys of a file. Raises UserError for one that is no JSON object."""
    try:
        data = json.loads(Path(path).read_text("utf-8-sig"), parse_constant=_refuse_constant)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: got {_short(data)}, expected a mapping of keys")
    return ConfigKeys(path, data)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
