"""The page of a survey by application, which takes permits that its site put into the browser."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect

from aggregator.issuer import AlreadyIssued, Issuer, PrivateKeys
from aggregator.protocol.task_file import issuer_keys_to_table, task_for_clients
from aggregator.service.storage.reports.counters import Stage
from tests.browser.test_what_an_invited_person_sees import COUNTED, answer
from tests.browser.test_what_an_invited_person_sees import SURVEY as BY_INVITATION
from tests.support.browser import Visit, ready, says, visiting
from tests.support.module_pair import Site, survey_site
from tests.support.signed import KeptAnswers, private_keys

pytestmark = pytest.mark.slow

SURVEY = BY_INVITATION.replace("by invitation", "by application").replace("= 52", "= 3")
MISSING = "this browser has no permit to answer now"

REFRESH = """
async ({ tasks, keys, person }) => {
  const { BrowserOutbox, Task } = await import('/prio.js');
  const { Permits } = await import('/prio-signed.js');
  const made = tasks.map((each) => new Task(each)), outbox = new BrowserOutbox();
  const permits = new Permits(made, keys, { outbox, person });
  return permits.refresh(async (request) => {
    const answer = await issue(person, [...request]);
    return answer && Uint8Array.from(answer);
  });
}
"""
"""What the page after the login does, where the application's own server is the issuer."""


class Application:
    """An application that serves the page, and is the issuer."""

    def __init__(self, site: Site) -> None:
        self.site, tasks = site, site.asked.tasks
        keys = tasks[0].issuer_keys
        assert keys is not None
        private = PrivateKeys(keys, private_keys())
        self.issuer = Issuer(private, tasks, KeptAnswers(), clock=site.pair.clock)
        self.told = {
            "tasks": [task_for_clients(each) for each in tasks],
            "keys": issuer_keys_to_table(keys),
        }

    def issue(self, person: str, request: list[int]) -> list[int] | None:
        try:
            return [*self.issuer.issue(person, bytes(request))]
        except AlreadyIssued:
            return None

    def visit(self, visit: Visit) -> Page:
        """Open another page of the site."""
        visit.page.clock.set_fixed_time(datetime.fromtimestamp(self.site.pair.clock.now(), UTC))
        visit.page.expose_function("issue", self.issue)
        return visit.see("/")

    def log_in(self, page: Page, person: str) -> int:
        page.goto("/")
        return int(page.evaluate(REFRESH, self.told | {"person": person}))

    @property
    def stored(self) -> list[dict[str, int]]:
        """What was counted of the survey, and of all tasks of the text question together."""
        found: dict[str, int] = {}
        for task in self.site.asked.texts["word"][1]:
            for reason, count in self.site.pair.leader.counts(task, Stage.UPLOAD).items():
                found[reason] = found.get(reason, 0) + count
        return [self.site.pair.leader.counts(self.site.asked.first, Stage.UPLOAD), found]


@pytest.fixture
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with survey_site(tmp_path_factory.mktemp("survey"), SURVEY) as (site, _):
        yield Application(site)


def see(page: Page, person: str) -> Page:
    page.goto("about:blank")
    page.goto(f"/form.html#for={person}")
    return ready(page)


def test_who_has_no_permit_is_told_before_the_questions_and_who_has_one_is_counted(
    browser: Browser, application: Application
) -> None:
    with visiting(browser, application.site.address) as visit:
        page = application.visit(visit)
        says(see(page, "ada"), MISSING)
        expect(page.get_by_label("surgery")).not_to_be_visible()
        visit.check_everywhere()
        assert application.log_in(page, "ada") == 6
        answer(see(page, "ada"))
        says(page, COUNTED)
        says(see(page, "ada"), COUNTED)
        # Another person in this browser needs their own, and gets them.
        says(see(page, "bob"), MISSING)
        assert application.log_in(page, "bob") == 6
        answer(see(page, "bob"), "elbow")
        says(page, COUNTED)
    assert application.stored == [{"stored": 2}, {"stored": 2}]


def test_on_a_second_device_nobody_answers_again(
    browser: Browser, application: Application
) -> None:
    for number in range(2):
        with visiting(browser, application.site.address) as visit:
            page = application.visit(visit)
            assert application.log_in(page, "ada") == (0 if number else 6)
            see(page, "ada")
            if number:
                says(page, MISSING)
            else:
                answer(page)
                says(page, COUNTED)
    assert application.stored == [{"stored": 1}, {"stored": 1}]


def test_the_page_says_what_nobody_can_tell_and_asks_for_no_code(
    browser: Browser, application: Application
) -> None:
    page_text = application.site.pages["form.html"]
    data = json.loads(page_text.split('id="survey">')[1].split("</script>")[0])
    assert data["keys"] == application.told["keys"]
    assert page_text.count(str(data["keys"]["keys"])) == 1
    with visiting(browser, application.site.address) as visit:
        page = application.visit(visit)
        application.log_in(page, "ada")
        see(page, "ada").get_by_text("What happens to my answers?").click()
        expect(page.get_by_text("which it signed without seeing them")).to_be_visible()
        expect(page.get_by_text("Your permit counts in one of them only.")).to_be_visible()
        expect(page.get_by_text("personal link")).to_have_count(0)
        visit.check_everywhere()
