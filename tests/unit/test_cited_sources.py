"""docs/sources.md lists what is cited, and nothing that is not."""

import re
from pathlib import Path

from tests.support.citations import (
    ROOT,
    cited_documents,
    cited_keys,
    cited_titles,
)

TEXT = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
PAPERS = set(re.findall(r"^- \[([A-Za-z]+[0-9]{2})\] ", TEXT, re.MULTILINE))


def listed_titles() -> dict[str, set[str]]:
    entries = re.split(r"^- `", TEXT.split("## Papers")[0], flags=re.MULTILINE)[1:]
    listed = {}
    for entry in entries:
        document, _, rest = entry.partition("`")
        # Titles are wrapped like text.
        listed[document] = set(re.findall(r'"([^"]+)"', " ".join(rest.split())))
    return listed


def where(paths: set[Path]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def test_every_paper_that_is_cited_is_listed() -> None:
    cited = cited_keys()
    assert len(cited) >= 10
    assert {key: where(paths) for key, paths in cited.items() if key not in PAPERS} == {}


def test_every_section_that_is_cited_is_listed_under_its_document() -> None:
    cited, listed = cited_titles(), listed_titles()
    assert len(cited) >= 60
    unlisted = {
        (document, title): where(paths)
        for (document, title), paths in cited.items()
        if title not in listed.get(document, set())
    }
    assert unlisted == {}


def test_every_standard_that_is_cited_is_listed() -> None:
    assert cited_documents() - listed_titles().keys() == set()


def test_nothing_is_listed_that_is_not_cited() -> None:
    assert PAPERS - cited_keys().keys() == set()
    titles = {(document, title) for document, ts in listed_titles().items() for title in ts}
    assert titles - cited_titles().keys() == set()


def test_sections_are_cited_by_title_and_not_by_number() -> None:
    numbered = {
        (document, title)
        for document, title in cited_titles()
        if re.match(r"(section )?\d", title, re.IGNORECASE)
    }
    assert numbered == set()
