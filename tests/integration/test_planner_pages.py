"""The planner's page, by itself and in a collector: what it shows, saves, refuses and to whom."""

import csv
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import Request
from typer.testing import CliRunner

from aggregator.cli.steward import survey as survey_command
from aggregator.cli.steward.plan_serve import LOOPBACK, planner_guest
from aggregator.service.web.app import create_app
from aggregator.service.web.pages.host_page import Visit
from aggregator.service.web.site import check_site
from aggregator.steward.planner import PATH, Planner
from aggregator.steward.planner.form import DEFAULTS, NOISES
from aggregator.steward.planner.models import Plan
from aggregator.steward.planner.routes import MAX_FORM_SIZE
from aggregator.steward.planner.survey_question import KINDS
from tests.support.clock import ManualClock
from tests.support.collector_service import BEARER, CollectorService, log_in
from tests.support.entropy import SeededEntropy
from tests.support.look import Page
from tests.support.patience import measured

NOW = int(datetime(2026, 11, 25, tzinfo=UTC).timestamp())
SCRIPT = "<script>alert(1)</script>"
TURNED = "\N{RIGHT-TO-LEFT EMBEDDING}egnorts"
FORM = {"content-type": "application/x-www-form-urlencoded"}
POSTED = (PATH, f"{PATH}/figures", f"{PATH}/survey.toml", f"{PATH}.json", f"{PATH}.csv")


def admit(request: Request) -> Visit:
    check_site(request, frozenset(LOOPBACK))
    return Visit()


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """One that looks at the planner by itself."""
    planner = Planner(SeededEntropy(b"planner"), ManualClock(NOW), admit)
    transport = httpx.ASGITransport(create_app("planner", [planner.router()]))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
async def guest(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """One that looks at a collector, with the planner in it."""
    service = CollectorService(tmp_path, clock=ManualClock(NOW), guests=[planner_guest()])
    async with service.client() as client:
        yield client


def described(answer: httpx.Response) -> dict[str, Any]:
    """Return an answer's document, which is what its model says and nothing else."""
    document: dict[str, Any] = answer.json()
    assert Plan.model_validate_json(answer.content).model_dump(exclude_unset=True) == document
    return document


async def test_the_page_has_the_form_and_what_follows_and_only_a_script_of_its_own(
    browser: httpx.AsyncClient,
) -> None:
    answer = await browser.get(PATH)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy
    page = Page(answer.text)
    assert [each.attributes["src"] for each in page.all("script")] == [f"{PATH}/planner.js"]
    labelled = {each.attributes.get("for") for each in page.all("label")}
    for each in [*page.all("input"), *page.all("select"), *page.all("textarea")]:
        kind = each.attributes.get("type")
        assert (
            kind == "radio"
            or each.attributes.get("id") in labelled
            or (kind == "range" and each.attributes["aria-label"])
        )
    for each in page.elements:
        assert not any(name.startswith("on") or name == "style" for name in each.attributes)
    charts = [each.attributes["aria-label"] for each in page.all("svg")]
    titles = list(dict.fromkeys(charts))  # each for a wide window and a narrow one
    assert titles == [
        "How was your workload this month?: count",
        "Error against ε",
        "The year's budget filling up",
    ]
    text = page.all("main")[0].text
    assert "the least precise share is within 2.808 % of the truth in 95 % of cases" in text
    assert "That is" not in text  # the same number of per cent once more
    assert "A neighbour who is 50 % sure is at most 53.75 % sure after one window" in text
    assert len(next(each for each in page.all("ol")).text) > 500
    script = await browser.get(f"{PATH}/planner.js")
    assert script.headers["content-type"].startswith("text/javascript")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_question_is_shown_and_saved_as_prio_survey_check_takes_it(
    browser: httpx.AsyncClient, kind: str, tmp_path: Path
) -> None:
    form = {"kind": kind, "error": "4", "people": "5000", "unit": "km"}
    shown = await browser.post(PATH, data=form)
    assert shown.status_code == 200
    page = Page(shown.text)
    chosen = [
        each.attributes["value"] for each in page.all("option") if "selected" in each.attributes
    ]
    assert chosen[0] == kind
    document = described(await browser.post(f"{PATH}.json", data=form))
    saved = await browser.post(f"{PATH}/survey.toml", data=form)
    assert saved.headers["content-disposition"] == 'attachment; filename="survey.toml"'
    assert saved.text == document["survey"]
    file = tmp_path / "survey.toml"
    file.write_text(saved.text, encoding="utf-8")
    checked = CliRunner().invoke(survey_command.app, ["check", str(file), "--json"])
    (question,) = json.loads(checked.stdout)["parts"]
    assert question["ways"][0]["error"] == document["half_width"]
    # The strength that follows from the wanted error stands in its field.
    strength = next(each for each in page.all("input") if each.attributes.get("id") == "strength")
    found = document["parameters"]["epsilon"]
    assert float(strength.attributes["value"]) == pytest.approx(found, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        *({"mechanism": name} for name in NOISES),
        {"kind": "number", "mechanism": "DiscreteGaussian"},
        {"kind": "yes-no", "goal": "strength", "strength": "0.001", "people": "1"},
        {"kind": "choice", "goal": "strength", "strength": "20"},
    ],
    ids=str,
)
async def test_its_document_has_the_members_that_its_description_names_whatever_the_noise(
    browser: httpx.AsyncClient, form: dict[str, str]
) -> None:
    found = described(await browser.post(f"{PATH}.json", data=form))
    assert found["advise"]["error"]["half_width"] == found["error"]["two_aggregators"]["half_width"]


async def test_the_noise_is_drawn_anew_each_time_and_the_rest_stays(
    browser: httpx.AsyncClient,
) -> None:
    form = {"kind": "choice"}
    first, second = [(await browser.post(f"{PATH}/figures", data=form)).text for _ in range(2)]
    assert first != second
    assert "<html" not in first
    assert Page(first).all("p")[0].text == Page(second).all("p")[0].text
    documents = [(await browser.get(f"{PATH}.json")).text for _ in range(2)]
    assert documents[0] == documents[1]


async def test_each_file_is_what_its_description_says(guest: httpx.AsyncClient) -> None:
    guest.headers.update(BEARER)
    paths = (await guest.get("/openapi.json")).json()["paths"]
    assert {path for path in paths if path.startswith(PATH)} == {f"{PATH}.json", f"{PATH}.csv"}
    form = {"labels": "=1+1\n\uff0d2\nright", "people": "90"}
    for method in ("GET", "POST"):
        fields = {"params" if method == "GET" else "data": form}
        document = await guest.request(method, f"{PATH}.json", **fields)
        assert described(document)["survey"].endswith('"right"]\n')
        listed = await guest.request(method, f"{PATH}.csv", **fields)
        for answer in (document, listed):
            path = answer.url.path
            (media,) = paths[path][method.lower()]["responses"]["200"]["content"]
            assert answer.headers["content-type"].split(";")[0] == media
        rows = list(csv.DictReader(listed.text.splitlines()))
        assert [row["label"] for row in rows[:3]] == ["'=1+1", "'\uff0d2", "right"]
        assert [float(row["made_up"]) for row in rows[:3]] == [49, 25, 16]
    fields = paths[f"{PATH}.json"]["post"]["requestBody"]["content"].popitem()[1]["schema"]
    assert set(fields["properties"]) == set(DEFAULTS)


@pytest.mark.slow
async def test_what_a_steward_writes_is_shown_as_text(browser: httpx.AsyncClient) -> None:
    written = f'{SCRIPT} "{TURNED}"'
    for form in (
        {"text": written, "title": written, "asked": written, "labels": f"{SCRIPT}\n{TURNED}"},
        {"people": written},
        {"kind": "vector", "columns": f"{SCRIPT}, 0, 3\n{TURNED}, 0, 9, 1, {SCRIPT[:9]}"},
        {"kind": SCRIPT},
    ):
        answer = await browser.post(PATH, data=form)
        assert answer.status_code in {200, 422}
        assert len(Page(answer.text).all("script")) == 1
        assert SCRIPT not in answer.text


REFUSED = {
    "huge count": ({"people": "9" * 400}, 422, "people must be a whole number from 1 to"),
    "no people": ({"people": "0"}, 422, "people must be a whole number from 1 to"),
    "negative": ({"goal": "strength", "strength": "-1"}, 422, "strength must lie in (0, 20]"),
    "long text": ({"text": "x" * 10_000}, 422, "text may have 500 characters, not 10,000"),
    "control": ({"text": "a\x00b"}, 422, "text may have no control characters"),
    "many labels": ({"labels": "x\n" * 10_000}, 422, "labels may have 200 lines, not 10,000"),
    "a million labels": ({"labels": "x\n" * 10**6}, 413, "the body may have 65536 bytes"),
    "many fields": ({str(name): "" for name in range(99)}, 400, "a form may have 64 fields"),
}
_PLACES = "\n".join(
    f"a{top}\n" + "\n".join(f" {top}b{low}" for low in range(9)) for top in range(4)
)
_COLUMNS = "\n".join(f"c{each}, 0, 9" for each in range(30))
COSTLY = {
    "largest tree": {"kind": "tree", "regions": _PLACES},
    "longest grid": {"kind": "number", "low": "0", "high": "1099511627776"},
    "histogram of numbers": {"kind": "number", "low": "0", "high": "999"},
    "most windows": {"windows": "1000", "window": "day", "mechanism": "DiscreteGaussian"},
    "least error": {"people": "1000000000", "error": "0.0001"},
    "one person": {"people": "1", "error": "100"},
    "least strength": {"goal": "strength", "strength": "0.001"},
    "most strength": {"goal": "strength", "strength": "20"},
    "nothing to hide": {"goal": "strength", "strength": "20", "kind": "yes-no"},
    "most labels": {"labels": "\n".join(map(str, range(200)))},
    "most columns": {"kind": "vector", "columns": _COLUMNS},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
async def test_hostile_forms_get_a_clear_answer_at_once(
    browser: httpx.AsyncClient, case: str
) -> None:
    form, code, said = REFUSED[case]
    body = urlencode(form).encode()
    for path in POSTED:
        with measured() as spent:
            answer = await browser.post(path, content=body, headers=FORM)
        assert spent.yardsticks < 100
        assert said in answer.text
        assert answer.status_code == (code if path in POSTED[:2] or code != 422 else 400)


@pytest.mark.slow
@pytest.mark.parametrize("case", COSTLY)
async def test_the_largest_forms_are_answered(browser: httpx.AsyncClient, case: str) -> None:
    await browser.get(PATH)  # what is computed once for all is
    with measured() as spent:
        answer = await browser.post(PATH, data=COSTLY[case])
    assert answer.status_code == 200
    assert "For the board" in answer.text
    assert spent.yardsticks < 400


async def test_a_form_that_takes_too_long_is_given_up(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.steward.planner.proposal.MOST_SECONDS", 0.0)
    answer = await browser.post(PATH, data={"kind": "choice", "people": "1801"})
    assert answer.status_code == 422
    assert "takes more than 0 s to compute: allow a larger error" in answer.text


async def test_other_sites_other_hosts_and_other_bodies_are_refused(
    browser: httpx.AsyncClient,
) -> None:
    form = {"kind": "choice"}
    for path in POSTED:
        for origin in ("http://elsewhere", "http://127.0.0.1:8080"):
            foreign = await browser.post(path, data=form, headers={"origin": origin})
            assert foreign.status_code == 403
        host = await browser.post(path, data=form, headers={"host": "elsewhere"})
        assert host.status_code == 421
        assert (await browser.post(path, json={})).status_code == 415
    assert (await browser.get(PATH, headers={"host": "elsewhere:80"})).status_code == 421
    shown_there = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "image"}
    for path in (PATH, f"{PATH}.json", f"{PATH}.csv", f"{PATH}/planner.js"):
        assert (await browser.get(path, headers=shown_there)).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert (await browser.get(PATH, headers=link)).status_code == 200
    assert (await browser.get(f"{PATH}.json", headers=link)).status_code == 403
    body = b"text=" + b"x" * MAX_FORM_SIZE
    assert (await browser.post(PATH, content=body, headers=FORM)).status_code == 413


@pytest.mark.slow
async def test_in_a_collector_it_is_linked_and_shown_to_who_has_the_token(
    guest: httpx.AsyncClient,
) -> None:
    for path in (f"{PATH}.json", f"{PATH}.csv", f"{PATH}/planner.js", f"{PATH}/survey.toml"):
        answer = await guest.request("POST" if path in POSTED else "GET", path)
        assert answer.status_code == 401
    for method, path in (("GET", PATH), ("POST", PATH), ("POST", f"{PATH}/figures")):
        answer = await guest.request(method, path)
        to = f"?to={PATH}" if path == PATH else ""
        assert (answer.status_code, answer.headers["location"]) == (303, f"/login{to}")
    wrong = await guest.get(f"{PATH}.json", headers={"authorization": "Bearer another"})
    assert wrong.status_code == 401
    shown = await guest.get(f"{PATH}.json", headers=BEARER)
    assert shown.json()["mechanism"] == "PureDpDiscreteLaplace"
    await log_in(guest)
    overview = Page((await guest.get("/")).text)
    assert (PATH, "Planner") in [(each.attributes["href"], each.text) for each in overview.all("a")]
    page = Page((await guest.get(PATH)).text)
    assert "For the board" in page.all("main")[0].text
    assert page.form("/logout")
    assert ("/", "Overview") in [(each.attributes["href"], each.text) for each in page.all("a")]
