"""The page of a survey in Chromium: a person answers, and what they answered is counted once."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from aggregator.client.text.fitting import SpelledWindow
from aggregator.client.text.spelling import Spelling
from aggregator.client.text.strings import fingerprint
from aggregator.codec import encode
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import ReportUploadStatus, UploadErrors
from aggregator.dap.problems import InvalidMessage, problem_document
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import media_type
from aggregator.dap.times import DAY, Interval
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_table, task_to_table
from aggregator.steward.survey import Meaning
from aggregator.steward.survey.form.page import form_page
from tests.support.browser import TOSSES, Visit, ready, requests_of, says, send, visiting
from tests.support.module_pair import Site, elsewhere, other_keys, survey_site
from tests.support.pair import NOW
from tests.support.surveys import week_of
from tests.support.text import spelling_tasks

pytestmark = pytest.mark.slow

SURVEY = """
title = "Your visit"
asked = "patients"
window = "week"
first = 2023-11-13
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
name = "spent"
text = "How much did you spend?"
kind = "vector"
ask_if = { again = "no" }
[[question.column]]
name = "on the bus"
high = 50
unit = "euros"
[[question.column]]
name = "on the train"
low = -5
high = 5
step = "1/2"
[[question]]
name = "where"
text = "Where do you live?"
kind = "tree"
design = "every level"
regions = [
    { label = "North", below = [{ label = "Hill" }, { label = "<Lake>" }] },
    { label = "South", below = [{ label = "Cliff" }, { label = "Sea" }] },
]
ask_if = { again = "no" }
[[question]]
name = "minutes"
text = "How many minutes did you wait?"
kind = "tree"
design = "leaves"
low = 0
high = 120
leaves = 8
ask_if = { again = "no" }
[[question]]
name = "age"
kind = "bins"
edges = [0, 18, 65, 120]
[[question]]
name = "hurts"
text = "What hurt?"
kind = "text"
epsilon = "64"
buckets = 32
tasks = 8
ask_if = { department = ["surgery", "<medicine>", "children"] }
"""
"""So much epsilon that the noise is 0: sums tell what was sent."""

TODAY = datetime.fromtimestamp(NOW, UTC)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Task]]:
    with survey_site(tmp_path_factory.mktemp("survey"), SURVEY) as found:
        yield found


PLACE = 3
"""Of the tasks of the text question that for which everybody tosses here."""

_KEPT = """() => new Promise((resolve) => {
    const opening = indexedDB.open('prio-outbox', 1);
    opening.onsuccess = () => {
        const claims = opening.result.transaction('claims').objectStore('claims');
        const names = claims.getAllKeys(), values = claims.getAll();
        values.onsuccess = () => {
            opening.result.close();
            const all = names.result.map((name, i) => [name, values.result[i]]);
            resolve(all.filter(([name]) => name.startsWith('toss')));
        };
    };
})"""
"""What is kept in the browser of tosses."""


def see(
    visit: Visit, moment: datetime = TODAY, place: int = PLACE, path: str = "/form.html"
) -> Page:
    visit.page.clock.set_fixed_time(moment)  # that of the services
    visit.page.add_init_script(TOSSES % place)
    page = visit.see(path)
    return ready(page)


def answer(page: Page, department: str, hours: str, wishes: list[str], word: str = "") -> None:
    page.get_by_label(department).check()
    page.get_by_label("How many hours").fill(hours)
    for wish in wishes:
        page.get_by_label(wish).check()
    page.get_by_label("Yes").check()
    page.get_by_role("group", name="age").get_by_label("I'd rather not say").check()
    hurt = page.get_by_role("group", name="What hurt?")
    if word:
        hurt.get_by_label("What hurt?").fill(word)
    else:
        hurt.get_by_label("I'd rather not say").check()


def answer_with_numbers(visit: Visit) -> None:
    """Answer what is asked of who would not come again, at first with numbers out of range."""
    page = visit.page
    bus, parking = (page.get_by_label(name) for name in ("on the bus", "on the train"))
    bus.fill("51")
    parking.fill("-2.5")
    page.get_by_label("South / Cliff").check()
    minutes = page.get_by_label("How many minutes")
    minutes.fill("1,000")  # a thousand to some, one to others
    send(page)
    # What is wrong of several numbers is marked, and found by a link.
    faults = page.get_by_role("alert").get_by_role("link")
    expect(faults).to_have_text(["How much did you spend?", "How many minutes did you wait?"])
    faults.first.press("Enter")
    expect(bus).to_be_focused()
    expect(bus).to_have_attribute("aria-invalid", "true")
    expect(parking).not_to_have_attribute("aria-invalid", "true")
    visit.check_everywhere()
    bus.fill("50")
    minutes.fill("120")
    send(page)


def posts_in(sent: list[Request]) -> Counter[str]:
    """Return to which tasks reports were sent, and how often."""
    return Counter(each.url.split("/")[-2] for each in sent if each.post_data_buffer)


def written_in(site: Site, interval: Interval) -> dict[str | None, int]:
    """Return how many people wrote some words, or nothing, if nobody wrote anything else."""
    question, tasks = site.asked.texts["hurts"]
    values = site.collect(tasks[PLACE], interval).values
    places = {each: question.hashes.bucket(PLACE, each) for each in ("my back", "an ear", None)}
    found = {each: values[place] for each, place in places.items()}
    assert sum(found.values()) == sum(values)
    return found


def test_what_people_answer_is_what_is_counted_and_who_says_nothing_is_counted_too(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, task = asked
    site.loses = lambda number: number % 4 == 0  # of both kinds of reports
    people = [
        ("surgery", "2,5", ["parking", "quiet"], "My  Back"),
        ("<medicine>", "24", ["None of these"], "my back "),
    ]
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
        answer(page, "children", "0", ["food"], "an ear")
        # It comes and goes while the page is read: nobody has answered yet.
        for is_offline in (True, False, True):
            page.context.set_offline(is_offline)
        page.wait_for_timeout(200)
        assert page.get_by_role("status").inner_text() == ""
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
        answer_with_numbers(visit)
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
    meaning, interval = Meaning.of_task(task), week_of(task, TODAY)
    result = site.collect(task, interval)
    assert result.report_count == len(people) + 3
    sums = {
        part.name: [*result.values[part.span.first :][: part.span.length]]
        for part in meaning.sheet.parts
    }
    assert sums == {
        "department": [1, 1, 2, 1],
        "hours": [4, 1, 5 + 48 + 0],
        "wishes": [1, 1, 2, 1],
        "again": [3, 1, 1],
        "why": [0, 1, 4],
        "far": [1, 4, 40],
        "spent": [1, 4, 50, 5],
        "where": [0, 1, 4, 0, 0, 1, 0, 4],
        "minutes": [*[0] * 7, 1, 4],
        "age": [0, 0, 0, 5],
        "hours by department": [1, 1, 2, 1, 5, 48, 0],
        "again by department": [1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1],
        "why by department": [0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1],
    }
    assert written_in(site, interval) == {"my back": 2, "an ear": 1, None: 2}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ReportError.REPORT_REPLAYED, "Your answers are counted."),
        (ReportError.REPORT_DROPPED, "Your answers came too late to be counted."),
        (ReportError.INVALID_MESSAGE, "kept on this device"),
        (None, "kept on this device"),
    ],
)
def test_the_page_says_what_the_leader_does_and_keeps_what_it_cannot_read(
    browser: Browser, asked: tuple[Site, Task], error: ReportError | None, words: str
) -> None:
    """A report that did not count is not called counted, whatever it was called before."""

    def refuse(route: Route) -> None:
        body = route.request.post_data_buffer or b""
        if not body:  # the page asks whether it may
            route.continue_()
            return
        every = {"access-control-allow-origin": "*"}
        if error is None:
            document = problem_document(InvalidMessage())
            kind = {"content-type": "application/problem+json"}
            route.fulfill(status=400, json=document, headers=every | kind)
            return
        report = ReportUploadStatus(ReportId(body[: ReportId.size]), DAP_18.code(error))
        kind = {"content-type": media_type(UploadErrors.message)}
        route.fulfill(status=200, body=encode(UploadErrors((report,))), headers=every | kind)

    with visiting(browser, asked[0].address) as visit:
        page = see(visit)
        page.route("**/reports", refuse)
        for skip in page.locator("fieldset:visible").get_by_label("I'd rather not say").all():
            skip.check()
        send(page)
        says(page, words)
        visit._faults.clear()  # the console says of a request that it was refused


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
            answer(page, "surgery", "3", [], "x" * 200)
            page.get_by_label("None of these").check()
            expect(page.get_by_text("Question 6 of 6")).to_be_visible()
            page.get_by_label("No", exact=True).check()
            expect(page.get_by_text("Question 10 of 10")).to_be_visible()
            why.get_by_label("far away").check()
            far.fill("12")
            for name in ("How much did you spend", "Where do you live", "How many minutes"):
                page.get_by_role("group", name=name).get_by_label("I'd rather not say").check()
            if not reasons:
                # What depends on a question that is hidden is hidden with it, and not sent.
                department = page.get_by_role("group", name="Which department")
                department.get_by_label("I'd rather not say").check()
                for gone in (why, far, page.get_by_label("What hurt?")):
                    expect(gone).not_to_be_visible()
            sent = requests_of(page)
            send(page)
            says(page, "Your answers are counted.")
            asked_for = [(each.method, each.url) for each in sent]
            bodies = [each.post_data_buffer or b"" for each in sent if each.method == "POST"]
            # Only the id, of 16 bytes, and what is sealed may differ: not the time, nor a length.
            uploads.append((asked_for, [(body[16:26], len(body)) for body in bodies]))
    assert uploads[0] == uploads[1]
    assert len(uploads[0][1]) == 2  # the survey's report, and that of the text question


def test_the_toss_is_kept_before_anybody_writes_and_every_report_goes_to_its_task(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    """To toss twice is to pay twice: after a closed tab, new keys, or in another window."""
    site, task = asked
    site.loses = lambda _: False
    site.pair.clock.advance(7 * DAY)
    now = datetime.fromtimestamp(site.pair.clock.now(), UTC)
    _, tasks = site.asked.texts["hurts"]
    of_visitor = {str(task.task_id), str(tasks[5].task_id)}
    with visiting(browser, site.address) as visit:
        page = see(visit, now, 5)
        kept = page.evaluate(_KEPT)
        assert [(name[:5], value) for name, value in kept] == [("toss ", {"kept": 5})]
        answer(page, "surgery", "1", ["food"], "a knee")
        site.is_down = True
        send(page)
        says(page, "kept on this device")
        page.close()
        elsewhere(lambda: other_keys(site.pair))
        site.is_down = False
        # Another tab, which would toss for another task.
        visit.page = page.context.new_page()
        sent = requests_of(visit.page)
        page = see(visit, now, 1)
        says(page, "Your answers are counted.")
        assert page.evaluate(_KEPT) == kept
        # Both were sealed to keys that have gone, and that the browser has in its cache.
        assert posts_in(sent) == dict.fromkeys(of_visitor, 2)
        site.pair.clock.advance(7 * DAY)
        sent.clear()
        page = see(visit, datetime.fromtimestamp(site.pair.clock.now(), UTC), 2)
        answer(page, "surgery", "1", ["food"])
        send(page)
        says(page, "Your answers are counted.")
        assert posts_in(sent) == dict.fromkeys(of_visitor, 1)


def test_in_a_window_of_letters_the_report_goes_to_the_tossed_place_and_tells_one(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    """A person who also sent one to the question would pay twice for the window."""
    site, task = asked
    site.loses = lambda _: False
    site.pair.clock.advance(7 * DAY)
    now = datetime.fromtimestamp(site.pair.clock.now(), UTC)
    interval = week_of(task, now)
    question, tasks = site.asked.texts["hurts"]
    spelling = Spelling(question, (fingerprint("my back", question.meaning),), "abk", letters=8)
    letters = spelling_tasks(spelling, tasks, interval)
    window = SpelledWindow(spelling, letters)
    window.check(tasks)

    async def provision() -> None:
        for site.pair.task in letters:
            await site.pair.provision()

    elsewhere(provision)
    site.pages["letters.html"] = form_page(site.asked, spelled={"hurts": [window]})
    with visiting(browser, site.address) as visit:
        page = see(visit, now, path="/letters.html")
        page.get_by_text("What happens to my answers?").click()
        expect(page.get_by_text("this page asks for letters")).to_be_visible()
        answer(page, "surgery", "1", ["food"], "My back")
        sent = requests_of(page)
        send(page)
        says(page, "Your answers are counted.")
        assert posts_in(sent) == {str(task.task_id): 1, str(letters[PLACE].task_id): 1}
        # The page of before, which knows nothing of letters, sends no second report.
        page = see(visit, now)
        expect(page.get_by_role("button")).not_to_be_visible()
        # Nor does that of a survey that was changed, which has another task.
        changed = task_from_table(task_to_table(task) | {"id": "E" * 43})
        site.pages["changed.html"] = form_page(dataclasses.replace(site.asked, task=changed))
        page = see(visit, now, path="/changed.html")
        says(page, "This browser remembers that you have answered.")
        expect(page.get_by_role("button")).not_to_be_visible()
    site.pair.clock.advance(7 * DAY)
    values = site.collect(letters[PLACE], interval).values
    assert [place for place, count in enumerate(values) for _ in range(count)] == [
        spelling.measurement(PLACE, "my back")
    ]


def test_who_came_too_late_with_both_or_with_one_of_two_reports_is_told_so(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, task = asked
    site.pair.clock.advance(7 * DAY)
    _, tasks = site.asked.texts["hurts"]
    own = str(task.task_id)

    def answers(said: str, refused: str = "") -> None:
        """Answer both, while uploads to a task do not come through until the week is collected."""
        with visiting(browser, site.address) as visit:
            page = see(visit, now)
            if refused:
                page.route(f"**/{refused}/reports", lambda route: route.abort())
            answer(page, "surgery", "1", ["food"], "a knee")
            send(page)
            if refused:
                says(page, "Your answers are kept on this device")
                collect()
                page.unroute(f"**/{refused}/reports")
                page.evaluate("dispatchEvent(new Event('online'))")
            says(page, said)
            visit._faults.clear()  # the console says of a request that it failed

    def collect() -> None:
        """Let this week be collected of the place; who answers was held up after dating it."""
        site.pair.clock.advance(7 * DAY)
        site.collect(tasks[PLACE], week_of(task, now))
        site.ahead = dict.fromkeys(site.ahead, -7 * DAY)

    now = datetime.fromtimestamp(site.pair.clock.now(), UTC)
    answers("Your answers are counted.")
    collect()
    # What is collected of one task is closed in all: nobody's answers are divided by that.
    answers("Your answers came too late to be counted.")
    site.ahead = dict.fromkeys(site.ahead, 0)
    now = datetime.fromtimestamp(site.pair.clock.now(), UTC)
    answers("Your answers are counted.")
    # They are divided by a network that took one of two reports in time.
    answers("Not all of your answers were counted", refused=own)
    site.ahead = dict.fromkeys(site.ahead, 0)


def test_a_browser_that_keeps_no_toss_is_not_asked_to_write(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    """It would toss again at every visit. What it answers to all else is counted."""
    site, task = asked
    now = datetime.fromtimestamp(site.pair.clock.now(), UTC)
    with visiting(browser, site.address) as visit:
        visit.page.add_init_script("delete IDBFactory.prototype.open")
        page = see(visit, now)
        expect(page.get_by_text("are not asked here")).to_be_visible()
        expect(page.get_by_text("Question 5 of 5")).to_be_visible()
        expect(page.get_by_label("What hurt?")).to_have_count(0)
        for skip in page.locator("fieldset:visible").get_by_label("I'd rather not say").all():
            skip.check()
        sent = requests_of(page)
        send(page)
        says(page, "Your answers are counted.")
        assert posts_in(sent) == {str(task.task_id): 1}


def test_a_page_that_stays_open_over_a_window_is_loaded_again_before_it_sends(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    """It may be a window of letters now, in which nobody collects what is written otherwise."""
    site, _ = asked
    site.loses = lambda _: False
    now = datetime.fromtimestamp(site.pair.clock.now(), UTC)
    with visiting(browser, site.address) as visit:
        page = see(visit, now)
        answer(page, "surgery", "1", ["food"], "My back")
        site.pair.clock.advance(7 * DAY)
        later = datetime.fromtimestamp(site.pair.clock.now(), UTC)
        page.clock.set_fixed_time(later)
        sent = requests_of(page)
        send(page)
        says(page, "Please load it again, and then answer.")
        assert posts_in(sent) == {}
        # What is on the screen is still there.
        expect(page.get_by_label("What hurt?")).to_have_value("My back")
        page.reload()
        answer(ready(page), "surgery", "1", ["food"], "My back")
        send(page)
        says(page, "Your answers are counted.")
        page.reload()
        says(page, "Your answers are counted.")  # of this window
        page.clock.set_fixed_time(TODAY)
        page.reload()
        says(page, "Your answers are counted.")  # a clock that is wrong leads to no other window


def clocks(visit: Visit, site: Site, device: float, **ahead: int) -> Page:
    """Let a device see the page with a clock that is some days off, and fill it in."""
    site.loses = lambda _: False
    site.ahead = {"leader": 0, "helper": 0, **ahead}
    now = site.pair.clock.now() + device * DAY
    page = see(visit, datetime.fromtimestamp(now, UTC))
    answer(page, "surgery", "1", ["food"])
    return page


def test_a_device_with_a_wrong_clock_answers_in_the_window_that_both_aggregators_name(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, task = asked
    site.pair.clock.advance(7 * DAY)
    now = site.pair.clock.now()
    for device in (-30, 2):
        with visiting(browser, site.address) as visit:
            page = clocks(visit, site, device)
            send(page)
            says(page, "Your answers are counted.")
            expect(page.get_by_text("You may answer again from ")).to_be_visible()
    site.pair.clock.advance(7 * DAY)
    interval = week_of(task, datetime.fromtimestamp(now, UTC))
    assert site.collect(task, interval).report_count == 2


def test_answers_wait_in_the_page_while_the_aggregators_disagree_about_the_time(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, _ = asked
    with visiting(browser, site.address) as visit:
        page = clocks(visit, site, -3, leader=-3 * DAY)  # the leader says what the device says
        posts = site.posts
        send(page)
        says(page, "nobody can tell what time it is")
        assert site.posts == posts
        site.ahead = {"leader": 0, "helper": 0}
        says(page, "Your answers are counted.")


@pytest.mark.parametrize(
    ("weeks", "words"),
    [(-9, "These questions can be answered from November 13, 2023"), (60, "can no longer be")],
)
def test_who_comes_before_or_after_the_survey_sees_no_question(
    browser: Browser, asked: tuple[Site, Task], weeks: int, words: str
) -> None:
    site, _ = asked
    with visiting(browser, site.address) as visit:
        site.ahead = dict.fromkeys(site.ahead, NOW - site.pair.clock.now())
        site.ahead = {name: each + 7 * weeks * DAY for name, each in site.ahead.items()}
        page = see(visit)
        says(page, words)
        expect(page.get_by_role("button")).not_to_be_visible()
    site.ahead = dict.fromkeys(site.ahead, 0)


def test_a_week_that_is_collected_asks_nobody(browser: Browser, asked: tuple[Site, Task]) -> None:
    site, task = asked
    with visiting(browser, site.address) as visit:
        page = clocks(visit, site, 0)
        send(page)
        says(page, "Your answers are counted.")
    now = datetime.fromtimestamp(site.pair.clock.now(), UTC)
    site.collect(task, week_of(task, now))
    with visiting(browser, site.address) as visit:
        page = see(visit, now)
        says(page, "No more answers are taken now. These questions can be answered again from")
        expect(page.get_by_role("button")).not_to_be_visible()
    site.pair.clock.advance(7 * DAY)


def test_what_is_missing_is_named_where_it_is_missing_and_nothing_is_sent(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    before = asked[0].posts
    with visiting(browser, asked[0].address) as visit:
        page = see(visit)
        page.get_by_label("children").check()
        page.get_by_label("How many hours").fill("25")
        # Who says nothing, or that nothing applies, says nothing else; and the other way around.
        wished = page.get_by_role("group", name="What would you have wished")
        for alone in ("None of these", "I'd rather not say"):
            wished.get_by_label(alone).check()
            expect(wished.locator(":checked")).to_have_count(1)
        hours = page.get_by_role("group", name="How many hours").get_by_label("I'd rather not say")
        hours.check()
        page.get_by_label("How many hours").fill("26")
        expect(hours).not_to_be_checked()
        for wish in ("parking", "food", "quiet"):
            page.get_by_label(wish).check()
        expect(wished.locator(":checked")).to_have_count(3)
        send(page)
        faults = page.get_by_role("alert").get_by_role("link")
        expect(faults).to_have_count(5)
        expect(faults.first).to_be_focused()
        expect(page.get_by_text("Write a number from 0 to 24")).to_be_visible()
        expect(page.get_by_text("Choose at most 2.").last).to_be_visible()
        expect(page.get_by_text("Write an answer")).to_be_visible()
        faults.first.press("Enter")
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
        aggregators = f"asks {asked[0].address}/"
        visit._faults[:] = [each for each in visit._faults if not each.startswith(aggregators)]
