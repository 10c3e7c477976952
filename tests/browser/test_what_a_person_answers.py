"""The page of a survey in Chromium: a person answers, and what they answered is counted once."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from aggregator.dap.times import DAY, Interval
from aggregator.protocol.task import Task
from aggregator.steward.survey import Meaning
from tests.support.browser import Visit, visiting
from tests.support.module_pair import Site, survey_site
from tests.support.pair import NOW
from tests.support.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

SURVEY = """
title = "Your visit"
asked = "patients"
window = "week"
first = 2026-11-02
min_batch_size = 1
max_reports = 1000
tables = [["hours", "department"], ["again", "department"], ["why", "department"]]
[budget]
epsilon = "100000000"
windows = 52
[[question]]
name = "department"
text = "Which department did you visit?"
kind = "choice"
labels = ["surgery", "<medicine>", "children"]
[[question]]
name = "hours"
text = "How many hours were you here?"
kind = "number"
low = 0
high = 24
step = "1/2"
[[question]]
name = "wishes"
text = "What would you have wished for?"
kind = "multiple"
labels = ["parking", "food", "quiet"]
at_most = 2
[[question]]
name = "again"
text = "Would you come again?"
kind = "yes-no"
[[question]]
name = "why"
text = "Why not?"
kind = "choice"
labels = ["waiting", "far away"]
ask_if = { again = "no", department = ["surgery", "children"] }
[[question]]
name = "far"
text = "How many kilometers is it?"
kind = "number"
low = 0
high = 100
ask_if = { why = "far away" }
[[question]]
name = "age"
kind = "bins"
edges = [0, 18, 65, 120]
"""
"""So much epsilon that the noise is 0: sums tell what was sent."""

TODAY = datetime.fromtimestamp(NOW, UTC)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Task]]:
    with survey_site(tmp_path_factory.mktemp("survey"), SURVEY) as found:
        yield found


def see(visit: Visit, moment: datetime = TODAY) -> Page:
    visit.page.clock.set_fixed_time(moment)  # that of the services
    page = visit.see("/form.html")
    page.wait_for_selector("html[data-ready]")
    return page


def answer(page: Page, department: str, hours: str, wishes: list[str]) -> None:
    page.get_by_label(department).check()
    page.get_by_label("How many hours").fill(hours)
    for wish in wishes:
        page.get_by_label(wish).check()
    page.get_by_label("Yes").check()
    page.get_by_role("group", name="age").get_by_label("I'd rather not say").check()


def requests_of(page: Page) -> list[Request]:
    """Return a list that gets whatever the page asks from now on."""
    sent: list[Request] = []

    def note(request: Request) -> None:
        sent.append(request)

    page.on("request", note)
    return sent


def send(page: Page) -> None:
    page.get_by_role("button", name="Send my answers").click()


def says(page: Page, text: str) -> None:
    expect(page.get_by_role("status")).to_contain_text(text, timeout=1000 * PATIENCE_SECONDS)


def test_what_people_answer_is_what_is_counted_and_who_says_nothing_is_counted_too(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, task = asked
    site.loses = lambda number: number % 3 == 0
    people = [("surgery", "2,5", ["parking", "quiet"]), ("<medicine>", "24", ["None of these"])]
    for person in people:
        with visiting(browser, site.address) as visit:
            page = see(visit)
            answer(page, *person)
            send(page)
            expect(page.get_by_role("heading", name="Thank you")).to_be_focused()
            says(page, "Your answers are counted.")
            expect(page.locator("form")).not_to_be_visible()
            # The browser remembers that there were answers, not what.
            page = see(visit)
            expect(page.get_by_role("button")).not_to_be_visible()
            says(page, "Your answers are counted.")
    # One of them has no connection for a while.
    with visiting(browser, site.address) as visit:
        page = see(visit)
        answer(page, "children", "0", ["food"])
        page.context.set_offline(True)
        send(page)
        says(page, "kept on this device")
        page.context.set_offline(False)
        says(page, "Your answers are counted.")
        visit._faults.clear()  # the console says of each request that it failed
    # Of one more is asked.
    with visiting(browser, site.address) as visit:
        page = see(visit)
        answer(page, "children", "0", ["quiet"])
        page.get_by_label("No", exact=True).check()
        page.get_by_label("far away").check()
        page.get_by_label("How many kilometers").fill("40")
        send(page)
        says(page, "Your answers are counted.")
    # One gives no answer at all, which nobody can see.
    with visiting(browser, site.address) as visit:
        page = see(visit)
        shown = page.locator("fieldset:visible")
        for skip in shown.get_by_label("I'd rather not say").all():
            skip.check()
        send(page)
        says(page, "Your answers are counted.")
    site.pair.clock.advance(7 * DAY)  # the week is over
    meaning = Meaning.of_task(task)
    start, end = meaning.window(TODAY)
    precision = task.configuration.time_precision
    first = int(start.timestamp()) // precision
    interval = Interval.of(first, int((end - start).total_seconds()) // precision)
    result = site.collect(task, interval)
    assert result.report_count == len(people) + 3
    sums = {
        part.name: [*result.values[part.first :][: part.source.length]]
        for part in meaning.sheet.parts
    }
    assert sums == {
        "department": [1, 1, 2, 1],
        "hours": [4, 1, 5 + 48 + 0],
        "wishes": [1, 1, 2, 1],
        "again": [3, 1, 1],
        "why": [0, 1, 4],
        "far": [1, 4, 40],
        "age": [0, 0, 0, 5],
        "hours by department": [1, 1, 2, 1, 5, 48, 0],
        "again by department": [1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1],
        "why by department": [0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1],
    }


def test_who_is_not_asked_sends_what_everybody_sends(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    """The network and the leader would otherwise learn an answer from what was not asked."""
    asked[0].loses = lambda _: False
    asked[0].pair.clock.advance(7 * DAY)  # a window that is not collected
    now = datetime.fromtimestamp(asked[0].pair.clock.now(), UTC)
    uploads = []
    for reasons in (False, True):
        with visiting(browser, asked[0].address) as visit:
            page = see(visit, now)
            why = page.get_by_role("group", name="Why not?")
            far = page.get_by_label("How many kilometers")
            answer(page, "surgery", "3", [])
            page.get_by_label("None of these").check()
            expect(page.get_by_text("Question 5 of 5")).to_be_visible()
            page.get_by_label("No", exact=True).check()
            expect(page.get_by_text("Question 6 of 6")).to_be_visible()
            why.get_by_label("far away").check()
            far.fill("12")
            if not reasons:
                # What depends on a question that is hidden is hidden with it, and not sent.
                page.get_by_label("<medicine>").check()
                expect(why).not_to_be_visible()
                expect(far).not_to_be_visible()
            sent = requests_of(page)
            send(page)
            says(page, "Your answers are counted.")
            asked_for = [(each.method, each.url) for each in sent]
            [body] = [each.post_data_buffer for each in sent if each.method == "POST"]
            assert body is not None
            # Only the id, of 16 bytes, and what is sealed may differ: not the time, nor a length.
            uploads.append((asked_for, body[16:26], len(body)))
    assert uploads[0] == uploads[1]


def test_a_page_that_stays_open_answers_for_the_window_in_which_it_is_sent(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, _task = asked
    site.loses = lambda _: False
    with visiting(browser, site.address) as visit:
        page = see(visit)
        answer(page, "surgery", "1", ["food"])
        site.pair.clock.advance(7 * DAY)
        page.clock.set_fixed_time(datetime.fromtimestamp(site.pair.clock.now(), UTC))
        send(page)
        says(page, "Your answers are counted.")
        page.reload()
        says(page, "Your answers are counted.")  # of this window
        page.clock.set_fixed_time(TODAY)
        page.reload()
        expect(page.get_by_role("button")).to_be_visible()  # of the one before, none


def test_what_is_missing_is_named_where_it_is_missing_and_nothing_is_sent(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    before = asked[0].posts
    with visiting(browser, asked[0].address) as visit:
        page = see(visit)
        page.get_by_label("How many hours").fill("25")
        for wish in ("parking", "food", "quiet"):
            page.get_by_label(wish).check()
        send(page)
        faults = page.get_by_role("alert").get_by_role("link")
        expect(faults).to_have_count(5)
        expect(faults.first).to_be_focused()
        expect(page.get_by_text("Write a number from 0 to 24")).to_be_visible()
        expect(page.get_by_text("Choose at most 2.").last).to_be_visible()
        faults.nth(1).press("Enter")
        expect(page.get_by_label("How many hours")).to_be_focused()
        page.get_by_text("What happens to my answers?").click()
        visit.check_everywhere()
    assert asked[0].posts == before


def test_everybody_can_read_and_answer_it_with_keys_alone(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    with visiting(browser, asked[0].address) as visit:
        page = see(visit)
        expect(page.get_by_text("Whoever gave you this page")).not_to_be_visible()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Whoever gave you this page")).to_be_visible()
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        expect(page.get_by_label("<medicine>")).to_be_checked()
        visit.check_everywhere()
        page.set_viewport_size({"width": 320, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_page_may_talk_to_the_aggregators_and_to_nobody_else(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    with visiting(browser, asked[0].address) as visit:
        page = see(visit)
        tried = """fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.message)"""
        assert page.evaluate(tried) == "Failed to fetch"
        assert any("violates" in fault for fault in visit._faults), visit._faults
        visit._faults.clear()


def test_a_page_from_a_file_works_as_one_that_is_served(
    browser: Browser, asked: tuple[Site, Task], tmp_path: Path
) -> None:
    file = tmp_path / "form.html"
    file.write_text(asked[0].pages["form.html"], encoding="utf-8")
    with visiting(browser, tmp_path.as_uri()) as visit:
        page = visit.page
        page.goto(file.as_uri())
        expect(page.locator("html[data-ready]")).to_be_attached()
        expect(page.get_by_role("button", name="Send my answers")).to_be_enabled()
