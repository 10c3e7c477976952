"""A survey from its file to a link, to visitors over a torn network, to its results.

Eight visitors always, and 300 on demand:
`pytest -m bench tests/browser/test_a_survey_from_its_file_to_its_results.py`.
"""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from aggregator.cli.local.folder import LocalFolder
from tests.support.browser import TOSSES
from tests.support.faults import Torn
from tests.support.faulty_peer import FaultyPeer
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.up import is_up, prio

pytestmark = pytest.mark.slow

SURVEY = """
title = "Ways to work"
asked = "employees"
window = "1000 days"
min_batch_size = 5
by = "transport"
[budget]
epsilon = "100000000"
windows = 2
[[question]]
name = "transport"
text = "How do you get to work?"
kind = "choice"
labels = ["on foot", "by bicycle", "by bus"]
[[question]]
name = "late"
text = "How many minutes is the bus late?"
kind = "number"
low = 0
high = 60
ask_if = { transport = "by bus" }
[[question]]
name = "wishes"
text = "What would you wish for?"
kind = "multiple"
labels = ["showers", "lockers", "maps"]
at_most = 2
[[question]]
name = "fear"
text = "What do you fear most?"
kind = "text"
epsilon = "64"
buckets = 32
tasks = 8
"""
"""So much epsilon that the noise is 0: the results tell what was counted. Windows are whole numbers
of their length after 1970, so that one is a unit of time, and can be collected before it is over.
"""

WISHES = ("showers", "lockers", "maps")

TOGETHER = 30
"""How many visitors there are at once."""

_MILLISECONDS = 1000 * PATIENCE_SECONDS


class Visitor(NamedTuple):
    """What somebody answers, and whether they close the page while it sends."""

    transport: str
    late: int
    wishes: tuple[str, ...]
    fear: str
    leaves: bool


def visitor(number: int) -> Visitor:
    return Visitor(
        ("on foot", "by bicycle", "by bus")[number % 3],
        number % 61,
        ((), ("maps",), ("showers", "lockers"))[number // 3 % 3],
        ("Dogs", "dogs ", "DOGS", "")[number % 4],
        number % 4 == 1,
    )


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.bench)])
def test_everybody_is_counted_once_over_a_network_that_is_slow_and_tears(
    browser: Browser, tmp_path: Path, count: int
) -> None:
    (tmp_path / "survey.toml").write_text(SURVEY)
    folder = LocalFolder.made(tmp_path / "prio-up")
    for party in ("leader", "helper"):
        with folder.config(party).open("a") as file:
            file.write('\n[requirements]\nmax_epsilon = "100000000"\n')
    began = time.monotonic()
    with is_up(tmp_path, "survey.toml") as up:
        (link,) = re.findall(r"is answered at: (.*)$", up.said, re.MULTILINE)
        ports = {urlsplit(folder.url(party)).port or 0 for party in ("leader", "helper")}
        torn = Torn(random.Random(count), ports)  # noqa: S311  chances of a test
        with FaultyPeer("", torn) as network:
            for first in range(0, count, TOGETHER):
                visit(browser, network, link, range(first, min(first + TOGETHER, count)))
        collected = prio(
            *("survey", "collect", "--json", "--now"),
            cwd=tmp_path,
        )
        (tmp_path / "words.txt").write_text("cats\ndogs\nspiders\n")
        words = prio("survey", "results", "--json", "--words", "words.txt", cwd=tmp_path)
    seconds = time.monotonic() - began
    print(f"{count} visitors: {seconds:.0f} s, {dict(torn.fates)}")  # noqa: T201  a measurement
    assert torn.fates["lost"]
    assert torn.fates["unanswered"]
    assert counted(collected) == answers(count)
    silent = sum(not visitor(number).fear for number in range(count))
    assert feared(words) == ({("dogs",): count - silent}, silent)


def visit(browser: Browser, network: FaultyPeer, link: str, numbers: range) -> None:
    """Let some visitors answer, who wait together until all of them are counted."""
    with ExitStack() as stack:
        sent = [
            answered(stack.enter_context(device(browser, network, number)), link, visitor(number))
            for number in numbers
        ]
        for page in sent:
            wait_until(partial(is_counted, page), page)


def is_counted(page: Page) -> bool:
    """Say whether the page says so; if not, let it try again soon, as where a network is back."""
    page.evaluate("dispatchEvent(new Event('online'))")
    page.wait_for_timeout(500)
    return page.get_by_role("status").inner_text() == "Your answers are counted."


@contextmanager
def device(browser: Browser, network: FaultyPeer, number: int) -> Iterator[BrowserContext]:
    """Yield a browser with a store of its own, on that network."""
    context = browser.new_context(proxy={"server": network.url, "bypass": "<-loopback>"})
    context.set_default_timeout(_MILLISECONDS)
    # None of the tasks may be without reports, for all are needed.
    context.add_init_script(TOSSES % (number % 8))
    try:
        yield context
    finally:
        context.close()


def answered(context: BrowserContext, link: str, person: Visitor) -> Page:
    """Answer a survey; return the page that is open then."""
    page = opened(context, link)
    page.get_by_label(person.transport).check()
    if person.transport == "by bus":
        page.get_by_label("How many minutes").fill(str(person.late))
    for wish in person.wishes or ["None of these"]:
        page.get_by_label(wish).check()
    fear = page.get_by_role("group", name="What do you fear")
    if person.fear:
        fear.get_by_label("What do you fear").fill(person.fear)
    else:
        fear.get_by_label("I'd rather not say").check()
    page.get_by_role("button").click()
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    if not person.leaves:
        return page
    page.close()
    page = opened(context, link)
    expect(page.get_by_role("button")).not_to_be_visible()  # one answer of each browser
    return page


def opened(context: BrowserContext, link: str) -> Page:
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def counted(document: str) -> dict[str, float]:
    """Return the counts and the sum of a survey's results."""
    return {
        f"{row['question']} {row['label']}".strip(): round(row["value"], 6)
        for row in json.loads(document)["rows"]
        if row["by"] in ("", None) and row["shows"] in ("count", "sum")
    }


def answers(count: int) -> dict[str, float]:
    """Return what that is if each of this many visitors is counted once."""
    people = [visitor(number) for number in range(count)]
    found = Counter[str]()
    for person in people:
        found[f"transport {person.transport}"] += 1
        is_asked = person.transport == "by bus"
        found["late answered" if is_asked else "late no answer"] += 1
        found["late"] += person.late if is_asked else 0
        found.update(f"wishes {wish}" for wish in person.wishes)
    nobody = ("transport no answer", "wishes no answer")
    return dict.fromkeys((*nobody, *(f"wishes {each}" for each in WISHES)), 0) | dict(found)


def feared(document: str) -> tuple[dict[tuple[str, ...], float], float]:
    """Return which words were found, with their counts, and how many people wrote nothing."""
    [of_window] = json.loads(document)["texts"]
    found = {tuple(each["names"]): round(each["count"], 6) for each in of_window["found"]}
    return found, of_window["no_answer"]
