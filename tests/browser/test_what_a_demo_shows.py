"""The page that a demo writes, in a real browser: from a file, beside no service."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.album import Album
from tests.support.browser import visiting
from tests.support.truth import shown

pytestmark = pytest.mark.slow


def test_results_beside_the_truth_are_readable_by_everybody(
    browser: Browser, album: Album, tmp_path: Path
) -> None:
    file = tmp_path / "demo.html"
    file.write_text(shown(), encoding="utf-8")
    with visiting(browser, tmp_path.as_uri()) as visit:
        page = visit.see(file.as_uri())
        expect(page.get_by_text("3 of 4 intervals hold the truth").first).to_be_visible()
        arrows = page.locator("svg:visible").first.locator(".truth")
        expect(arrows).to_have_count(2)
        visit.check_everywhere()
        page.goto(file.as_uri())  # without what axe left
        album.compare(visit, "demo")
