"""Files that appear by rename, never half-written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from sim.errors import UserError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to, which takes its place if all went well.

    Raises UserError for a place that cannot be written to.
    """
    partial = path.with_name(f".{path.stem}.partial-{os.getpid()}{path.suffix}")
    try:
        refuse_no_folder(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(path)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        with suppress(OSError):  # where not even the folder can be
            partial.unlink(missing_ok=True)


def refuse_no_folder(path: Path) -> None:
    """Raise UserError where what `path` lies in, as far as that is there, is no folder."""
    there = next(parent for parent in path.parents if parent.exists())
    if not there.is_dir():
        raise UserError(f"{path}: {there} is no folder")


def refuse_existing(path: Path) -> None:
    """Raise UserError where there is something already."""
    if path.exists():
        raise UserError(f"{path}: is there, expected a new file")


def check_suffix(path: Path, option: str, suffixes: tuple[str, ...]) -> None:
    """Raise UserError for a file whose name ends in none of these. option: which one named it."""
    if not (path.suffix and path.name.endswith(suffixes)):
        expected = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise UserError(f"{option}: got {str(path)!r}, expected a name ending in {expected}")


def refuse_unwritable(out: Path, folder: Path) -> None:
    """Raise UserError where nothing can be put into a folder below `--out`; nothing is left in it.

    For what writes into it late, after much was computed.
    """
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        TemporaryFile(dir=there).close()
    except OSError as error:
        raise UserError(
            f"--out: got {out}, but {folder} cannot be written to: "
            f"{(error.strerror or str(error)).lower()}"
        ) from None
