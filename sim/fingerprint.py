"""What decides a result, as a hash: settings, input files, versions, code."""

import hashlib
import json
import platform
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sim.errors import UserError
from sim.scenario.keys import map_paths
from workloads.readers import companions

_PACKAGES = ("engine", "workloads", "sim")
_LIBRARIES = ("kvsim", "numpy", "pandas", "scipy", "simpy")
# A word of the settings -> libraries, which need not be there, that take part where it is said.
_LIBRARIES_OF = {
    "silicon": ("aiconfigurator-core",),
    "tokenizer": ("sentencepiece", "tokenizers"),
}


def fingerprint(settings: Any, *besides: Any) -> str:
    """Hexadecimal digits of a hash of plain data, the files it stands for, versions and code.

    Unsorted: the order of keys is that of tables. Raises UserError for a file that cannot be read.
    """
    content = map_paths(settings, file_digest)
    decisive = json.dumps([content, versions(settings), code_digest(), *besides])
    return hashlib.sha256(decisive.encode()).hexdigest()


def versions(settings: Any) -> dict[str, str]:
    """Of what takes part in a result of these settings."""
    said = set(re.findall(r"\w+", json.dumps(settings)))
    wanted = [name for word, names in _LIBRARIES_OF.items() if word in said for name in names]
    found = {name: _version(name) for name in wanted}
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
        **{name: number for name, number in found.items() if number is not None},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def file_digest(path: str) -> str:
    """Of the content of a file and what is read with it, or of all in a folder.

    Raises UserError if it cannot be read.
    """
    try:
        if Path(path).is_dir():
            inside = [[file.name, file_digest(str(file))] for file in sorted(Path(path).iterdir())]
            return hashlib.sha256(json.dumps(inside).encode()).hexdigest()
        beside = [[one.name, _file_digest(one)] for one in companions(Path(path))]
        digest = _file_digest(Path(path))
        if not beside:
            return digest
        return hashlib.sha256(json.dumps([digest, beside]).encode()).hexdigest()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: {reason.lower()}") from None


def _file_digest(path: Path) -> str:
    stat = path.stat()
    return _digest(str(path), stat.st_mtime_ns, stat.st_size)


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
