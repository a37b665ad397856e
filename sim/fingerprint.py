"""What decides a result, as a hash: settings, input files, versions, code."""

import hashlib
import json
import platform
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sim.errors import UserError
from sim.scenario.keys import map_paths

_PACKAGES = ("engine", "workloads", "sim")


def fingerprint(settings: Any, *besides: Any) -> str:
    """Hexadecimal digits of a hash of plain data, the files named in it, versions and code.

    Unsorted: the order of keys is that of tables. Raises UserError for a file that cannot be read.
    """
    content = map_paths(settings, file_digest)
    decisive = json.dumps([content, versions(), code_digest(), *besides])
    return hashlib.sha256(decisive.encode()).hexdigest()


def versions() -> dict[str, str]:
    """Of what takes part in a result."""
    names = ("kvsim", "numpy", "pandas", "simpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def file_digest(path: str) -> str:
    """Of the content of a file, or of all in a folder. Raises UserError if it cannot be read."""
    try:
        if Path(path).is_dir():
            inside = [[file.name, file_digest(str(file))] for file in sorted(Path(path).iterdir())]
            return hashlib.sha256(json.dumps(inside).encode()).hexdigest()
        stat = Path(path).stat()
        return _digest(path, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: {reason.lower()}") from None


@cache
def _digest(path: str, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def code_digest() -> str:
    """Of all modules and data files of kvsim."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for file in _source_files(files(package)):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _source_files(folder: Traversable) -> list[Traversable]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _source_files(entry)
        elif entry.name.endswith((".py", ".toml")):
            found.append(entry)
    return found
