"""Every citation in the sources: what docstrings, comments and documents refer to."""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import aggregator

ROOT = Path(aggregator.__file__).parents[1]
_KEY = re.compile(r"\[([A-Z][A-Za-z]+[0-9]{2})\]")
_DOCUMENT = re.compile(r"\s*(VDAF|DAP|RFC \d+|FIPS \d+|draft-[a-z0-9-]+)\b(?!')")
_TITLE = re.compile(r'"([^"]+)"')


def python_files() -> list[Path]:
    return sorted([*ROOT.glob("aggregator/**/*.py"), *ROOT.glob("field/**/*.py")])


def documents() -> list[Path]:
    named = [path for path in ROOT.glob("docs/**/*.md") if path.name != "sources.md"]
    return sorted([*named, ROOT / "README.md"])


def cited_keys() -> dict[str, set[Path]]:
    """Keys of papers, anywhere in code and documents, and where they are cited."""
    found: dict[str, set[Path]] = defaultdict(set)
    for path in [*python_files(), *documents()]:
        for key in _KEY.findall(path.read_text(encoding="utf-8")):
            found[key].add(path)
    return found


def cited_titles() -> dict[tuple[str, str], set[Path]]:
    """Documents and titles of their sections under `Source:`, and where they are cited."""
    found: dict[tuple[str, str], set[Path]] = defaultdict(set)
    for path in python_files():
        for source in sources_of(path):
            for citation in source.split(";"):
                document = _DOCUMENT.match(citation)
                if document is not None:
                    for title in _TITLE.findall(citation):
                        found[document[1], title].add(path)
    return found


def cited_documents() -> set[str]:
    """Standards and drafts that stand under `Source:`, with or without a section."""
    return {
        document[1]
        for path in python_files()
        for source in sources_of(path)
        for citation in source.split(";")
        if (document := _DOCUMENT.match(citation)) is not None
    }


@functools.cache
def sources_of(path: Path) -> list[str]:
    """What a module's docstrings say under `Source:`."""
    return list(_sources(path))


def _sources(path: Path) -> Iterator[str]:
    code = path.read_text(encoding="utf-8")
    if "Source:" not in code:  # which saves parsing most of them
        return
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if "Source:" in text:
                yield " ".join(text.split("Source:", 1)[1].split())
