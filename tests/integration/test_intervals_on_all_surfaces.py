"""One release with a value that passed a threshold: every surface shows the same interval of it."""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import polars as pl
import pytest

from aggregator.cli.collector.tables import print_result
from aggregator.collector.opened import Collected
from aggregator.collector.results import Batch
from aggregator.protocol.task import Task
from tests.support.collector_service import log_in
from tests.support.collector_world import MONDAY, WEEK, CollectorWorld
from tests.support.tasks import make_task

GEOMETRIC = {"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CollectorWorld]:
    found = CollectorWorld(tmp_path)
    yield found
    found.database.close()


@pytest.fixture
async def browser(world: CollectorWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client(shows_token=True) as client:
        yield client


def released(world: CollectorWorld) -> tuple[Task, str]:
    """Put a release whose first bucket passed the threshold 44 by little, the third by far."""
    task = make_task({"type": "Prio3Histogram", "length": 3, "chunk_length": 2}, GEOMETRIC)
    world.add(task)
    return task, world.finish(task, MONDAY, [47, 3, 550])


async def test_a_value_that_passed_a_threshold_has_one_interval_on_every_surface(
    world: CollectorWorld,
    browser: httpx.AsyncClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    task, name = released(world)
    document = (await browser.get(f"/api/collections/{name}")).json()
    await log_in(browser)
    batch = Batch.of_document(task, document)
    expected = {
        label: value.interval() for label, value in zip("012", batch.quantities(), strict=True)
    }
    low, high = int(expected["0"].low), int(expected["0"].high)
    plain = task.policy.mechanism.half_width(task.prio3.circuit, expected["0"].confidence)
    assert low < 47 - plain, "the usual interval does not hold for it"

    def check(rows: list[dict[str, object]]) -> None:
        assert len(rows) == 3
        for (label, found), row in zip(expected.items(), rows, strict=True):
            assert row.get("label", label) == label
            ends = [float(str(row[end])) for end in ("low", "high")]
            assert ends == [found.low, found.high]
            assert row["method"] == found.method

    # In JSON, of the API and so of `prio collect --json`, and in the store.
    check(document["result"]["intervals"])
    # On a terminal.
    print_result(document, batch.quantities())
    printed = " ".join(capsys.readouterr().out.split())
    assert f"0 │ 47 │ {low} to {high}" in printed
    assert f"{47 - plain} to {47 + plain}" not in printed
    assert "1 │ withheld │" in printed
    # In a notebook, and its files.
    collected = Collected(task, MONDAY, MONDAY + WEEK, document)
    for table in (batch.table(), collected.table()):
        check(table.rows)
        table.to_csv(tmp_path / "rows.csv")
        check(list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text()))))
        assert f">{low}</td>" in table._repr_html_()
    assert f"from {low} to {high} at" in repr(batch)
    # On pages, and their files.
    path = f"/questions/{task.task_id}"
    check((await browser.get(f"{path}.json")).json()["rows"])
    check(list(csv.DictReader(io.StringIO((await browser.get(f"{path}.csv")).text))))
    check(pl.read_parquet((await browser.get(f"{path}.parquet")).content).to_dicts())
    about = re.sub("<[^>]*>", " ", (await browser.get(f"{path}/about")).text)
    assert f"from {low} to {high}, holds" in " ".join(about.split())
    page = re.sub("<[^>]*>", " ", (await browser.get(path)).text)
    assert f"47 {low} {high} " in " ".join(page.split())
