"""The page of a survey by invitation: what it says of a link, and that a link goes nowhere."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect

from aggregator.protocol.permit_codes import code_of, secret_of
from aggregator.protocol.permit_lists import listed
from aggregator.service.storage.reports.counters import Stage
from tests.support.browser import Visit, ready, requests_of, says, send, visiting
from tests.support.invited import Invited
from tests.support.module_pair import Site, survey_site
from tests.support.permitted import window_at
from tests.support.surveys import IN_2023, department
from tests.support.texts import WORD

pytestmark = pytest.mark.slow

SURVEY = (
    IN_2023.replace('asked = "patients"', 'asked = "patients"\nanswers = "by invitation"').replace(
        'epsilon = "1"', 'epsilon = "100000000"'
    )
    + department()
    + WORD.replace('"1/4"', '"64"')
)
NEEDED = "This survey counts one answer for each personal link."
COUNTED = "Your answers are counted."
USED = "Your personal link was used before, here or elsewhere"


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with survey_site(tmp_path_factory.mktemp("survey"), SURVEY) as (made, _):
        yield made


@pytest.fixture
def invited(site: Site) -> Invited:
    return Invited(site, 6)


def see(visit: Visit, site: Site, code: str = "") -> Page:
    """Open the page, with the code of a link in its address."""
    visit.page.clock.set_fixed_time(datetime.fromtimestamp(site.pair.clock.now(), UTC))
    return visit.see(f"/form.html#p={code}" if code else "/form.html")


def answer(page: Page, word: str = "knee") -> None:
    page.get_by_label("surgery").check()
    page.get_by_label("What hurts?").fill(word)
    send(page)


def stored(site: Site) -> dict[str, int]:
    assert site.asked.task is not None
    return site.pair.leader.counts(site.asked.task, Stage.UPLOAD)


def test_who_has_no_link_is_asked_for_its_code_before_the_questions(
    browser: Browser, site: Site, invited: Invited
) -> None:
    code = invited.codes[0]
    with visiting(browser, site.address) as visit:
        page = see(visit, site)
        expect(page.get_by_text(NEEDED)).to_be_visible()
        expect(page.get_by_label("surgery")).not_to_be_visible()
        field = page.get_by_label("Code of your link")
        field.fill(code[:-1])
        page.get_by_role("button", name="Use this code").click()
        expect(page.get_by_text("This is not a whole code")).to_be_visible()
        expect(page.get_by_label("surgery")).not_to_be_visible()
        field.fill(code.upper().replace("-", " "))
        page.get_by_role("button", name="Use this code").click()
        answer(ready(page))
        says(page, COUNTED)
        # The address is one to keep: loaded again, it knows whose answers were counted.
        page.reload()
        says(ready(page), COUNTED)
    with visiting(browser, site.address) as visit:
        page = see(visit, site, code[:-1])
        expect(page.get_by_text("This is not a whole code")).to_be_visible()
    assert stored(site) == {"stored": 1}


def test_a_link_goes_into_no_request_and_two_people_in_one_browser_are_both_counted(
    browser: Browser, site: Site, invited: Invited
) -> None:
    with visiting(browser, site.address) as visit:
        sent = requests_of(visit.page.context)
        answer(ready(see(visit, site, invited.codes[0])))
        says(visit.page, COUNTED)
        # Another person's link, opened in the same tab, changes what is behind the # alone.
        visit.page.evaluate(f"location.hash = 'p={invited.codes[1]}'")
        expect(visit.page.get_by_label("surgery")).to_be_visible()
        page = ready(visit.page)
        expect(page.get_by_label("What hurts?")).to_have_value("")
        answer(page, "tooth")
        says(page, COUNTED)
        # The first person comes again.
        page.evaluate(f"location.hash = 'p={invited.codes[0]}'; location.reload()")
        says(ready(page), COUNTED)
        expect(page.get_by_label("surgery")).not_to_be_visible()
        kept = page.evaluate(
            "async () => JSON.stringify([{...localStorage}, await new Promise((done) => {"
            "const opened = indexedDB.open('prio-outbox', 1); opened.onsuccess = () => {"
            "const names = [...opened.result.objectStoreNames], all = {}; let left = names.length;"
            "for (const name of names) { const asked = opened.result.transaction(name)"
            ".objectStore(name).getAll(); asked.onsuccess = () => { all[name] = asked.result;"
            "if (!--left) done(all); }; } }; })])"
        )
        for code in invited.codes[:2]:
            assert code not in kept
            secret = secret_of(code)
            for each in sent:
                body = each.post_data_buffer or b""
                assert code not in each.url.split("#")[0]
                assert code.encode() not in body
                assert secret not in body
                assert code not in str(each.headers)
    assert stored(site) == {"stored": 2}
    assert [invited.spent(site.pair.leader, task) for task in invited.tasks[:2]] == [2, 2]


def test_a_link_that_was_used_elsewhere_is_told_of_and_counts_once(
    browser: Browser, site: Site, invited: Invited
) -> None:
    for said in (COUNTED, USED):
        with visiting(browser, site.address) as visit:
            page = ready(see(visit, site, invited.codes[0]))
            answer(page)
            says(page, said)
            # This browser knows it now, before the questions.
            page.reload()
            says(ready(page), said)
            expect(page.get_by_label("surgery")).not_to_be_visible()
    assert stored(site) == {"stored": 1, "permit_spent": 1}
    assert [invited.spent(site.pair.leader, task) for task in invited.tasks[:2]] == [1, 1]


def test_a_link_of_no_list_is_told_of_and_counts_once_a_list_has_it(
    browser: Browser, site: Site, invited: Invited
) -> None:
    secret = b"sixteen bytes ok"
    with visiting(browser, site.address) as visit:
        page = ready(see(visit, site, code_of(secret)))
        answer(page)
        says(page, "Your personal link is not one that counts.")
        for task in invited.tasks[:2]:
            assert task.permits is not None
            window = window_at(task, site.pair.clock.now())
            entries = {window: [task.permits.entry_of(secret, window)]}
            for service in (site.pair.leader, site.pair.helper):
                invited.give(service, [listed(task.permits.domain, entries)])
        page.reload()
        says(ready(page), COUNTED)


def test_a_link_of_another_window_is_told_of(
    browser: Browser, site: Site, invited: Invited
) -> None:
    secret = b"of another week!"
    for task in invited.tasks[:2]:
        assert task.permits is not None
        window = window_at(task, site.pair.clock.now())
        # The same permit, listed for the week after: as of a client whose clock is wrong.
        entries = {window + 1: [task.permits.entry_of(secret, window)]}
        for service in (site.pair.leader, site.pair.helper):
            invited.give(service, [listed(task.permits.domain, entries)])
    with visiting(browser, site.address) as visit:
        page = ready(see(visit, site, code_of(secret)))
        answer(page)
        says(page, "Your personal link does not count at this time")
    assert stored(site) == {"permit_of_another_window": 1}


def test_the_field_for_a_code_and_what_a_link_tells_can_be_read(
    browser: Browser, site: Site, invited: Invited
) -> None:
    assert invited.codes
    with visiting(browser, site.address) as visit:
        page = see(visit, site)
        page.get_by_role("button", name="Use this code").click()
        page.get_by_text("What happens to my answers?").click()
        expect(page.get_by_text("Whoever knows that you were given it")).to_be_visible()
        expect(page.get_by_text("counts in one of them only")).to_be_visible()
        expect(page.get_by_text("Only this browser sees to it")).not_to_be_visible()
        visit.check_everywhere()
