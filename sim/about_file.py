"""The file of a folder that says what its results rest on, and vouches for those beside it."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sim.errors import UserError

_FILES, _OWN = "files", "digest"  # name -> digest, and that of all else here


def about_text(about: dict[str, Any], folder: Path, names: Iterable[str]) -> str:
    """JSON of plain data, and of the digests of files that are in the folder already."""
    files = {name: _digest(folder / name) for name in sorted(names)}
    whole = {**about, _FILES: files}
    return json.dumps({**whole, _OWN: _own_digest(whole)}, indent=1) + "\n"


def read_about(path: Path, remedy: str) -> dict[str, Any]:
    """What it says.

    Raises UserError, with what to do about it, where it is damaged or a file that it vouches for is
    not what it was.
    """
    try:
        about: dict[str, Any] = json.loads(path.read_text("utf-8"))
        is_whole = about.pop(_OWN) == _own_digest(about)
        files = about[_FILES].items()
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}; {remedy}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(f"{path}: is damaged, or of another version; {remedy}") from None
    if not is_whole:
        raise UserError(f"{path}: has changed since; {remedy}")
    for name, digest in files:
        vouched = path.parent / name
        try:
            is_as_it_was = _digest(vouched) == digest
        except OSError as error:
            raise UserError(f"{vouched}: {(error.strerror or str(error)).lower()}") from None
        if not is_as_it_was:
            raise UserError(f"{vouched}: is missing or has changed since; {remedy}")
    return about


def _own_digest(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def _digest(path: Path) -> str | None:
    """None: there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
