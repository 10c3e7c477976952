"""The example application: people with accounts answer once each, on one device, unseen by it."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from aggregator.cli.steward.survey_texts import write_survey
from aggregator.dap.times import Interval
from aggregator.issuer import Issued, PrivateKeys
from aggregator.protocol.permit_requests import Place
from aggregator.service.storage.reports.counters import Stage
from tests.support.browser import Visit, ready, says, send, visiting
from tests.support.module_pair import Site, survey_site
from tests.support.pair import NOW
from tests.support.processes import ROOT
from tests.support.serving import serving
from tests.support.signed import private_keys, window_of

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "login"
FIRST = datetime.fromtimestamp(NOW, UTC).date().isoformat()
SURVEY = (
    (EXAMPLE / "survey.toml")
    .read_text("utf-8")
    .replace('window = "day"', f'window = "day"\nfirst = {FIRST}')
    .replace("min_batch_size = 5", "min_batch_size = 1")
    .replace('epsilon = "2"', 'epsilon = "100000000"')
    .replace("windows = 30", "windows = 3")
)
COUNTED = "Your answers are counted. Thank you."
HERE = "You can answer on this device."
ELSEWHERE = "Today you can answer on another device of yours"


class Application:
    """The example, served beside the aggregators, and its people's passwords."""

    def __init__(self, site: Site, address: str, passwords: dict[str, str]) -> None:
        self.site, self.address, self.passwords = site, address, passwords

    @contextmanager
    def device(self, browser: Browser, ahead: int = 0) -> Iterator[Visit]:
        """Visit it from a device that was never there, whose clock is seconds ahead."""
        with visiting(browser, self.address) as visit:
            visit.hosts.add(urlsplit(self.site.address).netloc)  # the aggregators'
            visit.page.clock.set_fixed_time(datetime.fromtimestamp(NOW + ahead, UTC))
            yield visit

    def log_in(self, visit: Visit, name: str) -> Page:
        page = visit.see("/")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(self.passwords[name])
        page.get_by_role("button", name="Log in").click()
        return ready(page)

    @property
    def stored(self) -> dict[str, int]:
        return self.site.pair.leader.counts(self.site.asked.first, Stage.UPLOAD)


def log_out(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("input[name=password]")


def asked(page: Page) -> Page:
    page.goto("/survey")
    return ready(page)


def answer(page: Page, place: str) -> None:
    page.get_by_label(place).check()
    page.get_by_role("group", name="Did you feel").get_by_label("Yes").check()
    send(page)


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in ("accounts", "application"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = importlib.import_module("application")
    accounts = made.Accounts(tmp_path / "accounts.sqlite")
    passwords = {name: accounts.add(name) for name in ("ada", "bob")}
    with survey_site(tmp_path, SURVEY) as (site, task):
        write_survey(task, {}, tmp_path / "made")
        assert task.issuer_keys is not None
        assert task.issuer_keys.first == window_of(task)
        PrivateKeys(task.issuer_keys, private_keys()).write(tmp_path / "made" / "issuer.keys")
        app = made.application(tmp_path / "made", accounts, site.pair.clock)
        with serving(app) as address:
            yield Application(site, address, passwords)
    for name in ("accounts", "application"):
        sys.modules.pop(name, None)


def test_each_person_counts_once_on_the_device_that_has_their_permits(
    browser: Browser, application: Application
) -> None:
    with application.device(browser) as visit:
        page = application.log_in(visit, "ada")
        says(page, HERE)
        answer(asked(page), "In the canteen")
        says(page, COUNTED)
        # She is not asked again, and knows why.
        says(asked(page), COUNTED)
        expect(page.get_by_label("In the canteen")).not_to_be_visible()
        page.goto("/")
        says(ready(page), "You have answered today.")
        log_out(page)
        # Another person in the same browser has permits of their own.
        page = application.log_in(visit, "bob")
        says(page, HERE)
        answer(asked(page), "At my desk")
        says(page, COUNTED)
    with application.device(browser) as visit:
        page = application.log_in(visit, "ada")
        says(page, ELSEWHERE)
        says(asked(page), "You cannot answer on this device today.")
        expect(page.get_by_label("In the canteen")).not_to_be_visible()
    assert application.stored == {"stored": 2}
    task = application.site.asked.first
    assert task.policy.window is not None
    first = task.policy.window.first_unit(task.time(NOW).units)
    application.site.pair.clock.advance(86_400)
    day = Interval.of(first, task.policy.window.length)
    assert [int(each) for each in application.site.collect(task, day).values][:2] == [1, 1]


def test_a_lost_answer_of_the_issuer_loses_no_permit_and_doubles_none(
    browser: Browser, application: Application
) -> None:
    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    with application.device(browser) as visit:
        visit.page.route("**/permits", lose)
        says(application.log_in(visit, "ada"), "Please load this page again.")
        visit._faults.clear()  # Chromium writes of a request that failed
        visit.page.unroute("**/permits")
        visit.page.reload()
        says(ready(visit.page), HERE)
        answer(asked(visit.page), "Elsewhere")
        says(visit.page, COUNTED)
    assert application.stored == {"stored": 1}


def test_a_device_whose_clock_is_wrong_gets_the_permits_of_today(
    browser: Browser, application: Application
) -> None:
    for ahead, name in ((5 * 86_400, "ada"), (-5 * 86_400, "bob")):
        with application.device(browser, ahead) as visit:
            says(application.log_in(visit, name), HERE)
            answer(asked(visit.page), "Elsewhere")
            says(visit.page, COUNTED)
    assert application.stored == {"stored": 2}


def test_the_issuer_answers_nobody_who_is_not_logged_in_and_nothing_that_is_no_request(
    application: Application,
) -> None:
    with httpx.Client(base_url=application.address, trust_env=False) as web:
        assert web.post("/permits", content=b"\1\0\0").status_code == 401
        wrong = {"name": "ada", "password": "wrong"}
        refused = web.post("/login", data=wrong)
        assert refused.status_code == 403
        assert "This name and password do not match." in refused.text
        right = {"name": "ada", "password": application.passwords["ada"]}
        login = web.post("/login", data=right)
        assert login.status_code == 303
        assert "HttpOnly" in login.headers["set-cookie"]
        assert "SameSite=strict" in login.headers["set-cookie"]
        assert web.post("/permits", content=b"\1\0\0").status_code == 400
        assert web.post("/permits", content=bytes(70_000)).status_code == 413
        assert web.get("/files/issuer.keys").status_code == 404
        assert web.get("/files/..%2Fissuer.keys").status_code == 404
        web.post("/logout")
        assert web.post("/permits", content=b"\1\0\0").status_code == 401


def test_its_store_keeps_the_first_answer_and_forgets_windows_that_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.delitem(sys.modules, "accounts", raising=False)
    accounts = importlib.import_module("accounts").Accounts(tmp_path / "accounts.sqlite")
    sys.modules.pop("accounts")
    places = [Place(bytes(32), window) for window in (4, 5)]
    first, second = Issued(b"asked", b"answer"), Issued(b"asked again", b"another")
    for place in places:
        assert accounts.get("ada", place) is None
        assert accounts.keep("ada", place, first) == first
        assert accounts.keep("ada", place, second) == first
        assert accounts.get("bob", place) is None
    accounts.forget({bytes(32): 5, b"?" * 32: 9})
    assert [accounts.get("ada", each) for each in places] == [None, first]


def test_a_name_that_has_an_account_gets_no_second_one(tmp_path: Path) -> None:
    add = (sys.executable, EXAMPLE / "application.py", tmp_path, "--add", "ada")
    first, second = (
        subprocess.run(add, capture_output=True, text=True, check=False)  # noqa: S603  our own
        for _ in range(2)
    )
    assert (first.returncode, first.stderr) == (0, "")
    assert (second.returncode, second.stdout) == (2, "")
    assert second.stderr.endswith("error: ada has an account\n")


def test_its_pages_can_be_read_by_everybody(browser: Browser, application: Application) -> None:
    with application.device(browser) as visit:
        visit.see("/")
        visit.check_everywhere()
        page = application.log_in(visit, "ada")
        visit.check_everywhere()
        asked(page)
        visit.check_everywhere()
