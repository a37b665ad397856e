"""Results of single runs on disk, each under a hash of what decides it."""

import hashlib
import json
from pathlib import Path

from sim.experiment import Job
from sim.fingerprint import fingerprint
from sim.metrics import Row
from sim.scenario.file import plain
from sim.steady import Warmup
from sim.whole_file import whole_file


def key_of(job: Job, warmup: Warmup, *besides: str) -> str:
    """The hash. What a run is called, and what else is compared with it, decides nothing.

    besides: what else decides.

    Raises UserError for an input file that cannot be read.
    """
    settings = plain(job.scenario.model_copy(update={"sweep": {}}))
    for key in ("name", "replications", "systems", "sweep"):
        settings.pop(key, None)
    settings["engine"] = job.scenario.engine_settings(job.system)
    return fingerprint(settings, str(warmup), *besides)[:32]


def _digest(key: str, row: Row) -> str:
    """Of a result and of what it is the result of; JSON reads back as what it was written from."""
    return hashlib.sha256(json.dumps([key, row]).encode()).hexdigest()


class Store:
    """A folder of results, `AB/ABCDEF....json`, which several processes may fill at once.

    A result appears whole or not at all, whenever a process is killed; one that was changed since
    is none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Row | None:
        """The result of a run; None if there is none, or it is not as it was kept."""
        try:
            kept = json.loads(self._path(key).read_text("utf-8"))
            row: Row = kept["row"]
            is_as_it_was = kept["digest"] == _digest(key, row)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return row if is_as_it_was else None

    def put(self, key: str, row: Row) -> None:
        """Keep a result. Raises UserError where the folder cannot be written to."""
        with whole_file(self._path(key)) as path:
            path.write_text(json.dumps({"row": row, "digest": _digest(key, row)}), "utf-8")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
