"""The page of a survey in a Chromium that answers late: nobody waits in vain or has two reports."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import Visit, ready, says, send, visiting
from tests.support.module_pair import Site, survey_site
from tests.support.surveys import VISITS, department
from tests.support.texts import WORD

pytestmark = pytest.mark.slow

# The week of the pair's clock.
SURVEY = (
    VISITS.replace("= 3", "= 1").replace("first = 2026-11-02", "first = 2023-11-13")
    + department()
    + WORD
)

_DEADLINE = 10_000
"""Milliseconds for which the page waits for the browser."""

_HOLDS = """
const held = [], holds = (globalThis.holds = new Set(%s));
function later(target, event, kind) {
    Object.defineProperty(target, `on${event}`, {
        set(told) {
            this.addEventListener(event, (happened) => {
                const isHeld = holds.has(kind) || this.writes && holds.has('write');
                return isHeld ? held.push(() => told(happened)) : told(happened);
            });
        },
    });
}
const open = IDBFactory.prototype.open;
IDBFactory.prototype.open = function (...given) {
    const request = open.apply(this, given);
    later(request, 'success', 'open');
    return request;
};
later(IDBTransaction.prototype, 'complete', 'complete');
const add = IDBObjectStore.prototype.add;
IDBObjectStore.prototype.add = function (...given) {
    this.transaction.writes = true;
    return add.apply(this, given);
};
const request = LockManager.prototype.request;
LockManager.prototype.request = function (...given) {
    if (!holds.has('lock')) return request.apply(this, given);
    return new Promise((resolve) => held.push(() => resolve(request.apply(this, given))));
};
globalThis.release = () => {
    holds.clear();
    for (const each of held.splice(0)) each();
};
"""
"""Nothing of these kinds is heard of in the page before `release`."""

_WAITING = """() => new Promise((resolve) => {
    const opening = indexedDB.open('prio-outbox', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore('records'); // there was none
    opening.onsuccess = () => {
        const records = opening.result.transaction('records').objectStore('records').getAll();
        records.onsuccess = () => {
            opening.result.close();
            resolve(records.result.length);
        };
    };
})"""

_DELETED = """() => new Promise((resolve) => {
    const deleting = indexedDB.deleteDatabase('prio-outbox');
    deleting.onsuccess = () => resolve(true);
    deleting.onblocked = () => resolve(false);
})"""
"""Whether the store could be deleted, which no open connection lets be."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with survey_site(tmp_path_factory.mktemp("survey"), SURVEY) as (found, _):
        yield found


def open_page(visit: Visit, site: Site, *holds: str) -> Page:
    page = visit.page
    page.clock.install(time=datetime.fromtimestamp(site.pair.clock.now(), UTC))
    page.add_init_script(_HOLDS % list(holds))
    visit.see("/form.html")
    return page


@pytest.mark.parametrize("kind", ["open", "complete", "write", "lock"])
def test_who_gets_no_answer_in_time_takes_part_from_memory_and_has_one_report(
    browser: Browser, site: Site, kind: str
) -> None:
    before = site.posts
    with visiting(browser, site.address) as visit:
        page = open_page(visit, site, kind)
        page.get_by_label("surgery").check()
        send(page)
        says(page, "One moment")
        assert site.posts == before
        page.clock.run_for(_DEADLINE)
        # What was asked for early is done now: all that is asked here is answered.
        says(page, "Your answers are counted.")
        assert site.posts == before + 1
        page.clock.run_for(1000)
        page.evaluate("release()")
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.evaluate(_WAITING) == 0
        if kind in ("open", "lock"):
            assert page.evaluate(_DELETED)
        page.clock.run_for(60_000)
        assert site.posts == before + 1
        if kind == "write":
            visit._faults.clear()  # the console says that there are no text questions


def test_who_gets_no_answer_in_time_is_told_so_before_there_are_answers(
    browser: Browser, site: Site
) -> None:
    with visiting(browser, site.address) as visit:
        page = open_page(visit, site, "open")
        page.clock.run_for(_DEADLINE)
        says(page, "This browser keeps nothing. Please keep this page open")
        expect(page.get_by_text("are not asked here")).to_be_visible()
        expect(page.get_by_label("What hurts?")).to_have_count(0)
        send(page)
        expect(page.get_by_role("alert").get_by_role("link")).to_have_count(1)
        visit.check_everywhere()


def test_reports_that_may_be_stored_are_waited_for_and_not_made_again(
    browser: Browser, site: Site
) -> None:
    before = site.posts
    with visiting(browser, site.address) as visit:
        page = open_page(visit, site)
        ready(page)
        page.get_by_label("surgery").check()
        page.get_by_label("What hurts?").fill("a knee")
        page.evaluate("holds.add('complete')")
        send(page)
        for _ in range(3):
            page.clock.run_for(_DEADLINE)
            says(page, "Your answers are still being stored on this device")
            expect(page.get_by_role("button")).to_be_disabled()
        assert site.posts == before
        page.clock.run_for(1000)
        page.evaluate("release()")
        says(page, "Your answers are counted.")
        assert site.posts == before + 2  # the survey's report, and that of the text question
        assert page.evaluate(_WAITING) == 0


def test_a_survey_of_text_questions_alone_is_not_asked_where_nothing_is_kept(
    browser: Browser, tmp_path: Path
) -> None:
    survey = VISITS.replace('epsilon = "1"', 'epsilon = "1/4"') + WORD
    with survey_site(tmp_path, survey) as (site, _), visiting(browser, site.address) as visit:
        page = open_page(visit, site, "open")
        send(page)
        says(page, "One moment")
        page.clock.run_for(_DEADLINE)
        says(page, "This browser cannot take part")
        expect(page.get_by_role("button")).not_to_be_visible()
        page.evaluate("release()")
        assert page.evaluate(_DELETED)
        assert site.posts == 0
