"""No module imports another that imports it back, even for a type or within a function."""

import ast
import graphlib
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]


def modules() -> dict[str, Path]:
    """Return the file of each module, by its name."""
    files = [path for name in ("aggregator", "field") for path in (ROOT / name).rglob("*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files
    }


def imported(source: str, known: Collection[str]) -> set[str]:
    """Return which of the known modules are imported anywhere in a source."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = (f"{node.module}.{each.name}" for each in node.names)
            found |= {name if name in known else node.module for name in inner}
    return found.intersection(known)


def test_no_imports_go_in_a_circle() -> None:
    files = modules()
    graph = {name: imported(path.read_text("utf-8"), files) for name, path in files.items()}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, with the circle
