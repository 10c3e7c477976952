"""The tutorials, executed as they stand, one after the other in one folder."""

import shutil
from pathlib import Path

import pytest

from tests.support.tutorials import Tutorials, compare

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
NAMES = ("steward", "operator", "developer", "analyst", "auditor", "words")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl: apt-get install curl")
def test_each_tutorial_does_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {each.stem for each in FOLDER.glob("*.md")} == {"README", *NAMES}
    monkeypatch.chdir(tmp_path)
    with Tutorials(tmp_path) as tutorials:
        for name in NAMES:
            assert tutorials.execute(FOLDER / f"{name}.md") >= 2, name


def test_what_is_not_printed_is_missed() -> None:
    assert compare("a …\nb", "x\na 1\ny\nb\n") == 2
    for expected in ("b\na", "a", "…c…"):
        with pytest.raises(AssertionError):
            compare(expected, "a 1\nb\n")
