"""Fifty people with links, in Chromium and in Python, over a network that loses answers.

Exactly who should count counts, once: whoever answers twice, on another device or with another
client, with each other's link, with a link of one aggregator's list only, or with one of none.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from aggregator.cli.steward.survey_texts import write_survey
from aggregator.client import SurveyClient
from aggregator.dap.times import DAY
from aggregator.protocol.permit_codes import code_of
from aggregator.protocol.permit_lists import listed
from aggregator.protocol.requirements import Requirements
from tests.browser.test_what_an_invited_person_sees import COUNTED, SURVEY, USED, see
from tests.support.browser import ready, says, send, visiting
from tests.support.clock import ManualClock
from tests.support.invited import Invited
from tests.support.module_pair import Site, survey_site
from tests.support.pair import NOW
from tests.support.permitted import window_at
from tests.support.surveys import week_of

pytestmark = pytest.mark.slow

PEOPLE, IN_CHROMIUM, TWICE = 50, 6, 5
STRANGER, AT_LEADER, AT_HELPER = (bytes([n]) * 16 for n in (201, 202, 203))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with survey_site(tmp_path, SURVEY) as (made, _):
        yield made


def device(public: Path, name: str) -> SurveyClient:
    anything = Requirements(any_epsilon=True)
    outbox = public.parent / f"{name}.sqlite"
    return SurveyClient(public, outbox, clock=ManualClock(NOW), requirements=anything)


def flush(survey: SurveyClient, *, left: int = 0) -> None:
    while survey.reporter.flush(now=True).waiting > left:
        pass


def test_exactly_who_should_count_counts_once(browser: Browser, site: Site, tmp_path: Path) -> None:
    invited = Invited(site, PEOPLE)
    site.loses = lambda number: number % 3 == 0
    asked, pair = site.asked, site.pair
    assert asked.task is not None
    write_survey(asked.task, asked.texts, tmp_path / "made")
    public = tmp_path / "made" / "task.toml"
    for secret, service in ((AT_LEADER, pair.leader), (AT_HELPER, pair.helper)):
        for task in invited.tasks[:2]:
            assert task.permits is not None
            window = window_at(task)
            entries = {window: [task.permits.entry_of(secret, window)]}
            invited.give(service, [listed(task.permits.domain, entries)])

    codes = list(invited.codes)
    codes[0], codes[-1] = codes[-1], codes[0]  # two have each other's link
    for code in codes[:IN_CHROMIUM]:
        with visiting(browser, site.address) as visit:
            page = ready(see(visit, site, code))
            page.get_by_label("surgery").check()
            page.get_by_label("What hurts?").fill("knee")
            send(page)
            says(page, COUNTED)
    with device(public, "one") as survey:
        for code in codes[IN_CHROMIUM:]:
            survey.put({"department": "surgery", "word": "knee"}, permit=code)
        survey.put({"department": "medicine"}, permit=code_of(AT_LEADER))
        for secret in (AT_HELPER, STRANGER):
            survey.put({"department": "medicine"}, permit=code_of(secret))
        flush(survey, left=4)  # of two people, to be sent again in case a list comes

    # Five come again: one of Chromium in Python, and others the other way round.
    with device(public, "two") as survey:
        for code in codes[: TWICE - 2]:
            survey.put({"department": "medicine"}, permit=code)
        flush(survey)
    for code in codes[-2:]:
        with visiting(browser, site.address) as visit:
            page = ready(see(visit, site, code))
            page.get_by_label("medicine").check()
            page.get_by_label("What hurts?").fill("tooth")
            send(page)
            says(page, USED)

    assert [invited.spent(pair.leader, each) for each in invited.tasks[:2]] == [PEOPLE + 1] * 2
    pair.clock.advance(7 * DAY)
    result = site.collect(asked.task, week_of(asked.task, datetime.fromtimestamp(NOW, UTC)))
    # The leader's list alone lets nobody count: the helper refuses that one report.
    assert result.report_count == PEOPLE
    assert tuple(result.values) == (PEOPLE, 0, 0)
    assert pair.helper.counts(asked.task)["aggregated"] == PEOPLE
    assert invited.spent(pair.helper, asked.task) == PEOPLE
