"""The documentation site is built without a warning, and asks no other host for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_is_built_and_has_every_document_and_a_reference(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += ["-b", "html", "-d", str(tmp_path / "trees"), "-c", str(ROOT / "docs" / "site")]
    built = tmp_path / "site"
    done = subprocess.run(  # noqa: S603  our own
        [*command, str(ROOT), str(built)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    for document in (ROOT / "docs").rglob("*.md"):
        assert (built / document.relative_to(ROOT)).with_suffix(".html").exists()
    reference = (built / "docs" / "site" / "reference.html").read_text(encoding="utf-8")
    for name in (
        "aggregator.client.Client.upload",
        "aggregator.results.compare",
        "field.Vector",
    ):
        assert f'id="{name}"' in reference
    asked = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//')
    for page in built.rglob("*.html"):
        assert not asked.search(page.read_text(encoding="utf-8")), page.name
