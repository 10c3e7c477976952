"""The collector's pages: what people see, who may look, and what a form can do."""

import base64
import csv
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from anyio import to_thread
from fastapi import APIRouter
from fastapi.routing import APIRoute
from structlog.testing import capture_logs

from aggregator.cli.steward.plan_serve import planner_guest
from aggregator.collector import models as models_of_api
from aggregator.collector.abandoning import MEANING
from aggregator.collector.pages import files, models, routes
from aggregator.collector.pages.readings import Estimate, Reading
from aggregator.collector.pages.view import View
from aggregator.dap.ids import TaskId
from aggregator.protocol.task import Task
from aggregator.service.web.pages.charts import Chart
from aggregator.steward.survey import Figure
from aggregator.written_times import Times, zone_named
from tests.support.collector_service import BEARER, TOKEN, log_in
from tests.support.collector_world import (
    EMBEDDED,
    HOSTILE,
    LONG,
    MONDAY,
    SCRIPT,
    WEEK,
    CollectorWorld,
    seconds,
    survey_task,
    task_asking,
)
from tests.support.look import Page
from tests.support.patience import PATIENCE_SECONDS, measured
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import LAPLACE, make_task

PAGE = re.compile("/plan|/docs|/questions/[^/.]+(/about|/batches|/sheet|/words|/synthetic)?")
"""Pages that a login leads to; the overview needs no saying."""


@pytest.fixture
def world(tmp_path: Path) -> CollectorWorld:
    return CollectorWorld(tmp_path)


@pytest.fixture
async def browser(world: CollectorWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


def where(world: CollectorWorld) -> Task:
    """Give the collector a question with two answers."""
    task = survey_task(("surgery", "medicine"), "Where were you?")
    world.add(task)
    return task


def histogram(world: CollectorWorld, privacy: Mapping[str, Any], values: list[int]) -> Task:
    """Give the collector a task of no survey, with a result."""
    vdaf = {"type": "Prio3Histogram", "length": 3, "chunk_length": 2}
    task = make_task(vdaf, privacy, min_batch_size=12)
    world.add(task)
    world.finish(task, MONDAY, values)
    return task


async def look(browser: httpx.AsyncClient, path: str, code: int = 200) -> Page:
    answer = await browser.get(path)
    assert answer.status_code == code, answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = Page(answer.text)
    headings = [int(each.name[1]) for each in page.elements if each.name in ("h1", "h2", "h3")]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))
    scripts = [each.attributes.get("src") for each in page.all("script")]
    assert scripts == (["/login.js"] if path.startswith("/login") else [])
    for each in page.elements:
        assert not any(name.startswith("on") or name == "style" for name in each.attributes)
        target = each.attributes.get("href", each.attributes.get("src", "/"))
        assert target.startswith(("/", "#", "data:,")), "another host is asked"
    labelled = {each.attributes.get("for") for each in page.all("label")}
    for each in [*page.all("input"), *page.all("select")]:
        assert each.attributes.get("type") == "hidden" or each.attributes["id"] in labelled
    names = [each.attributes["id"] for each in page.elements if "id" in each.attributes]
    assert len(set(names)) == len(names)
    for each in page.all("svg"):
        assert each.attributes["aria-label"]
    return page


async def test_the_noise_on_a_value_is_that_of_its_section(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    vdaf = {"type": "Prio3Sections", "sections": "onehot:2 number:100"}
    task = make_task(vdaf, {**LAPLACE, "epsilon": "2", "shares": "1/2 1/2"})
    world.add(task)
    world.finish(task, MONDAY, [400, 200, 9000])
    await log_in(browser)
    about = f"/questions/{task.task_id}/about"
    runs = task.policy.mechanism.half_widths(task.prio3.circuit, Fraction(19, 20))
    widths = [width for entries, width in runs for _ in range(entries)]
    for place, value in enumerate([400, 200, 9000]):
        shown = (await look(browser, f"{about}?value={place}")).all("main")[0].text
        low, high = value - widths[place], value + widths[place]
        assert f"here from {low:,} to {high:,}" in " ".join(shown.split())
    await look(browser, f"/questions/{task.task_id}")
    await look(browser, f"/questions/{task.task_id}/batches")


async def test_the_token_begins_a_session_in_a_strict_cookie_and_another_does_not(
    browser: httpx.AsyncClient,
) -> None:
    form = (await look(browser, "/login")).form("/login")
    before = browser.cookies["prio_session"]
    wrong = await browser.post("/login", data=form | {"token": "another"})
    assert wrong.status_code == 401
    assert "another" not in wrong.text
    assert (await browser.get("/")).status_code == 303
    without = await browser.post("/login", data={"token": TOKEN})
    assert without.status_code == 403
    answer = await log_in(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert browser.cookies["prio_session"] != before
    assert TOKEN not in cookie
    leave = (await look(browser, "/")).form("/logout")
    copied = {"cookie": f"prio_session={browser.cookies['prio_session']}"}
    assert (await browser.post("/logout", data=leave)).status_code == 303
    assert (await browser.get("/")).status_code == 303
    browser.cookies.clear()
    assert (await browser.get("/", headers=copied)).status_code == 303


async def test_who_guesses_the_token_is_logged_and_waits_and_who_knows_it_does_not(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("aggregator.collector.pages.access.anyio.sleep", sleep)
    form = (await look(browser, "/login")).form("/login")
    with capture_logs() as lines:
        for _ in range(10):
            wrong = await browser.post("/login", data=form | {"token": "guess"})
            assert wrong.status_code == 401
            form = Page(wrong.text).form("/login")
    assert waited == [1, 2, 4, 8, 8]
    refused = [each for each in lines if each["event"] == "login refused"]
    assert [each["in_a_row"] for each in refused] == [*range(1, 11)]
    assert (await log_in(browser)).status_code == 303
    assert len(waited) == 5


async def test_a_login_leads_to_the_page_that_was_asked_for_and_to_no_other_host(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    path = f"/questions/{where(world).task_id}/batches"
    login = (await browser.get(f"{path}?result=00ff")).headers["location"]
    page = await look(browser, login)
    (action,) = (each.attributes["action"] for each in page.all("form"))
    form = page.form(action)
    wrong = await browser.post(action, data=form | {"token": "another"})
    again = Page(wrong.text).form(action)  # which still knows where to
    answer = await browser.post(action, data=again | {"token": TOKEN})
    assert answer.headers["location"] == f"{path}?result=00ff"
    for elsewhere in ("https://evil.example", "//evil.example", "/\\evil", "/logout", "/plan\n"):
        page = await look(browser, f"/login?to={quote(elsewhere)}")
        assert [each.attributes["action"] for each in page.all("form")] == ["/login"]


async def test_a_person_at_an_unknown_address_gets_a_page_and_a_program_a_problem(
    browser: httpx.AsyncClient,
) -> None:
    person = {"accept": "text/html,*/*;q=0.8"}
    answer = await browser.get("/nothing", headers=person)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    await log_in(browser)
    answer = await browser.get("/nothing", headers=person)
    assert answer.status_code == 404
    assert "There is no page at this address." in Page(answer.text).all("main")[0].text
    foreign = await browser.get("/nothing", headers={**person, "host": "elsewhere"})
    assert foreign.status_code == 421
    for answer in (
        await browser.get("/nothing"),
        await browser.post("/nothing", headers=person),
        await browser.get("/overview.xlsx", headers={"accept": "application/json"}),
    ):
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_link_from_another_site_finds_the_session_and_keeps_it(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    path = f"/questions/{where(world).task_id}"
    await log_in(browser)
    async with world.client() as without:  # as a browser that follows such a link
        led = await without.get(f"{path}?all=yes", headers={"sec-fetch-site": "cross-site"})
    assert (led.status_code, "set-cookie" in led.headers) == (200, False)
    (again,) = (each for each in Page(led.text).all("meta") if "http-equiv" in each.attributes)
    assert again.attributes["content"] == f"0;url={path}?all=yes"
    assert "Where were you?" not in led.text
    assert (await browser.get(path, headers={"sec-fetch-site": "same-origin"})).status_code == 200
    posted = await browser.post("/questions/x/batches", headers={"sec-fetch-site": "cross-site"})
    assert posted.status_code >= 400


async def test_over_https_the_cookie_is_sent_over_https_only(world: CollectorWorld) -> None:
    async with world.client("https://127.0.0.1") as browser:
        assert "Secure" in (await log_in(browser)).headers["set-cookie"]


async def test_the_overview_has_a_card_for_each_question_with_its_latest_result(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = where(world)
    world.add(make_task(privacy=LAPLACE, id=str(TaskId(bytes([9] * 32)))))
    world.finish(task, MONDAY, [400, 200])
    world.finish(task, MONDAY + WEEK, [404, 196])
    await log_in(browser)
    page = await look(browser, "/")
    first, second = page.all("li")
    assert "Where were you?" in first.text
    assert "Surgery 67.33 % 66.36 to 68.31" in first.text
    main = page.all("main")[0].text
    assert "Visits2026-11-09 to 2026-11-15; 600 reports; compared with 2026-11-02 to 202" in main
    assert "A person pays ε 1 a week, at most 52 in all." in main
    assert main.count("50 of 52 results left") == 1
    assert "No result yet" in second.text
    (meter,) = page.all("meter")
    assert (meter.attributes["value"], meter.attributes["max"]) == ("50", "52")
    document = (await browser.get("/overview.json")).json()
    assert [each["results"] for each in document["questions"]] == [2, 0]
    values = {row["label"]: row["value"] for row in document["rows"] if row["shows"] == "count"}
    assert values == {"surgery": 404, "medicine": 196, "no answer": 0}


async def test_the_overview_says_what_changed_and_what_cannot_be_concluded(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = survey_task(("surgery", "medicine", "children"), "Where were you?")
    world.add(task)
    world.finish(task, MONDAY, [400, 200, 300])
    await log_in(browser)
    path = "/overview.json"
    (only,) = (await browser.get(path, headers=BEARER)).json()["questions"]
    assert only["changed"] is None
    assert "weeks" not in (await look(browser, "/")).all("main")[0].text
    world.finish(task, MONDAY + WEEK, [300, 300, 301])
    page = await look(browser, "/")
    assert "“medicine” rose and “surgery” fell; for the others two weeks cannot tell." in (
        page.all("main")[0].text
    )
    (only,) = (await browser.get(path, headers=BEARER)).json()["questions"]
    assert only["changed"] == {
        "since": "2026-11-02 to 2026-11-08",
        "rose": ["medicine"],
        "fell": ["surgery"],
        "cannot_be_concluded": ["children"],
    }
    assert "trend" not in {each.attributes["class"] for each in page.all("svg")}
    world.finish(task, MONDAY + 2 * WEEK, [301, 300, 300])
    page = await look(browser, "/")
    assert "Whether anything rose or fell, two weeks cannot tell." in page.all("main")[0].text
    trends = [each for each in page.all("svg") if each.attributes["class"] == "trend"]
    assert [each.attributes["aria-label"] for each in trends] == [
        "surgery over 3 results",
        "medicine over 3 results",
        "children over 3 results",
    ]
    # One scale: surgery fell from 400 to 301, and the others stayed where it ended.
    bands = [each for each in page.all("polygon") if each.attributes["class"] == "band"]
    assert len(bands) == 3
    world.finish(task, MONDAY + 3 * WEEK, [301, 300, 400])
    said = (await look(browser, "/")).all("main")[0].text
    assert "Only “children” rose; for the others two weeks cannot tell." in said


@pytest.mark.parametrize(
    ("budget", "so_far", "window", "in_all"),
    [
        ('epsilon = "1"', "epsilon 2", "epsilon 1", "epsilon 52"),
        ('rho = "1/8"', "rho 1/4", "rho 1/8", "rho 13/2"),
    ],
)
async def test_a_survey_says_what_it_costs_a_person_to_answer_all_of_it(
    world: CollectorWorld,
    browser: httpx.AsyncClient,
    budget: str,
    so_far: str,
    window: str,
    in_all: str,
) -> None:
    survey = VISITS.replace('epsilon = "1"', budget) + department()
    survey += department(("yes", "no")).replace('"department"', '"again"')
    task = task_of(survey, id=str(TaskId(bytes(32))))
    world.add(task)
    histogram(world, LAPLACE, [1, 2, 3])  # of no survey
    for week in range(2):
        world.finish(task, MONDAY + week * WEEK, [400, 200, 0, 100, 200, 300])
    await log_in(browser)
    said = (await look(browser, "/")).all("main")[0].text
    each, most = window.replace("epsilon", "ε"), in_all.removeprefix("epsilon ")
    assert said.count(f"A person pays {each} a week, at most {most} in all. ") == 1
    about = f"/questions/{task.task_id}/about"
    texts = [each.text for each in (await look(browser, about)).all("dd")]
    assert texts[-3:] == [window, so_far, in_all]
    document = (await browser.get(f"{about}.json", headers=BEARER)).json()
    assert document["survey_cost"] == {
        "questions": 2,
        "window": window,
        "so_far": so_far,
        "at_most": in_all,
        "text_questions": [],
        "left_out": [],
    }


async def test_each_question_and_table_of_a_survey_has_a_page_of_its_own(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    again = department(("yes", "no"), "Again?").replace('"department"', '"again"')
    by = VISITS.replace("[budget]", 'by = "department"\n[budget]')
    task = task_of(by + department(text="Where?") + again, id=str(TaskId(bytes(32))))
    world.add(task)
    world.finish(task, MONDAY, [400, 200, 0, 150, 450, 0, 100, 50, 0, 300, 150, 0, 0, 0, 0])
    await log_in(browser)
    questions = (await browser.get("/overview.json")).json()["questions"]
    home = f"/questions/{task.task_id}"
    assert [(each["question"], each["address"]) for each in questions] == [
        ("Where?", f"{home}?part=0"),
        ("Again?", f"{home}?part=1"),
        ("Again? By: Where?", f"{home}?part=2"),
    ]
    for place, labels in enumerate((["surgery", "medicine"], ["yes", "no"])):
        html = (await browser.get(f"{home}?part={place}")).text
        rows = (await browser.get(f"{home}.json?part={place}")).json()["rows"]
        assert [row["label"] for row in rows[:3]] == [*labels, "no answer"]
        assert f"{home}/about?part={place}&amp;result=" in html
    rows = (await browser.get(f"{home}.json?part=2")).json()["rows"]
    assert [(row["label"], row["value"]) for row in rows if row["shows"] == "count"] == [
        ("surgery: yes", 100),
        ("surgery: no", 300),
        ("medicine: yes", 50),
        ("medicine: no", 150),
    ]
    for chosen, second in (("", "surgery: yes"), ("&group=1", "surgery: no")):
        answer = await browser.get(f"{home}.json?part=2{chosen}")
        (compared,) = answer.json()["comparisons"]
        assert compared["heading"] == f"Each share compared with that of {second}"
        assert compared["second"] == second
        assert compared["first"] == second.replace("surgery", "medicine")
        assert compared["low"] < 0 < compared["high"]
    for nothing in ("9", "-1", "x", "9" * 100):
        page = await look(browser, f"{home}?part={nothing}")
        assert page.all("h1")[0].text == "Where?"


async def test_a_question_shows_bars_over_time_a_comparison_and_files(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = where(world)
    first = world.finish(task, MONDAY, [400, 200])
    last = world.finish(task, MONDAY + WEEK, [304, 296])
    await log_in(browser)
    home = f"/questions/{task.task_id}"
    page = await look(browser, home)
    titles = [each.attributes["aria-label"] for each in page.all("svg")]
    assert titles[::2] == titles[1::2]  # each chart for a wide window and for a narrow one
    shown, groups, periods = titles[::2]
    assert "count of each answer" in shown
    assert groups.startswith("Each count compared with that of surgery: difference")
    assert periods.startswith("2026-11-09 to 2026-11-15 compared with 2026-11-02 to 2026-11-08")
    text = page.all("main")[0].text
    assert "intervals of which all 2 hold at once (95 %)" in text
    assert "collector.survey('Visits')" in text
    document = (await browser.get(f"{home}.json", headers=BEARER)).json()
    group, fewer, more = document["comparisons"]
    assert (group["first"], group["second"], group["estimate"]) == ("medicine", "surgery", -8)
    assert (fewer["estimate"], more["estimate"]) == (-96, 96)
    assert more["can_be_concluded"].startswith(
        "medicine 2026-11-09 to 2026-11-15 is larger than medicine 2026-11-02 to 2026-11-08, by"
    )
    assert more["low"] > 0
    assert more["low"] + more["high"] == 2 * 96
    rows = document["rows"]
    width = task.policy.mechanism.half_width(task.prio3.circuit, Fraction(95, 100))
    counts = [row for row in rows if row["shows"] == "count"]
    assert [row["value"] for row in counts] == [400, 200, 0, 304, 296, 0]
    # Narrower than as released: all counts add up to the reports.
    assert all(width / 2 < row["high"] - row["value"] < width for row in counts)
    listed = list(csv.DictReader((await browser.get(f"{home}.csv")).text.splitlines()))
    assert [row["collection_id"] for row in listed] == [first] * 5 + [last] * 5
    svg = await browser.get(f"{home}/count.svg?result={first}")
    assert svg.headers["content-type"] == "image/svg+xml"
    assert "400" in svg.text
    png = await browser.get(f"{home}/difference-of-periods.png?result={last}&with={first}")
    assert png.headers["content-type"] == "image/png"
    assert png.content.startswith(b"\x89PNG")
    parquet = await browser.get(f"{home}.parquet")
    assert parquet.content[:4] == b"PAR1"
    await look(browser, f"{home}?result={first}&with={last}&figure=1")
    other = await look(browser, f"{home}?result={last}&group=1")
    titles = [each.attributes["aria-label"] for each in other.all("svg")]
    assert any(each.startswith("Each count compared with that of medicine") for each in titles)
    await look(browser, f"{home}?result={last}&group=999999&figure={'9' * 5000}")
    await look(browser, f"{home}?result={'0' * 32}", 404)
    await look(browser, "/questions/nothing", 404)


async def test_what_a_page_prints_as_python_runs_as_it_stands_and_shows_the_same(
    world: CollectorWorld,
    browser: httpx.AsyncClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = by_group(world)
    other = histogram(world, LAPLACE, [21, 3, 400])
    await log_in(browser)
    (tmp_path / "collector.toml").write_text(
        'service.role = "collector"\nservice.database = "collector.sqlite"\n'
    )
    monkeypatch.setenv("PRIO_STORE_KEY", base64.urlsafe_b64encode(bytes(32)).decode().rstrip("="))
    monkeypatch.chdir(tmp_path)
    for path, shown in (
        (f"/questions/{task.task_id}?part=0", r"where +count +600 +surgery +400"),
        (f"/questions/{task.task_id}?part=2", r"yes +25\.\d+ % \(.*surgery|yes +25\.\d+ % \("),
        (f"/questions/{other.task_id}", r"0 +21 +"),
    ):
        (code,) = (await look(browser, path)).all("code")
        capsys.readouterr()
        await to_thread.run_sync(exec, code.text, {})
        printed = capsys.readouterr().out
        assert re.search(shown, printed), printed


def by_group(world: CollectorWorld) -> Task:
    """Give the collector a question with two answers, by where people were."""
    where, again = (department(labels, name + "?") for labels, name in ASKED)
    questions = where.replace('"department"', '"where"') + again.replace('"department"', '"again"')
    by = VISITS.replace("[budget]", 'by = "where"\n[budget]').replace('"1"', '"4"')
    task = task_of(by + questions, id=str(TaskId(bytes(32))))
    world.add(task)
    sums = [400, 200, 0, 150, 450, 0, 100, 50, 0, 300, 150, 0, 0, 0, 0]
    world.finish(task, MONDAY, sums)
    return task


ASKED = ((("surgery", "medicine"), "Where"), (("yes", "no"), "Again"))


async def test_a_question_has_one_card_with_its_groups_inside_as_a_cross_table(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    home = f"/questions/{by_group(world).task_id}"
    await log_in(browser)
    page = await look(browser, "/")
    assert [each.text for each in page.all("h3")] == ["Where?", "Again?"]
    assert [each.text for each in page.all("summary")] == ["By: Where?"]
    assert len(page.all("meter")) == 1
    for path in ("/", f"{home}?part=1", f"{home}?part=2", f"{home}/sheet?part=2"):
        made = (await look(browser, path)).all("table")
        (cross,) = (each for each in made if each.attributes["class"].startswith("cross"))
        assert cross.text.startswith("By group, 95 % intervals; shares are of each group's people")
        assert "answersurgerymedicine" in cross.text
        assert re.search(r"yes25 %24 to 2625 %23 to 27no75 %", cross.text), cross.text
        assert cross.text.endswith("people400200")
    rows = list(csv.DictReader((await browser.get(f"{home}/sheet.csv?part=2")).text.splitlines()))
    assert [row["answer"] for row in rows] == ["yes", "no"]
    for group in ("surgery", "medicine"):
        assert float(rows[0][f"{group} low"]) < float(rows[0][group]) == pytest.approx(25, abs=0.1)


async def test_a_sheet_for_a_meeting_has_one_question_one_chart_and_one_sentence(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = survey_task(("surgery", "medicine", "children"), "Where were you?")
    world.add(task)
    first = world.finish(task, MONDAY, [300, 200, 100])
    world.finish(task, MONDAY + WEEK, [200, 200, 200])
    await log_in(browser)
    path = f"/questions/{task.task_id}/sheet"
    page = await look(browser, f"{path}?result={first}")
    assert [each.text for each in page.all("h1")] == ["Where were you?"]
    assert len(page.all("svg")) == 2, "one for a wide window, one for a narrow"
    (said,) = (each.text for each in page.all("p") if each.attributes.get("class") == "big")
    assert said.startswith("Most frequent: “surgery”, 50.")
    assert "A person pays ε 1 a week, at most 52 in all." in page.all("main")[0].text
    latest = (await look(browser, path)).all("main")[0].text
    assert "The noise hides which answer is the most frequent." in latest
    assert (await browser.get(f"{path}.json")).json()["rows"]
    assert (
        await browser.get(f"/questions/{task.task_id}/sheet?result={'0' * 32}")
    ).status_code == 404


async def test_what_its_interval_says_nothing_of_is_no_headline_and_no_bar(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    wait = '[[question]]\nname = "wait"\nkind = "number"\nlow = 0\nhigh = 240\nunit = "min"\n'
    asked = VISITS.replace('"1"', '"1/100"') + wait + department(text="Where?")
    task = task_of(asked, id=str(TaskId(bytes(32))))
    world.add(task)
    world.finish(task, MONDAY, [-40, 640, -96_000, 260, -90, 430])
    await log_in(browser)
    home = f"/questions/{task.task_id}"
    for path, said in (
        (f"{home}?part=0", r"Too few answers to say; about [\d,]+ would give ± 10 min\."),
        (f"{home}/sheet?part=0", r"Too few answers to say; about [\d,]+ would give ± 10 min\."),
        (f"{home}?part=1", r"Too few answers to say; about [\d,]+ would give ± 5 % of them\."),
        ("/", r"± 10 min\..*± 5 % of them\."),
    ):
        page = await look(browser, path)
        text = page.all("main")[0].text
        assert re.search(said, text), text
        assert not [each for each in page.all("rect") if each.attributes.get("class") == "bar"]
        assert "unbounded" not in text
    released = (await browser.get(f"{home}.json?part=0")).json()["rows"]
    assert any(row["shows"] == "count" and row["value"] < 0 for row in released)


async def test_what_has_no_noise_is_shown_without_intervals_and_without_talk_of_them(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = histogram(world, {"mechanism": "None"}, [21, 30, 400])
    scalar = make_task({"type": "Prio3Count"}, {"mechanism": "None"}, id=str(TaskId(bytes(32))))
    world.add(scalar)
    world.finish(scalar, MONDAY, [9])
    await log_in(browser)
    paths = [
        f"/questions/{each.task_id}{page}" for each in (task, scalar) for page in ("", "/sheet")
    ]
    for path in ("/", *paths):
        page = await look(browser, path)
        text = page.all("main")[0].text
        assert not re.search(r"\bto 9\b|[Ww]hiskers|intervals|noise alone", text)
        assert not [each for each in page.all("line") if each.attributes["class"] == "whisker"]
        assert not [each for each in page.all("desc") if " to " in each.text]


async def test_where_nothing_is_drawn_no_chart_is_offered(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    privacy = {"mechanism": "None", "suppress_at_or_below": 5, "bound": False}
    task = make_task({"type": "Prio3Count"}, privacy, min_batch_size=12)
    world.add(task)
    world.finish(task, MONDAY, [3])
    await log_in(browser)
    home = f"/questions/{task.task_id}"
    for path in (home, f"{home}/sheet"):
        page = await look(browser, path)
        assert "withheld" in page.all("main")[0].text.lower()
        assert "Chart" not in page.all("main")[0].text
        assert not page.all("svg")
    assert (await browser.get(f"{home}/value.svg")).status_code == 404


async def test_a_page_looks_at_each_of_many_answers_a_few_times_and_not_once_for_each_other(
    world: CollectorWorld, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"ward {number}" for number in range(200)]
    task = survey_task(names, "Where were you?")
    world.add(task)
    world.finish(task, MONDAY, [300] * len(names))
    await log_in(browser)
    looks: list[Figure] = []
    estimate = Reading.estimate

    def counted(reading: Reading, figure: Figure) -> Estimate:
        looks.append(figure)
        return estimate(reading, figure)

    monkeypatch.setattr(Reading, "estimate", counted)
    for path in (f"/questions/{task.task_id}", "/"):
        looks.clear()
        await look(browser, path)
        assert len(looks) <= 10 * len(names)


async def test_a_count_whose_interval_ends_below_0_reads_none_or_a_few(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = survey_task(("surgery", "medicine", "children"), "Where were you?")
    world.add(task)
    world.finish(task, MONDAY, [400, 260, -60])
    await log_in(browser)
    page = await look(browser, f"/questions/{task.task_id}")
    (row,) = (each.text for each in page.all("tr") if each.text.startswith("childrencount"))
    assert row == "childrencountnone, or a few"


async def test_how_an_interval_was_found_is_said_about_a_number_and_nowhere_else(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    home = f"/questions/{by_group(world).task_id}"
    await log_in(browser)
    for path in ("/", f"{home}?part=1", f"{home}?part=2", f"{home}/sheet"):
        text = (await browser.get(path)).text
        assert "Fieller" not in text
        assert "exact law" not in text
    about = (await look(browser, f"{home}/about?part=1")).all("main")[0].text
    assert "Fieller's inversion of the exact lawshare" in about


async def test_once_nothing_is_left_of_the_budget_no_batch_is_offered(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = histogram(world, {**LAPLACE, "max_releases": 2}, [21, 3, 400])
    await log_in(browser)
    path = f"/questions/{task.task_id}"
    text = (await look(browser, path)).all("main")[0].text
    assert "1 of 2 results left in the budget" in text
    offered = [each.text for each in (await look(browser, f"{path}/batches")).all("button")]
    assert "Collect and close this batch" in offered
    world.finish(task, MONDAY + WEEK, [21, 3, 400])
    page = await look(browser, f"{path}/batches")
    assert [each.text for each in page.all("button")] == ["Leave"]
    assert "Nothing is left in the budget" in page.all("main")[0].text


async def test_about_a_number_says_what_is_guaranteed_by_which_theorem_and_draws_its_noise(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = where(world)
    name = world.finish(task, MONDAY, [400, 200])
    await log_in(browser)
    path = f"/questions/{task.task_id}/about"
    page = await look(browser, f"{path}?result={name}&value=1")
    text = page.all("main")[0].text
    assert "ε 1 a week, 52 in all" in text
    assert "at least one of the two aggregators" in text
    assert "Each aggregator refuses more than 52 releases" in text
    assert "Sum 2 of 3 (department: medicine) was released as 200" in text
    assert "truth is." in text  # and not "before it is decided which values are shown"
    names = [each.text for each in page.all("option")]
    assert names == [
        "Sum 1 of 3 (department: surgery)",
        "Sum 2 of 3 (department: medicine)",
        "Sum 3 of 3 (department: no answer)",
    ]
    assert len(page.all("svg")) == 2  # for a wide window and for a narrow one
    document = (await browser.get(f"{path}.json")).json()
    assert document["privacy"]["epsilon"] == "1"
    assert any(row["epsilon"] == 1 and row["is_valid"] for row in document["rows"])
    await look(browser, f"{path}?result=zz", 404)


async def test_about_a_value_above_a_threshold_has_an_interval_that_knows_it_was_chosen(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    privacy = {
        "mechanism": "PureDpDiscreteLaplace",
        "epsilon": "1/2",
        "private_threshold": 20,
        "population": "patients",
    }
    task = histogram(world, privacy, [21, 3, 400])
    await log_in(browser)
    path = f"/questions/{task.task_id}/about"
    texts = [(await look(browser, f"{path}?value={j}")).all("main")[0].text for j in (0, 2)]
    by_itself = task.policy.mechanism.half_width(task.prio3.circuit, Fraction(95, 100))
    assert f"from {21 - by_itself} to" not in texts[0]
    assert "from 0 to " in texts[0]  # most of what passes by so little is the noise's
    assert f"here from {400 - by_itself} to {400 + by_itself}," in texts[1]
    for text in texts:
        assert "cases of those in which it is shown, if both aggregators" in text
        assert "the chance that any of 3 buckets is shown if nobody chose it" in text
        assert "The policy is bound into every report" in text
        assert "Questions to the same people (population patients) add to this cost." in text


async def test_about_a_number_whose_policy_binds_nobody_says_so(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    privacy = {"mechanism": "None", "suppress_at_or_below": 5, "bound": False}
    task = histogram(world, privacy, [30, 3, 400])
    await log_in(browser)
    page = (await look(browser, f"/questions/{task.task_id}")).all("main")[0].text
    assert page.count("withheld") >= 3
    assert "Not drawn: 2 values withheld, of 3." in page
    rows = (await browser.get(f"/questions/{task.task_id}.json")).json()["rows"]
    assert [(row["label"], row["value"], row["method"]) for row in rows] == [
        ("0", None, "withheld"),
        ("1", None, "withheld"),
        ("2", 400, "no noise"),
    ]
    text = (await look(browser, f"/questions/{task.task_id}/about")).all("main")[0].text
    assert "No differential privacy" in text
    assert "Nothing: the policy is not bound into the reports" in text
    assert "No guarantee: nothing is proved for Prio3Histogram." in text
    assert "The collector sees every count before it suppresses any" in text


async def test_windows_are_open_ready_waiting_collected_or_too_few_with_a_button(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = where(world)
    world.finish(task, MONDAY + 6 * WEEK, [400, 200])
    world.fail(task, MONDAY + 7 * WEEK)
    world.ask(task, MONDAY + 8 * WEEK)
    await log_in(browser)
    path = f"/questions/{task.task_id}/batches"
    page = await look(browser, path)
    rows = (await browser.get(f"{path}.json")).json()["rows"]
    assert [row["state"] for row in rows] == ["open", "ready", "waiting", "too few", "collected"]
    assert "2 reports of at least 3" in rows[3]["why"]
    assert "asked for 0 seconds ago" in rows[2]["why"]
    buttons = [each.text for each in page.all("button")]
    ready = "2027-01-04 to 2027-01-10"
    assert f"Collect and close {ready}" in buttons
    start = MONDAY + 9 * WEEK
    csrf = page.form(path)["csrf"]
    form = {"start": str(seconds(start)), "end": str(seconds(start + WEEK))}
    assert (await browser.post(path, data=form)).status_code == 403
    assert (await browser.post(path, data=form | {"csrf": "A" * 43})).status_code == 403
    host = browser.base_url.host
    for evil in ("http://elsewhere", f"http://{host}:1", f"https://{host}:1"):
        stolen = await browser.post(path, data=form | {"csrf": csrf}, headers={"origin": evil})
        assert stolen.status_code == 403
    assert world.pending() == 1
    answer = await browser.post(path, data=form | {"csrf": csrf})
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert world.pending() == 2


async def test_a_collection_that_never_ends_is_given_up_only_if_that_is_confirmed(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = survey_task(("surgery", "medicine"), "Where were you?")
    world.add(task)
    asked = world.ask(task, MONDAY + 9 * WEEK)
    await log_in(browser)
    path = f"/questions/{task.task_id}/batches"
    page = await look(browser, path)
    assert MEANING in page.all("details")[0].text
    form = {"csrf": page.form("/logout")["csrf"], "abandoned": asked.hex()}
    for refused, code in (
        (form, 400),
        (form | {"meant": "yes", "csrf": "A" * 43}, 403),
        (form | {"meant": "yes", "abandoned": "00"}, 404),
    ):
        assert (await browser.post(path, data=refused)).status_code == code
        assert world.pending() == 1
    assert (await browser.post(path, data=form | {"meant": "yes"})).status_code == 303
    assert world.pending() == 0
    row = (await browser.get(f"{path}.json")).json()["rows"][1]
    assert (row["state"], row["why"]) == ("failed", f"given up here: {MEANING}")
    assert "Collect and close" in (await look(browser, path)).all("main")[0].text


async def test_a_window_that_is_not_over_is_closed_only_if_that_is_confirmed(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = where(world)
    await log_in(browser)
    path = f"/questions/{task.task_id}/batches"
    (row,) = (await browser.get(f"{path}.json")).json()["rows"]
    assert row["why"].endswith(
        "6.0 days of it are still to come; with how many reports, no earlier result tells"
    )
    world.finish(task, MONDAY, [400, 200])
    world.finish(task, MONDAY + WEEK, [400, 200])
    form = (await look(browser, path)).form(path)
    assert form["start"] == str(seconds(MONDAY + 10 * WEEK))
    refused = await browser.post(path, data=form)
    assert refused.status_code == 400
    said = next(
        each.text for each in Page(refused.text).all("p") if each.attributes.get("role") == "alert"
    )
    expected = "6.0 days of it are still to come, with some 514 reports if they come as in the last"
    assert f"{expected} 2 results, and reports that come after their batch was" in said
    assert world.pending() == 0
    assert (await browser.post(path, data=form | {"meant": "yes"})).status_code == 303
    assert world.pending() == 1


async def test_a_task_of_no_survey_is_collected_by_any_interval(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = make_task(privacy=LAPLACE)
    world.add(task)
    await log_in(browser)
    path = f"/questions/{task.task_id}/batches"
    csrf = (await look(browser, path)).form(path)["csrf"]
    for start, end in (("2026-11-02T00:00", "nonsense"), ("2026-11-02T00:00", "2026-11-02T00:01")):
        answer = await browser.post(path, data={"csrf": csrf, "start": start, "end": end})
        assert answer.status_code == 400
        assert "end" in answer.text
    times = {"start": "2026-11-02T00:00", "end": "2026-11-03T05:20"}
    assert (await browser.post(path, data={"csrf": csrf} | times)).status_code == 303
    rows = (await browser.get(f"{path}.csv")).text
    assert "2026-11-02 00:00 to 2026-11-03 05:20 UTC,waiting" in rows


async def test_pages_show_and_read_times_of_the_zone_that_is_set(tmp_path: Path) -> None:
    world = CollectorWorld(tmp_path, times=Times(zone_named("Europe/Berlin", "")))
    survey, free = where(world), make_task(privacy=LAPLACE)
    world.add(free)
    world.finish(survey, MONDAY, [400, 200])
    async with world.client() as browser:
        await log_in(browser)
        for page in (f"/questions/{survey.task_id}", "/"):
            text = (await look(browser, page)).all("main")[0].text
            assert "2026-11-02 01:00 to 2026-11-09 01:00 Europe/Berlin" in text
            assert "UTC" not in text
        path = f"/questions/{free.task_id}/batches"
        assert "From (Europe/Berlin)" in (await browser.get(path)).text
        csrf = (await look(browser, path)).form(path)["csrf"]
        named = {"start": "2026-11-02T00:00", "end": "2026-11-03T00:00"}
        assert (await browser.post(path, data={"csrf": csrf} | named)).status_code == 303
        rows = (await browser.get(f"{path}.csv")).text
        assert "2026-11-02 Europe/Berlin,waiting" in rows
        skipped = {"csrf": csrf, "start": "2026-03-29T02:30", "end": "2026-11-03T00:00"}
        refused = await browser.post(path, data=skipped)
        assert refused.status_code == 400
        assert "clocks of Europe/Berlin are changed then" in refused.text


async def test_a_batch_in_a_year_that_no_calendar_has_is_shown_by_its_seconds(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = make_task(privacy=LAPLACE)
    world.add(task)
    await log_in(browser)
    path = f"/questions/{task.task_id}/batches"
    unit = task.time_precision
    first = 10**12 // unit * unit
    world.ask_seconds(task, first, first + unit)
    shown = await browser.get(path)
    assert shown.status_code == 200
    rows = (await browser.get(f"{path}.csv")).text
    assert f'"{first:,} to {first + unit:,} seconds since 1970",waiting' in rows


async def test_a_file_that_takes_long_to_make_keeps_nobody_waiting(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the library that writes Parquet is imported."""
    others_were_answered = threading.Event()

    def slow(_view: View) -> bytes:
        assert others_were_answered.wait(PATIENCE_SECONDS)
        return b"{}"

    monkeypatch.setattr(files, "as_json", slow)
    headers = BEARER
    async with anyio.create_task_group() as group:
        answers: list[httpx.Response] = []

        async def download() -> None:
            answers.append(await browser.get("/overview.json", headers=headers))

        group.start_soon(download)
        await anyio.sleep(0.1)
        assert (await browser.get("/login")).status_code == 200
        assert answers == []
        others_were_answered.set()
    assert [each.content for each in answers] == [b"{}"]


async def test_pictures_are_drawn_one_at_a_time(
    world: CollectorWorld, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What draws them is not made for threads, and each takes memory."""
    task = where(world)
    world.finish(task, MONDAY, [400, 200])
    drawing = threading.Lock()
    met: list[bool] = []

    def draw(_chart: Chart) -> bytes:
        is_alone = drawing.acquire(blocking=False)
        met.append(not is_alone)
        time.sleep(0.05)
        if is_alone:
            drawing.release()
        return b"drawn"

    monkeypatch.setattr(routes, "as_png", draw)

    async def download() -> None:
        answer = await browser.get(f"/questions/{task.task_id}/count.png", headers=BEARER)
        assert answer.content == b"drawn"

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(download)
    assert met == [False] * 4


async def test_hostile_labels_are_shown_as_text(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = survey_task(HOSTILE, SCRIPT + EMBEDDED + LONG)
    world.add(task)
    world.finish(task, MONDAY, [100, 200, 300, 400])
    world.finish(task, MONDAY + WEEK, [100, 200, 300, 400])
    await log_in(browser)
    home = f"/questions/{task.task_id}"
    for path in ("/", home, f"{home}/about", f"{home}/batches"):
        page = await look(browser, path)
        assert any(SCRIPT in each.text for each in page.all("bdi"))
    page = await look(browser, home)
    cells = [each.text for each in page.all("bdi")]
    assert set(HOSTILE) <= set(cells)
    svg = (await browser.get(f"{home}/count.svg")).text
    assert "<script" not in svg
    for path in (home, "/overview"):
        listed = (await browser.get(f"{path}.csv")).text
        assert ",'=1+1," in listed
        assert ",=1+1" not in listed


async def test_every_document_is_what_the_description_says(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    wait = '[[question]]\nname = "wait"\nkind = "number"\nlow = 0\nhigh = 90\nunit = "min"\n'
    task, hostile = task_asking(department()), task_asking(wait, 1)
    other = make_task(privacy=LAPLACE, id=str(TaskId(bytes([9] * 32))))
    for each in (task, hostile, other):
        world.add(each)
    world.finish(task, MONDAY, [400, 200])
    world.finish(task, MONDAY + WEEK, [300, 300])
    world.fail(task, MONDAY + 2 * WEEK)
    world.ask(task, MONDAY + 3 * WEEK)
    world.finish(hostile, MONDAY, [600, 0, 2000])
    browser.headers.update(BEARER)
    described = (await browser.get("/openapi.json")).json()["paths"]
    seen = set()
    for each in (task, hostile):
        collections = (await browser.get(f"/api/tasks/{each.task_id}/collections")).json()
        place = {
            "task_id": str(each.task_id),
            "collection_id": collections[-1]["collection_id"],
            "chart": "count" if each is task else "mean",
        }
        # Those of a text question and of a synthetic table are asked for in tests of their pages.
        others = ("/words.", "/synthetic.")
        asked = (path for path in described if not any(each in path for each in others))
        for path in (path for path in asked if "get" in described[path]):
            answer = await browser.get(path.format(**place))
            assert answer.status_code == 200, path
            ((media, said),) = described[path]["get"]["responses"]["200"]["content"].items()
            assert answer.headers["content-type"].split(";")[0] == media, path
            if media != "application/json":
                assert said["schema"]["type"] == "string"
                continue
            named = said["schema"].get("items", said["schema"])["$ref"].rsplit("/", 1)[-1]
            found = answer.json() if isinstance(answer.json(), list) else [answer.json()]
            for document in found:
                model = getattr(models, named, None) or getattr(models_of_api, named)
                model.model_validate_json(json.dumps(document))
            seen.add(named)
    assert seen == {
        "Task",
        "Collection",
        "Overview",
        "Question",
        "AboutNumber",
        "Batches",
        "Sheet",
    }
    empty = (await browser.get(f"/questions/{other.task_id}.json")).content
    assert models.Question.model_validate_json(empty).rows == []
    await log_in(browser)
    page = await look(browser, "/docs")
    headings = [each.text for each in page.all("h3")]
    assert "POST /api/tasks/{task_id}/collections" in headings
    assert "GET /questions/{task_id}/about.json" in headings
    anchors = {f"#{each.attributes['id']}" for each in page.all("h3") if "id" in each.attributes}
    links = {each.attributes["href"] for each in page.all("a")}
    assert {each for each in links if each.startswith("#")} <= anchors | {"#content"}


def routes_of(router: APIRouter) -> Iterator[Mapping[str, Any]]:
    """Give each route, of routers within routers too."""
    for route in router.routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from routes_of(included)
        elif isinstance(route, APIRoute):
            yield vars(route)


async def test_each_address_of_a_page_is_described_as_json_and_as_csv(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    described = (await browser.get("/openapi.json", headers=BEARER)).json()["paths"]
    routes = list(routes_of(world.app.router))
    assert {each["path"] for each in routes if each["include_in_schema"]} == set(described)
    others = {"/login", "/login.js", "/docs", "/openapi.json", "/questions/{task_id}/bundle"}
    pages = {each["path"] for each in routes if not each["include_in_schema"]} - others
    assert len(pages) == 8  # one of them only ends a session
    for path in pages - {"/logout"}:
        for ending in ("json", "csv", "parquet"):
            name = "/overview" if path == "/" else path
            assert "get" in described[f"{name}.{ending}"], path
    refused = [
        operation["responses"]["4XX"]["content"]
        for operations in described.values()
        for operation in operations.values()
    ]
    assert all(list(each) == ["application/problem+json"] for each in refused)


async def test_no_address_but_the_login_answers_who_has_no_token(tmp_path: Path) -> None:
    world = CollectorWorld(tmp_path, guests=[planner_guest()])
    task = where(world)
    place = {
        "task_id": str(task.task_id),
        "collection_id": world.finish(task, MONDAY, [400, 200]),
        "chart": "count",
    }
    asked = [
        (method, route["path"].format(**place))
        for route in routes_of(world.app.router)
        for method in route["methods"]
        if route["path"] not in ("/login", "/login.js")
    ]
    assert len(asked) > 25
    form = {"content-type": "application/x-www-form-urlencoded"}
    async with world.client() as stranger:
        for method, path in asked:
            answer = await stranger.request(method, path, headers=form)
            if answer.status_code == 303:
                to = f"?to={path}" if PAGE.fullmatch(path) else ""
                assert (answer.headers["location"], answer.content) == (f"/login{to}", b""), path
            else:
                assert answer.status_code == 401, path
                assert answer.json()["title"] == "The request carries no valid token", path
        for foreign in ("elsewhere", "[::1"):
            assert (await stranger.get("/login", headers={"host": foreign})).status_code == 421


@pytest.mark.slow
async def test_pages_answer_soon_with_a_thousand_results_stored(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = survey_task(tuple(f"department {place}" for place in range(8)), "Where were you?")
    world.add(task)
    world.fill(task, 1000, 8)
    await log_in(browser)
    home = f"/questions/{task.task_id}"
    for path in ("/", home, f"{home}/about", f"{home}/batches"):
        costs = []
        for _ in range(5):
            with measured() as spent:
                assert (await browser.get(path)).status_code == 200
            costs.append(spent.yardsticks)
        assert min(costs) < 20, path
