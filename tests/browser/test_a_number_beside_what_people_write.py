"""Words and a number in Chromium: both are asked for, and are one entry of a report."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect

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
epsilon = "64"
windows = 52
[[question]]
name = "shop"
text = "In which shop did you spend most last week?"
kind = "text"
epsilon = "64"
buckets = 32
tasks = 8
amount = { text = "How much did you spend?", low = 0, high = 100, step = "1/2", unit = "euros" }
[translations.de]
title = "Ihre Woche"
[translations.de.question.shop]
text = "In welchem Laden haben Sie letzte Woche am meisten ausgegeben?"
amount = { text = "Wie viel haben Sie dort ausgegeben?", unit = "Euro" }
"""
"""So much epsilon that the noise is 0: sums tell what was sent."""

DRAWN = 3
"""Only a toss and a level take eight bytes: the place is 3, and who gives 2 euros has level 1."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with survey_site(tmp_path_factory.mktemp("amounts"), SURVEY) as (found, _):
        yield found


def faults(page: Page) -> list[str]:
    return page.get_by_role("alert").get_by_role("link").all_text_contents()


def test_words_and_a_number_are_asked_for_and_counted_as_one_answer(
    browser: Browser, site: Site
) -> None:
    question, tasks = site.asked.texts["shop"]
    moment = datetime.fromtimestamp(NOW, UTC)
    for words, number in (("Corner  STORE", "2"), ("corner store", "1.5"), (None, None)):
        with visiting(browser, site.address) as visit:
            page = visit.page
            page.clock.set_fixed_time(moment)
            page.add_init_script(TOSSES % DRAWN)
            visit.see("/form.html")
            ready(page)
            spent = page.get_by_label("How much did you spend?")
            shop = page.get_by_label("In which shop")
            if words is None:
                page.get_by_label("I'd rather not say").check()
            else:
                send(page)
                assert len(faults(page)) == 1
                shop.fill(words)
                for wrong in ("", "101", "much", "1,000"):
                    spent.fill(wrong)
                    send(page)
                    expect(spent).to_have_attribute("aria-invalid", "true")
                    expect(shop).not_to_have_attribute("aria-invalid", "true")
                    expect(page.locator("#q0-fault")).to_contain_text("from 0 to 100")
                visit.check_everywhere()
                spent.fill(str(number))
            send(page)
            says(page, "Your answers are counted.")
    site.pair.clock.advance(7 * DAY)
    week = week_of(tasks[0], moment, Meaning.from_json(site.asked.meaning))
    values = site.collect(tasks[DRAWN], week).values
    bucket = question.hashes.bucket(DRAWN, "corner store")
    assert {place: each for place, each in enumerate(values) if each} == {
        0: 1,
        bucket: 1,
        bucket + 31: 1,
    }


def test_the_number_is_asked_for_in_each_language_on_small_screens_too(
    browser: Browser, site: Site
) -> None:
    moment = datetime.fromtimestamp(NOW + 7 * DAY, UTC)
    with visiting(browser, site.address, width=320, locale="de-DE", scheme="dark") as visit:
        visit.page.clock.set_fixed_time(moment)
        visit.see("/form.html")
        ready(visit.page)
        field = visit.page.get_by_label("Wie viel haben Sie dort ausgegeben?")
        expect(field).to_be_visible()
        expect(visit.page.locator("#q0-number-unit")).to_have_text("Euro")
        visit.page.get_by_text("Was geschieht mit meinen Antworten?").click()
        expect(visit.page.get_by_text("je größer die Zahl")).to_be_visible()
        visit.check_everywhere()
