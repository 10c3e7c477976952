"""When the page takes answers: not where there is no room, and not while the time is unknown."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from aggregator.dap.times import DAY
from aggregator.protocol.task import Task
from tests.support.browser import Visit, ready, says, send, visiting
from tests.support.module_pair import Site, survey_site
from tests.support.surveys import IN_2023, department

pytestmark = pytest.mark.slow

ONE_A_WEEK = IN_2023.replace("min_batch_size = 3", "min_batch_size = 1").replace(
    "max_reports = 1000", "max_reports = 1"
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Task]]:
    with survey_site(tmp_path_factory.mktemp("survey"), ONE_A_WEEK + department()) as found:
        yield found


def see(visit: Visit, site: Site, days: int = 0) -> Page:
    """See the page on a device whose clock is some days off."""
    now = site.pair.clock.now() + days * DAY
    visit.page.clock.set_fixed_time(datetime.fromtimestamp(now, UTC))
    page = visit.see("/form.html")
    return ready(page)


def answer(page: Page) -> None:
    page.get_by_label("surgery").check()
    send(page)


def test_who_comes_to_a_week_that_is_full_is_asked_nothing_and_told_when_there_is_room(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, _ = asked
    with visiting(browser, site.address) as visit:
        page = see(visit, site)
        answer(page)
        says(page, "Your answers are counted.")
        # Whoever has answered reads when they may again.
        expect(page.get_by_text("You may answer again from November 20, 2023")).to_be_visible()
    with visiting(browser, site.address) as visit:
        page = see(visit, site)
        says(page, "These questions can be answered again from November 20, 2023")
        expect(page.get_by_role("button")).not_to_be_visible()
        posts = site.posts
        site.pair.clock.advance(7 * DAY)
        page = see(visit, site)
        answer(page)
        says(page, "Your answers are counted.")
        assert site.posts == posts + 1
    site.pair.clock.advance(7 * DAY)


def _stripped(site: Site) -> None:
    site.ahead = {"leader": None, "helper": None}


def _stripped_once(site: Site) -> None:
    site.ahead = {"leader": 0, "helper": None}


def _cached(site: Site) -> None:
    site.ages = {"leader": "86400", "helper": ""}


def _cached_everywhere(site: Site) -> None:
    """A cache that is a day old agrees with a device whose clock is a day behind."""
    site.ages = {"leader": "86400", "helper": "86400"}
    site.ahead = {"leader": -DAY, "helper": -DAY}


@pytest.mark.parametrize("hide", [_stripped, _stripped_once, _cached, _cached_everywhere])
def test_answers_wait_in_the_open_page_while_a_network_hides_the_time(
    browser: Browser, asked: tuple[Site, Task], hide: Callable[[Site], None]
) -> None:
    site, _ = asked
    with visiting(browser, site.address) as visit:
        hide(site)
        page = see(visit, site, days=-1)
        posts = site.posts
        answer(page)
        says(page, "nobody can tell what time it is")
        says(page, "Please keep this page open")
        asks: list[str] = []

        def stay(dialog: Dialog) -> None:
            asks.append(dialog.type)
            dialog.dismiss()

        # Nothing else keeps them, so who closes it is asked.
        page.on("dialog", stay)
        with page.expect_event("dialog"):
            page.evaluate("setTimeout(() => location.reload())")
        visit._faults[:] = [each for each in visit._faults if "dialog" not in each]
        assert site.posts == posts
        assert page.evaluate("localStorage.length") == 0
        site.ahead, site.ages = {"leader": 0, "helper": 0}, {"leader": "", "helper": ""}
        says(page, "Your answers are counted.")
        assert asks == ["beforeunload"]
        assert site.posts == posts + 1
    site.pair.clock.advance(7 * DAY)
