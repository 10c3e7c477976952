"""docs/sources.md lists the papers and standards that are cited, and no others."""

import re
from pathlib import Path

from tests.support.citations import ROOT, cited_documents, cited_keys, cited_titles

TEXT = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
PAPERS = set(re.findall(r"^- \[([A-Za-z]+[0-9]{2})\] ", TEXT, re.MULTILINE))
STANDARDS = set(re.findall(r"^- `([^`]+)`", TEXT, re.MULTILINE))


def where(paths: set[Path]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def test_every_paper_that_is_cited_is_listed() -> None:
    cited = cited_keys()
    assert len(cited) >= 10
    assert {key: where(paths) for key, paths in cited.items() if key not in PAPERS} == {}


def test_every_standard_that_is_cited_is_listed() -> None:
    assert cited_documents() - STANDARDS == set()


def test_nothing_is_listed_that_is_not_cited() -> None:
    assert PAPERS - cited_keys().keys() == set()
    assert STANDARDS - cited_documents() == set()


def test_sections_are_cited_by_title_and_not_by_number() -> None:
    cited = cited_titles()
    assert cited
    assert [
        (document, title, where(paths))
        for (document, title), paths in cited.items()
        if re.match(r"(section )?\d", title, re.IGNORECASE)
    ] == []
