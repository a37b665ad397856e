"""Text files as users have them: plain or gzipped, with or without a byte order mark."""

import gzip
import re
import zlib
from pathlib import Path

from workloads.checks import LARGEST_COUNT, cut
from workloads.errors import WorkloadError

_GZIP_MAGIC = b"\x1f\x8b"
_NO_TEXT = {  # what a file is by its first bytes
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PK\x03\x04": "a zip file, as those of Excel are",
    b"PAR1": "a Parquet file",
    b"\x89PNG": "a PNG image",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\xfd7zXZ": "compressed by xz",
    b"BZh": "compressed by bzip2",
    _GZIP_MAGIC: "gzipped twice",
}
_POINTER = b"version https://git-lfs.github.com/spec/"
_MOST_SHOWN = 10
_LONGEST_PROBLEM = 300  # letters
_COUNT = re.compile(r"([0-9]{1,10})(\.0+)?")


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, unzipped if its first bytes say gzip, without byte order mark.

    Raises WorkloadError, naming the file, for one that cannot be read, unzipped or decoded.
    """
    return decoded(read_bytes(path), str(path))


def read_bytes(path: str | Path) -> bytes:
    """What is in a file. Raises WorkloadError as `read_text` does."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror}") from error
    _refuse_pointer(data, str(path))
    return data


def decoded(data: bytes, name: str) -> str:
    """The same of bytes; `name` is where they are from."""
    _refuse_pointer(data, name)
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise WorkloadError(f"{name}: broken or truncated gzip: {error}") from error
    for magic, what in _NO_TEXT.items():
        if data.startswith(magic):
            raise WorkloadError(f"{name}: is {what}, expected UTF-8 text, plain or gzipped once")
    try:
        text = data.decode("utf-8-sig")
        place = data.find(b"\0")  # is UTF-8, but in no text; UTF-16 without a mark is full of it
    except UnicodeDecodeError as error:
        text, place = "", error.start
    if place >= 0:
        line = data.count(b"\n", 0, place) + 1
        byte = f"0x{data[place]:02x}"
        raise WorkloadError(f"{name}: line {line}: got byte {byte}, expected UTF-8 text")
    return text


def _refuse_pointer(data: bytes, name: str) -> None:
    if data.startswith(_POINTER):
        raise WorkloadError(
            f"{name}: is a pointer of Git LFS, not the data; get it with `git lfs pull`"
        )


def parse_count(text: str, lowest: int = 1) -> int | None:
    """The integer from `lowest` (1 or 0) to LARGEST_COUNT that `text` plainly is, else None.

    Plain are `500` and `500.0`.
    """
    match = _COUNT.fullmatch(text)
    if match is None:
        return None
    value = int(match[1])
    return value if lowest <= value <= LARGEST_COUNT else None


def bad_file(name: str | Path, problems: list[str]) -> WorkloadError:
    """One error for everything wrong in a file; the first ten are shown, the others counted."""
    shown = [cut(problem, _LONGEST_PROBLEM) for problem in problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        shown.append(f"and {len(problems) - _MOST_SHOWN} more")
    return WorkloadError(f"{name}: {'; '.join(shown)}")
