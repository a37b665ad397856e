"""Who may import whom: the packages from each other, and the modules of `engine` one way down."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Besides the standard library and the package itself.
ALLOWED = {"engine": {"numpy"}, "workloads": {"numpy", "pandas"}}

# Each module imports only those named before it.
ENGINE_ORDER = [
    "eviction",
    "config",
    "tokenizer",
    "block_table",
    "request",
    "sequence",
    "allocator",
    "prefix_trie",
    "buddy",
    "host_blocks",
    "kv_manager",
    "kv_pool",
    "beams",
    "paged_kv",
    "contiguous_kv",
    "decode_batch",
    "step",
    "scheduler",
    "static",
    "continuous",
    "priority",
    "prefill_first",
    "longest_prefix",
    "engine_base",
    "replay_engine",
    "batch",
    "attention",
    "transformer",
    "sampling",
    "runners",
    "engine",
]


def imported_modules(path: Path) -> set[str]:
    """Dotted names of all that a file imports, wherever in it; `from a import b` gives a and a.b.

    A relative import is given as the absolute one it stands for.
    """
    names: set[str] = set()
    parents = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = parents[: len(parents) - node.level + 1] if node.level else ()
            module = ".".join([*package, *filter(None, [node.module])])
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


def engine_modules() -> list[str]:
    return sorted(path.stem for path in (ROOT / "engine").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_it_may(package):
    """Neither engine nor workloads imports the other, sim, or a library it does not need."""
    allowed = {package} | ALLOWED[package] | sys.stdlib_module_names
    for path in (ROOT / package).rglob("*.py"):
        imported = {name.partition(".")[0] for name in imported_modules(path)}
        assert imported <= allowed, f"{path.relative_to(ROOT)} imports {imported - allowed}"


def test_order_names_every_engine_module():
    """A new module has to find its place in the order."""
    assert engine_modules() == sorted(ENGINE_ORDER)


@pytest.mark.parametrize("module", engine_modules())
def test_engine_module_imports_only_those_before_it(module):
    before = ENGINE_ORDER[: ENGINE_ORDER.index(module)]
    names = [name.split(".") for name in imported_modules(ROOT / "engine" / f"{module}.py")]
    imported = {parts[1] for parts in names if parts[0] == "engine" and len(parts) > 1}
    assert imported <= set(before), f"{module} imports {imported - set(before)}"
