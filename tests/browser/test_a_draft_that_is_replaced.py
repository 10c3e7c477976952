"""A draft is replaced by `--replace` while a browser holds an answer to it that was not sent."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from aggregator.cli.local.folder import LocalFolder
from aggregator.client.survey.asked_survey import read_survey
from tests.support.patience import PATIENCE_SECONDS
from tests.support.up import is_up, prio

pytestmark = pytest.mark.slow

SURVEY = """
title = "Ways to work"
asked = "employees"
window = "1000 days"
min_batch_size = 1
[budget]
epsilon = "100000000"
windows = 2
[[question]]
name = "transport"
text = "How do you get to work?"
kind = "choice"
labels = ["on foot", "by bus"]
"""
"""So much epsilon that the noise is 0."""
CHANGED = SURVEY.replace("How do you get to work?", "How did you come?")

RECORDS = """() => new Promise((done, failed) => {
    const opening = indexedDB.open('prio-outbox');
    opening.onerror = failed;
    opening.onsuccess = () => {
        const all = opening.result.transaction('records').objectStore('records').getAll();
        all.onsuccess = () => { opening.result.close(); done(all.result.map(({ task }) => task)); };
    };
})"""
"""The tasks of the reports that wait in the browser."""


def opened(page: Page, link: str) -> None:
    page.goto(link)
    page.wait_for_selector("html[data-ready]", state="attached")


def test_no_answer_to_the_former_draft_is_sent_to_the_new_one(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "survey.toml").write_text(SURVEY)
    folder = LocalFolder.made(tmp_path / "prio-up")
    for party in ("leader", "helper"):
        with folder.config(party).open("a") as file:
            file.write('\n[requirements]\nmax_epsilon = "100000000"\n')
    public = folder.surveys / "ways-to-work" / "task.toml"
    with is_up(tmp_path, "survey.toml") as up:
        (link,) = re.findall(r"is answered at: (.*)$", up.said, re.MULTILINE)
        former = str(read_survey(public).first.task_id)
        context = browser.new_context()
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        page = context.new_page()
        opened(page, link)
        page.get_by_label("on foot").check()
        context.route("**/reports", lambda route: route.abort())
        page.get_by_role("button").click()
        expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
        assert page.evaluate(RECORDS) == [former]

        (tmp_path / "survey.toml").write_text(CHANGED)
        prio("survey", "new", "survey.toml", "--replace", cwd=tmp_path)
        new = str(read_survey(public).first.task_id)
        page.goto("about:blank")  # while it is open, the former page asks its own task
        context.unroute("**/reports")
        sent: list[Request] = []
        context.on("request", lambda each: sent.append(each) if each.method == "POST" else None)
        opened(page, link)
        # At the same address another question is asked, also of who answered the former.
        assert "How did you come?" in page.content()
        expect(page.get_by_role("button")).to_be_visible()
        page.get_by_label("by bus").check()
        page.get_by_role("button").click()
        expect(page.get_by_role("status")).to_have_text(re.compile("Your answers are counted."))
        assert {each.url.split("/tasks/")[1].split("/")[0] for each in sent} == {new}
        assert page.evaluate(RECORDS) == [former]
        opened(page, link)
        expect(page.get_by_role("button")).not_to_be_visible()  # one answer to each draft
        context.close()
        rows = json.loads(prio("survey", "collect", "--json", "--now", cwd=tmp_path))["rows"]
    counts = {row["label"]: round(row["value"], 6) for row in rows if row["shows"] == "count"}
    assert counts == {"on foot": 0, "by bus": 1, "no answer": 0}
