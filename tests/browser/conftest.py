"""One browser for the tests of a module, skipped without one; pictures to compare pages with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.album import Album
from tests.support.browser import chromium


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--redraw",
        action="store_true",
        help="replace the pictures that pages are compared with: look at them afterwards",
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def album(request: pytest.FixtureRequest, tmp_path: Path) -> Album:
    return Album(tmp_path, redraws=request.config.getoption("--redraw", default=False))
