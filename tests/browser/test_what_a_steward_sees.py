"""The planner in a real browser: sliders, fields, what it saves, with and without a script."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from playwright.sync_api import Browser, Page, expect

from aggregator.service.web.app import create_app
from aggregator.service.web.pages.host_page import Visit as Admitted
from aggregator.steward.planner import PATH, Planner
from aggregator.steward.survey import survey_from_toml
from tests.support.album import Album
from tests.support.browser import visiting
from tests.support.clock import ManualClock
from tests.support.collector_world import EMBEDDED, SCRIPT
from tests.support.entropy import SeededEntropy
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import serving

pytestmark = pytest.mark.slow

NOVEMBER = 1_795_564_800
PATIENCE = 1000 * PATIENCE_SECONDS
"""Milliseconds: the first answer may have to wait for a compiler."""


def planner_app() -> FastAPI:
    def admit(_request: Request) -> Admitted:
        return Admitted()

    planner = Planner(SeededEntropy(b"browser"), ManualClock(NOVEMBER), admit)
    planner.warm_up()
    return create_app("planner", [planner.router()])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(planner_app()) as address:
        yield address


def said(page: Page) -> str:
    return page.locator("#said").inner_text()


def redrawn(page: Page, before: str) -> str:
    expect(page.locator("#said")).not_to_have_text(before, timeout=PATIENCE)
    return said(page)


def test_sliders_redraw_the_charts_by_keyboard_alone_and_the_other_field_follows(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.see(PATH)
        before, bars = said(page), page.locator("#figures svg").first.inner_html()
        error = page.locator("input[type=range][data-field=error]")
        error.focus()
        page.keyboard.press("PageUp")
        after = redrawn(page, before)
        assert "ε = 0.15" in before
        assert "ε = 0.15 " not in after
        assert page.locator("#figures svg").first.inner_html() != bars
        assert float(page.input_value("#error")) > 3
        assert float(page.input_value("#strength")) < 0.15
        page.locator("input[type=range][data-field=strength]").focus()
        page.keyboard.press("End")
        expect(page.locator("#said")).to_contain_text("ε = 20 per")
        assert page.locator("input[name=goal]:checked").get_attribute("value") == "strength"
        assert float(page.input_value("#error")) < 1
        focus = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(focus) == "solid"


def test_each_kind_shows_its_own_fields_and_a_mistake_is_said_and_mended(
    browser: Browser, address: str
) -> None:
    with visiting(browser, address) as visit:
        page = visit.see(PATH)
        assert page.is_visible("#labels")
        assert not page.is_visible("#columns")
        before = said(page)
        page.select_option("#kind", "vector")
        before = redrawn(page, before)
        assert not page.is_visible("#labels")
        assert page.is_visible("#columns")
        page.fill("#people", "none")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("people must be a whole number", timeout=PATIENCE)
        page.fill("#people", "9000")
        redrawn(page, before)
        expect(alert).to_have_count(0)


def test_the_survey_file_is_saved_and_is_one(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    with visiting(browser, address) as visit:
        page = visit.see(PATH)
        page.fill("#text", f"{SCRIPT}{EMBEDDED}")
        expect(page.locator("#figures")).to_contain_text(SCRIPT, timeout=PATIENCE)
        with page.expect_download() as download:
            page.get_by_role("button", name="Save survey.toml").click()
        assert download.value.suggested_filename == "survey.toml"
        file = tmp_path / "survey.toml"
        download.value.save_as(file)
        survey = survey_from_toml(file.read_text(encoding="utf-8"))
        assert survey.questions[0].question.text == f"{SCRIPT}{EMBEDDED}"


def test_without_a_script_the_button_does_it(browser: Browser, address: str) -> None:
    context = browser.new_context(base_url=address, java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    try:
        page = context.new_page()
        page.goto(PATH)
        before = said(page)
        assert not page.locator("input[type=range]").first.is_visible()
        page.fill("#error", "8")
        page.get_by_role("button", name="Show, with fresh noise").click()
        redrawn(page, before)
        assert page.input_value("#error") == "8"
        page.fill("#error", "-8")
        page.get_by_role("button", name="Show, with fresh noise").click()
        expect(page.get_by_role("alert")).to_contain_text("error must lie in (0, 100], not -8")
    finally:
        context.close()


def test_axe_finds_nothing_whatever_is_planned(browser: Browser, address: str) -> None:
    hostile = f"{SCRIPT}{EMBEDDED}{'x' * 50}"
    forms = (
        {},
        {"kind": "vector", "text": hostile},
        {"kind": "tree", "regions": hostile},
        {"people": "none"},
    )
    for form in forms:
        with visiting(browser, address) as visit:
            page = visit.see(PATH)
            for name, value in form.items():
                if name == "kind":
                    page.select_option("#kind", value)
                else:
                    page.fill(f"#{name}", value)
            page.wait_for_timeout(400)
            expect(page.locator("#figures[aria-busy]")).to_have_count(0, timeout=PATIENCE)
            for summary in page.locator("summary").all():
                summary.click()
            visit.check_everywhere()


def test_the_page_looks_as_it_was_last_looked_at(browser: Browser, album: Album) -> None:
    with serving(planner_app()) as fresh, visiting(browser, fresh) as visit:
        visit.see(PATH)  # the first one of a seed is always the same
        album.compare(visit, "planner")
