"""Results of single runs on disk, each under a hash of what decides it."""

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


class Store:
    """A folder of results, `AB/ABCDEF....json`, which several processes may fill at once.

    A result appears whole or not at all, whenever a process is killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Row | None:
        """The result of a run; None if there is none, or none that can be read."""
        try:
            row: Row = json.loads(self._path(key).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return row if isinstance(row, dict) and row else None

    def put(self, key: str, row: Row) -> None:
        """Keep a result. Raises UserError where the folder cannot be written to."""
        with whole_file(self._path(key)) as path:
            path.write_text(json.dumps(row), "utf-8")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
