"""Words in Chromium that are counted by another answer: both are one entry of a report."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, expect

from aggregator.dap.times import DAY
from aggregator.steward.survey import Meaning
from tests.support.browser import TOSSES, ready, says, send, visiting
from tests.support.module_pair import Site, survey_site
from tests.support.pair import NOW
from tests.support.surveys import week_of

pytestmark = pytest.mark.slow

SURVEY = """
title = "Your week"
asked = "customers"
window = "week"
first = 2023-11-13
min_batch_size = 1
max_reports = 1000
[budget]
epsilon = "128"
windows = 52
[[question]]
name = "age"
text = "How old are you?"
kind = "choice"
labels = ["under 30", "30 to 59", "60 or more"]
[[question]]
name = "shop"
text = "In which shop did you spend most last week?"
kind = "text"
epsilon = "64"
buckets = 32
tasks = 8
by = "age"
[translations.ar]
title = "أسبوعك"
[translations.ar.question.age]
text = "كم عمرك؟"
labels = ["أقل من 30", "من 30 إلى 59", "60 فأكثر"]
[translations.ar.question.shop]
text = "في أي متجر أنفقت أكثر الأسبوع الماضي؟"
"""
"""So much epsilon that the noise is 0: sums tell what was sent."""

DRAWN = 3
"""The place for which everybody tosses."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with survey_site(tmp_path_factory.mktemp("labels"), SURVEY) as (found, _):
        yield found


def test_words_and_the_choice_are_counted_as_one_answer_and_words_alone_as_none(
    browser: Browser, site: Site
) -> None:
    question, tasks = site.asked.texts["shop"]
    moment = datetime.fromtimestamp(NOW, UTC)
    for words, age in (
        ("Corner  STORE", "under 30"),
        ("corner store", "60 or more"),
        ("corner store", None),
        (None, "30 to 59"),
    ):
        with visiting(browser, site.address) as visit:
            page = visit.page
            page.clock.set_fixed_time(moment)
            page.add_init_script(TOSSES % DRAWN)
            visit.see("/form.html")
            ready(page)
            expect(page.locator("#q1-hint")).to_contain_text("only if you answer that, too:")
            expect(page.locator("#q1-hint")).to_contain_text("How old are you?")
            groups = page.locator("fieldset")
            if age is None:
                groups.first.get_by_label("I'd rather not say").check()
            else:
                page.get_by_label(age).check()
            if words is None:
                groups.last.get_by_label("I'd rather not say").check()
            else:
                page.get_by_label("In which shop").fill(words)
            visit.check_everywhere()
            send(page)
            says(page, "Your answers are counted.")
    site.pair.clock.advance(7 * DAY)
    week = week_of(tasks[0], moment, Meaning.from_json(site.asked.meaning))
    values = site.collect(tasks[DRAWN], week).values
    bucket = question.hashes.bucket(DRAWN, "corner store")
    assert {place: each for place, each in enumerate(values) if each} == {
        0: 2,
        bucket: 1,
        bucket + 2 * 31: 1,
    }


def test_by_which_question_it_is_counted_is_said_from_right_to_left_on_small_screens_too(
    browser: Browser, site: Site
) -> None:
    moment = datetime.fromtimestamp(NOW + 7 * DAY, UTC)
    with visiting(browser, site.address, width=320, locale="ar", scheme="dark") as visit:
        visit.page.clock.set_fixed_time(moment)
        visit.see("/form.html")
        ready(visit.page)
        expect(visit.page.locator("#q1-hint")).to_contain_text("ولا يُحتسب إلا إذا أجبت عنه أيضًا")
        expect(visit.page.locator("#q1-hint")).to_contain_text("كم عمرك؟")
        visit.page.locator("summary").first.click()
        expect(visit.page.get_by_text("تُجزّأ تلك الإجابة وتُرسَل مع البصمة")).to_be_visible()
        visit.check_everywhere()
