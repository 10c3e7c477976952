"""The page of a survey's synthetic table: what it shows, offers and refuses."""

import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import polars as pl
import pytest

from aggregator.collector.pages import models
from aggregator.protocol.task import Task
from tests.support.collector_service import BEARER, log_in
from tests.support.collector_world import MONDAY, SCRIPT, WEEK, CollectorWorld, task_asking
from tests.support.look import Page
from tests.support.surveys import department

SAT = '[[question]]\nname = "sat"\nkind = "scale"\nhigh = 2\n'
KM = '[[question]]\nname = "km"\nkind = "number"\nlow = 0\nhigh = 10\ndesign = "sum"\n'

# Department, satisfaction, how many gave km; then of sat by department, and km by both.
ALIKE = [300, 300, 0, 300, 300, 0, 600, 0, 3000]
PAIR = [300, 0, 0, 0, 300, 0, 0, 0, 0]
APART = [150, 150, 0, 150, 150, 0, 0, 0, 0]


@pytest.fixture
def world(tmp_path: Path) -> CollectorWorld:
    return CollectorWorld(tmp_path)


@pytest.fixture
async def browser(world: CollectorWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


def asked(world: CollectorWorld, *pairs: list[int], labels: tuple[str, ...] = ("a", "b")) -> Task:
    task = task_asking(department(labels) + SAT + KM, tables='tables = [["department", "sat"]]')
    world.add(task)
    for weeks, pair in enumerate(pairs):
        world.finish(task, MONDAY + weeks * WEEK, ALIKE + pair)
    return task


async def look(browser: httpx.AsyncClient, path: str) -> str:
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_a_page_shows_synthetic_counts_beside_released_ones(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = asked(world, PAIR)
    await log_in(browser)
    text = await look(browser, f"/questions/{task.task_id}/synthetic")
    for words in ("No row is a person", "z = ", ": of a number only", "600 rows"):
        assert words in text
    assert "<title>department by sat: " in text
    assert "Synthetic table" in await look(browser, f"/questions/{task.task_id}")


async def test_what_is_refused_is_said_and_has_no_files(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = asked(world, APART)
    path = f"/questions/{task.task_id}/synthetic"
    await log_in(browser)
    assert "take each question by itself" in await look(browser, path)
    for ending in ("json", "csv", "parquet"):
        answer = await browser.get(f"{path}.{ending}", headers=BEARER)
        assert answer.status_code == 404
        assert "stands out" in answer.text
    assert "No result yet" not in await look(browser, path)


async def test_without_results_or_tables_there_is_none(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = asked(world)
    other = task_asking(department(), number=1)
    world.add(other)
    world.finish(other, MONDAY, [1, 2, 3])
    await log_in(browser)
    assert "No result yet" in await look(browser, f"/questions/{task.task_id}/synthetic")
    page = await look(browser, f"/questions/{other.task_id}/synthetic")
    assert "no two of these questions" in page
    assert "Synthetic" not in await look(browser, f"/questions/{other.task_id}")


async def test_files_hold_stamped_rows_and_what_must_be_known(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = asked(world, PAIR, APART)
    path = f"/questions/{task.task_id}/synthetic"
    refused = await browser.get(f"{path}.csv", headers=BEARER)
    assert refused.status_code == 404  # the newest result
    await log_in(browser)
    shown = Page(await look(browser, path))
    (first, _) = [each.attributes["value"] for each in shown.all("option")]
    query = {"result": first}
    answer = await browser.get(f"{path}.json", headers=BEARER, params=query)
    document = models.SyntheticTable.model_validate(answer.json())
    assert document.about.left_out.keys() == {"km"}
    assert {each.pair for each in document.rows} == {"department", "sat", "department by sat"}
    answer = await browser.get(f"{path}.csv", headers=BEARER, params=query)
    assert 'filename="survey.synthetic.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 600
    assert {row["synthetic"] for row in rows} == {document.about.synthetic}
    answer = await browser.get(f"{path}.parquet", headers=BEARER, params=query)
    assert pl.read_parquet(io.BytesIO(answer.content)).height == 600


async def test_nobody_looks_without_a_token_and_no_label_runs(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    task = asked(world, PAIR, labels=(SCRIPT, "=1+1"))
    path = f"/questions/{task.task_id}/synthetic"
    assert (await browser.get(path)).status_code == 303
    assert (await browser.get(f"{path}.csv")).status_code == 401
    await log_in(browser)
    answer = await browser.get(path)
    assert SCRIPT not in answer.text
    answer = await browser.get(f"{path}.csv", headers=BEARER)
    assert "'=1+1" in answer.text
    for wrong in ("/questions/nothing/synthetic", f"{path}?result=00"):
        assert (await browser.get(wrong)).status_code == 404
