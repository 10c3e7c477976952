"""The examples of clients.md in JavaScript, run as they are printed, at real aggregators."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from aggregator.client import SurveyClient
from aggregator.dap.profile import PROFILES
from aggregator.dap.times import DAY
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import tasks_to_json
from aggregator.steward.survey import Meaning
from aggregator.steward.survey.form.translations import WORDS
from tests.support.browser import visiting
from tests.support.clock import ManualClock
from tests.support.module_pair import Site, survey_site
from tests.support.node import MODULE, SCRIPTS, node
from tests.support.pair import NOW
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.ports import free_ports
from tests.support.processes import ROOT
from tests.support.survey_cases import every_answer, surveys
from tests.support.surveys import week_of

pytestmark = pytest.mark.slow

EVENT = """
title = "Use"
asked = "people who work with it"
window = "week"
first = 2023-11-13
min_batch_size = 1
max_reports = 1000
[budget]
epsilon = "100000000"
windows = 52
[[question]]
name = "exported"
kind = "yes-no"
"""
"""So much epsilon that the noise is 0: sums tell what was sent."""
SURVEY = (
    EVENT.split("[[question]]", maxsplit=1)[0].replace('"Use"', '"Work"')
    + """
[[question]]
name = "education"
kind = "choice"
labels = ["none", "school", "degree"]
[[question]]
name = "hours"
kind = "number"
low = 0
high = 80
step = "1/2"
"""
)


def printed(begin: str, language: str = "js") -> str:
    """Return the example of the documents that begins so."""
    document = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    [code] = re.findall(rf"```{language}\n({re.escape(begin)}.*?)```", document, re.DOTALL)
    return str(code)


def sums(site: Site, task: Task) -> dict[str, list[int]]:
    """Return the sums of the week by question, once it is over."""
    site.pair.clock.advance(7 * DAY)
    meaning = Meaning.of_task(task)
    values = site.collect(task, week_of(task, datetime.fromtimestamp(NOW, UTC))).values
    return {
        part.name: [int(each) for each in values[part.span.first :][: part.span.length]]
        for part in meaning.sheet.parts
    }


@contextmanager
def service(folder: Path, code: str) -> Iterator[httpx.Client]:
    """Run a service in Node that has the package until the block ends."""
    package = folder / "node_modules" / "prio-aggregator-client"
    if not package.exists():
        package.parent.mkdir()
        package.symlink_to(MODULE)
    (folder / "service.mjs").write_text(code, "utf-8")
    [port] = free_ports(1)
    with (
        subprocess.Popen(  # noqa: S603  what the documents tell people to run
            [node(), "service.mjs"], cwd=folder, env=os.environ | {"PORT": str(port)}
        ) as process,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS, trust_env=False
        ) as web,
    ):
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    web.get("/")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            yield web
        finally:
            process.kill()


def test_the_service_of_the_documents_counts_each_person_once_over_a_restart(
    tmp_path: Path,
) -> None:
    """Its machine's clock is years ahead of both aggregators', which it finds out."""
    code = printed("import { readFile }")
    assert len(code.splitlines()) <= 30
    with survey_site(tmp_path, SURVEY) as (site, task):
        (tmp_path / "task.json").write_text(tasks_to_json([task]), "utf-8")

        def put(person: int, body: str) -> tuple[int, object]:
            answer = web.put(f"/answers/{person}", content=body)
            return answer.status_code, answer.json()

        site.is_down = True
        with service(tmp_path, code) as web:
            for person in range(4):
                answers = {"education": ["none", "degree"][person % 2], "hours": person + 0.25}
                assert put(person, json.dumps(answers)) == (200, "waiting")
            assert put(4, "{}") == (200, "waiting")
            assert put(3, "{}") == (409, "this person answered in this window")
            assert put(5, '{"hours": 80.5}') == (422, "hours: must be from 0 to 80")
            assert put(5, "null")[0] == put(5, "{")[0] == 422
            assert web.get("/").status_code == 404
        site.is_down = False
        with service(tmp_path, code):
            kept = tmp_path / "outbox" / "records"
            wait_until(lambda: not any(kept.iterdir()), "they are sent")
        # 0.25 is half a step: to the even one.
        assert sums(site, task) == {"education": [2, 0, 2, 1], "hours": [4, 1, 0 + 2 + 4 + 6]}


def test_the_page_of_the_documents_takes_one_answer_of_a_browser(
    browser: Browser, tmp_path: Path
) -> None:
    code = printed("<!doctype html>", "html")
    assert len(code.splitlines()) <= 32
    with survey_site(tmp_path, SURVEY) as (site, task):
        site.pages |= {"app.html": code, "task.json": tasks_to_json([task])}
        with visiting(browser, site.address) as visit:
            page = visit.see("/app.html")
            page.get_by_label("Education").select_option("school")
            page.get_by_label("Hours").fill("81")
            page.get_by_role("button").click()
            expect(page.get_by_role("status")).to_have_text("hours: must be from 0 to 80")
            page.get_by_label("Hours").fill("40")
            page.get_by_role("button").click()
            expect(page.get_by_role("status")).to_have_text("Thank you")
            visit.see("/app.html").get_by_role("button").click()
            expect(page.get_by_role("status")).to_have_text("This browser has answered")
            visit.check()
        assert sums(site, task) == {"education": [0, 1, 0, 0], "hours": [1, 0, 80]}


def test_a_browser_never_sends_the_page_of_the_documents_by_itself(
    browser: Browser, tmp_path: Path
) -> None:
    """Where the module was not loaded, its form would say the answers to the page's server."""
    code = printed("<!doctype html>", "html").replace("./prio.js", "./missing.js")
    with survey_site(tmp_path, SURVEY) as (site, _), visiting(browser, site.address) as visit:
        site.pages["app.html"] = code
        page = visit.see("/app.html")
        expect(page.get_by_role("button")).to_be_hidden()
        page.add_style_tag(content="form { display: block !important }")  # as of somebody's style
        page.get_by_label("Hours").fill("40")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_role("button").click()
        page.evaluate("new Promise((resolve) => setTimeout(resolve))")  # a submission is a task
        assert page.evaluate("fetch('/').then((answer) => answer.ok)")
        assert asked == [f"{site.address}/"]
        assert page.url == f"{site.address}/app.html"


def test_an_event_is_told_once_in_a_window_and_so_is_that_there_was_none(
    browser: Browser, tmp_path: Path
) -> None:
    with survey_site(tmp_path, EVENT) as (site, task):
        script = (
            "import { BrowserOutbox } from './prio.js';import { Survey } from './prio-survey.js';"
            f"const file = await (await fetch('task.json')).json();{printed('const usage')}"
            "const told = async () => (await usage.answered())?.state === 'counted';"
            "while (!(await told())) await usage.flush();document.title = 'told';"
        )
        html = f'<!doctype html><title>App</title><script type="module">{script}</script>'
        site.pages |= {"app.html": html, "task.json": tasks_to_json([task])}
        for happened in (False, True, True):
            with visiting(browser, site.address) as visit:
                if happened:
                    visit.see("/").evaluate("localStorage.exported = 'yes'")
                expect(visit.see("/app.html")).to_have_title("told")
                visit.page.wait_for_function("!('exported' in localStorage)")
                # It happens again: that is told in the next window.
                visit.page.evaluate("localStorage.exported = 'yes'")
                expect(visit.see("/app.html")).to_have_title("told")
                assert visit.page.evaluate("localStorage.exported") == "yes"
                visit.check()
        assert sums(site, task) == {"exported": [2, 1, 0]}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_survey_of_any_profile_is_answered_on_its_page_in_an_application_and_in_python(
    browser: Browser, tmp_path: Path, profile: str
) -> None:
    put = """async () => {
        const { MemoryOutbox } = await import('/prio.js');
        const { Survey } = await import('/prio-survey.js');
        const file = await (await fetch('/task.json')).json();
        const survey = new Survey(file, { outbox: new MemoryOutbox() });
        await survey.put({ exported: false });
        return survey.flush();
    }"""
    with survey_site(tmp_path / "site", EVENT, profile=profile) as (site, task):
        assert task.profile.name == profile
        file = tmp_path / "task.json"
        file.write_text(tasks_to_json([task]), "utf-8")
        site.pages["task.json"] = file.read_text("utf-8")
        with visiting(browser, site.address) as visit:
            page = visit.see("/form.html")
            page.get_by_label("Yes").check()
            page.get_by_role("button").click()
            expect(page.get_by_role("status")).to_have_text(WORDS["counted"])
            assert visit.see("/").evaluate(put)["counted"] == 1
            visit.check()
        requirements = Requirements(any_epsilon=True)
        survey = SurveyClient(file, clock=ManualClock(NOW), requirements=requirements)
        survey.put({}, person="1")
        assert survey.reporter.flush(now=True).counted == 1
        survey.close()
        if not task.profile.creator_names:  # as the collector of this pair does not
            assert sums(site, task) == {"exported": [1, 1, 1]}


def test_a_browser_makes_of_answers_what_we_make_of_them(browser: Browser, tmp_path: Path) -> None:
    check = (SCRIPTS / "survey_cases.mjs").read_text("utf-8").replace("export ", "")
    run = (
        "async (cases) => { const { Survey, AnswerError } = await import('/prio-survey.js');"
        f"{check}; return checkCases(JSON.parse(cases), Survey, AnswerError); }}"
    )
    with (
        survey_site(tmp_path, EVENT) as (site, _),
        visiting(browser, site.address) as visit,
    ):
        found = visit.see("/").evaluate(run, json.dumps([*every_answer(), *surveys(20)]))
    assert found["wrong"] == []
    assert found["right"] > 0 < found["refused"]
