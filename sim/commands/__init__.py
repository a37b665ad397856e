"""The commands of `kvsim`, a file for each kind. Data goes to stdout, progress and notes to stderr.

What a command needs is imported in it, so that `kvsim --help` does not wait for numpy.
"""

# In the order in which `kvsim --help` lists their commands.
from sim.commands import running, seeing, planning, files, requests, real_time, published, vllm  # noqa: I001, their order
from sim.commands.app import app

__all__ = [
    "app",
    "files",
    "planning",
    "published",
    "real_time",
    "requests",
    "running",
    "seeing",
    "vllm",
]
