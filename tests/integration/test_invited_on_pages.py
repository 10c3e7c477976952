"""A collector that was given lists of permits says of how many who were invited answers are."""

import csv
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from aggregator.protocol.permit_lists import listed, write_lists
from aggregator.protocol.task import Task
from tests.support.collector_service import log_in
from tests.support.collector_world import MONDAY, REPORTS, WEEK, CollectorWorld, seconds
from tests.support.surveys import VISITS, department, task_of

INVITED = VISITS.replace('asked = "patients"', 'asked = "patients"\nanswers = "by invitation"')


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    (tmp_path / "lists").mkdir()
    return tmp_path / "lists"


@pytest.fixture
def world(tmp_path: Path, lists: Path) -> CollectorWorld:
    return CollectorWorld(tmp_path, permit_lists=lists)


@pytest.fixture
async def browser(world: CollectorWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        await log_in(client)
        yield client


def invite(lists: Path, task: Task, name: str, *secrets: int) -> None:
    """Write a list of people for the first two weeks."""
    assert task.permits is not None
    first = task.permit_window_at(task.time(seconds(MONDAY)))
    entries = {
        window: [task.permits.entry_of(bytes([each]) * 16, window) for each in secrets]
        for window in (first, first + 1)
    }
    (lists / name).write_bytes(write_lists([listed(task.permits.domain, entries)]))


async def test_pages_and_files_say_of_how_many_and_lists_may_come_late(
    world: CollectorWorld, lists: Path, browser: httpx.AsyncClient
) -> None:
    task = task_of(INVITED + department())
    world.add(task)
    world.finish(task, MONDAY, [7, 5])
    at = f"/questions/{task.task_id}"
    pages = ("/", at, f"{at}/sheet", f"{at}/about")
    for page in pages:
        assert f"{REPORTS} reports" in (await browser.get(page)).text
        assert "invited" not in (await browser.get(page)).text
    # Somebody in two lists is invited once.
    invite(lists, task, "permits.list", *range(1, 11))
    invite(lists, task, "late.list", *range(8, 21))
    for page in pages:
        assert f"{REPORTS} reports of 20 invited" in (await browser.get(page)).text, page
    for page in ("/overview", at):
        rows = (await browser.get(f"{page}.json")).json()["rows"]
        assert {row["invited"] for row in rows} == {20}
        written = [*csv.DictReader((await browser.get(f"{page}.csv")).text.splitlines())]
        assert {row["invited"] for row in written} == {"20"}
    # A week of which the lists have nobody.
    world.finish(task, MONDAY + 2 * WEEK, [7, 5])
    assert f"{REPORTS} reports of 0 invited" in (await browser.get(at)).text


async def test_what_is_no_list_is_logged_and_changes_nothing(
    world: CollectorWorld, lists: Path, browser: httpx.AsyncClient
) -> None:
    task = task_of(INVITED + department())
    other = task_of(VISITS + department(), id="A" * 43)
    for each in (task, other):
        world.add(each)
        world.finish(each, MONDAY, [7, 5])
    invite(lists, task, "permits.list", *range(1, 11))
    at = f"/questions/{task.task_id}"
    assert f"{REPORTS} reports of 10 invited" in (await browser.get(at)).text
    (lists / "broken.list").write_bytes(b"no list")
    with capture_logs() as logs:
        assert f"{REPORTS} reports of 10 invited" in (await browser.get(at)).text
        await browser.get(at)
    (said,) = (each for each in logs if each["event"] == "a list of permits cannot be read")
    assert "broken.list: byte 0: this is not a list of permits" in said["reason"]
    assert "invited" not in (await browser.get(f"/questions/{other.task_id}")).text
