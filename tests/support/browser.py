"""Chromium, and visits in which nothing is loaded from elsewhere and no policy is broken."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import axe_playwright_python
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.support.patience import PATIENCE_SECONDS

WIDE, PHONE = 1200, 360
"""Widths of a window, in pixels of style sheets."""
HEIGHT = 800

TOSSES = """{
    const drawn = crypto.getRandomValues.bind(crypto);
    crypto.getRandomValues = (bytes) => bytes.length === 8 ? bytes.fill(%d, 7) : drawn(bytes);
}"""
"""A script for a page that lets its tosses come out for one place: only they take eight bytes."""

_CUT_OFF = """[...document.querySelectorAll(".scroll")]
    .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel)"""
"""Tables of which a part is off the screen."""

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
LOOKS = tuple(product(SCHEMES, (WIDE, PHONE)))
"""Each way in which a page is looked at."""

_OF_COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe that are about colours, of those that it usually looks at."""

_FLAGS = (
    "--no-sandbox",  # which needs rights that containers do not give
    "--disable-gpu",
    "--disable-lcd-text",  # so that pictures are the same wherever they are taken
    "--font-render-hinting=none",
    "--run-all-compositor-stages-before-draw",  # no picture of a page that is half drawn
    "--disable-checker-imaging",
    "--force-color-profile=srgb",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE = 1000 * PATIENCE_SECONDS
"""Milliseconds for whatever a test waits for."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser without a window; the test is skipped where none is installed."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no browser is installed (no chromium): apt-get install chromium")
    expect.set_options(timeout=_PATIENCE)  # those of a context are not for what is expected
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One visitor to one address, who notes whatever a well-made page would not do.

    Attributes:
        page: The visitor's tab.
        hosts: What may be asked: the address's, and those that a test adds.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.hosts = {urlsplit(address).netloc}
        self._faults: list[str] = []
        context.set_default_timeout(_PATIENCE)
        context.on("request", self._note_request)
        self.page = context.new_page()
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self._faults.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self._faults.append(f"dialog: {dialog.message}"))

    def see(self, path: str) -> Page:
        """Open a page and check that it is one."""
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.ok, (path, answer.status)
        return self.page

    def look(self, scheme: Scheme, width: int) -> None:
        """Show the page that is open in other colours or in a window of another width."""
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": HEIGHT})

    def looks(self) -> Iterator[tuple[Scheme, int]]:
        """Show the page that is open in each way, and do `check_access` before each is given.

        In the second scheme only colours are another: axe looks at nothing else there.
        """
        for scheme, width in LOOKS:
            self.look(scheme, width)
            self.check_access(() if scheme == SCHEMES[0] else _OF_COLOURS)
            yield scheme, width

    def check_everywhere(self) -> None:
        """Do `check_access` in both colour schemes and both widths, on the page that is open."""
        for _ in self.looks():
            pass

    def check(self) -> None:
        """Fail if a page has broken its policy, run a script or asked another host."""
        assert self._faults == [], self._faults

    def check_access(self, rules: Sequence[str] = ()) -> None:
        """Fail where axe finds a fault of the shown page, or it is wider than its window.

        On a phone, no part of a table may be off the screen either.

        Args:
            rules: Those of axe's that are looked at; none for all that it usually looks at.
        """
        self.check()  # what axe itself does may be against the policy
        if self.page.evaluate("typeof axe") == "undefined":
            self.page.evaluate(_axe())
        try:
            only = {"runOnly": {"type": "rule", "values": [*rules]}} if rules else {}
            options = {"resultTypes": ["violations"], **only}
            found = self.page.evaluate("(options) => axe.run(document, options)", options)
        finally:
            self._faults.clear()
        said = [
            f"{rule['id']}: {rule['help']}: {[node['html'][:200] for node in rule['nodes'][:3]]}"
            for rule in found["violations"]
        ]
        assert said == [], (self.page.url, self.page.viewport_size, said)
        widths = self.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert widths[0] <= widths[1], (self.page.url, widths)
        if self.page.viewport_size == {"width": PHONE, "height": HEIGHT}:
            assert self.page.evaluate(_CUT_OFF) == [], self.page.url

    def _note_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme != "data" and parts.netloc not in self.hosts:
            self._faults.append(f"asks {request.url}")

    def _note_console(self, message: ConsoleMessage) -> None:
        # A browser says so of each answer that is refused; which ones are, tests say.
        is_answer = message.text.startswith("Failed to load resource: the server responded")
        if message.type in ("warning", "error") and not is_answer:
            self._faults.append(f"console: {message.text}")


@contextmanager
def visiting(
    browser: Browser,
    address: str,
    *,
    scheme: Scheme = "light",
    width: int = WIDE,
    locale: str = "en-US",
) -> Iterator[Visit]:
    """Yield a visit without cookies; at its end it must have been without faults."""
    context = browser.new_context(
        base_url=address,
        locale=locale,
        color_scheme=scheme,
        viewport={"width": width, "height": HEIGHT},
        device_scale_factor=1,
        accept_downloads=True,
    )
    try:
        visit = Visit(context, address)
        yield visit
        visit.check()
    finally:
        context.close()


def ready(page: Page) -> Page:
    """Wait until a survey's page can be answered."""
    page.wait_for_selector("html[data-ready]")
    return page


def send(page: Page) -> None:
    """Send the answers that are on a survey's page."""
    page.get_by_role("button", name="Send my answers").click()


def requests_of(page: Page | BrowserContext) -> list[Request]:
    """Return a list that gets whatever is asked from now on."""
    sent: list[Request] = []

    def note(request: Request) -> None:
        sent.append(request)

    page.on("request", note)
    return sent


def says(page: Page, text: str) -> None:
    """Wait until a page says in its status what has become of the answers."""
    expect(page.get_by_role("status")).to_contain_text(text)


@cache
def _axe() -> str:
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
