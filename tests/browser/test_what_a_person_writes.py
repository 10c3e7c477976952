"""The page of a survey of text questions alone, in Chromium: nothing else is sent."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request, expect

from aggregator.dap.times import DAY, Interval
from tests.support.browser import ready, says, send, visiting
from tests.support.module_pair import survey_site
from tests.support.pair import NOW
from tests.support.surveys import IN_2023
from tests.support.texts import WORD

pytestmark = pytest.mark.slow

SURVEY = (
    IN_2023.replace('epsilon = "1"', 'epsilon = "128"').replace("= 3", "= 1")
    + WORD.replace('"1/4"', '"64"')
    + WORD.replace('"1/4"', '"64"').replace('"word"', '"where"').replace("What hurts", "Where")
)
"""So much epsilon that the noise is 0: sums tell what was sent."""


def test_one_report_of_each_question_is_sent_and_none_in_which_nobody_answered(
    browser: Browser, tmp_path: Path
) -> None:
    with survey_site(tmp_path, SURVEY) as (site, first):
        assert site.asked.task is None
        with visiting(browser, site.address) as visit:
            page, posts = visit.page, Counter[str]()

            def note(request: Request) -> None:
                posts[request.url.split("/")[-2]] += bool(request.post_data_buffer)

            page.clock.set_fixed_time(datetime.fromtimestamp(NOW, UTC))
            page.on("request", note)
            ready(visit.see("/form.html"))
            page.get_by_label("What hurts?").fill("a Knee")
            page.get_by_role("group", name="Where?").get_by_label("I'd rather not say").check()
            send(page)
            says(page, "Your answers are counted.")
            ready(visit.see("/form.html"))
            says(page, "Your answers are counted.")
            expect(page.get_by_role("button")).not_to_be_visible()
        assert [*(+posts).values()] == [1, 1]
        start = NOW - (NOW - first.policy.window.start * first.time_precision) % (7 * DAY)
        interval = Interval.of(start // first.time_precision, 7 * DAY // first.time_precision)
        site.pair.clock.advance(7 * DAY)
        for name, answer in {"word": "a knee", "where": None}.items():
            question, tasks = site.asked.texts[name]
            (place,) = (at for at, each in enumerate(tasks) if posts[str(each.task_id)])
            values = site.collect(tasks[place], interval).values
            assert values[question.hashes.bucket(place, answer)] == sum(values) == 1


def test_a_browser_that_keeps_no_toss_is_asked_nothing_and_told_so(
    browser: Browser, tmp_path: Path
) -> None:
    """It would toss again at every visit, and a person would pay twice."""
    with survey_site(tmp_path, SURVEY) as (site, _), visiting(browser, site.address) as visit:
        page = visit.page
        page.clock.set_fixed_time(datetime.fromtimestamp(NOW, UTC))
        page.add_init_script("delete IDBFactory.prototype.open")
        ready(visit.see("/form.html"))
        expect(page.get_by_text("are not asked here")).to_be_visible()
        expect(page.get_by_role("textbox")).to_have_count(0)
        expect(page.get_by_role("button")).not_to_be_visible()
        assert site.posts == 0
