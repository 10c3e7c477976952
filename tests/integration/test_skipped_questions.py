"""A leader who wants to know who smokes: whoever skips a question is seen by nobody.

Two populations of one survey differ only in who passed over the question that follows on another.
The adversary is an aggregator, with its store and all that it is sent, or anybody who sees sizes on
the network. Everything is seeded, so what differs is what answers decide.
"""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from aggregator.dap.times import Interval
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.reports.counters import Stage, report_counts
from aggregator.steward.survey import Meaning
from aggregator.steward.survey.designs import Answer
from tests.support.pair import NOW, Pair, Service
from tests.support.surveys import IN_2023, task_of

pytestmark = pytest.mark.slow

SURVEY = (
    IN_2023.replace("[budget]", 'tables = "all"\n[budget]')
    + """
[[question]]
name = "smokes"
kind = "yes-no"
[[question]]
name = "cigarettes"
kind = "number"
low = 1
high = 40
variance = true
[[question]]
name = "where"
kind = "multiple"
labels = ["at home", "at work", "outside"]
"""
)
SMOKER: list[Answer | None] = [(0,), (19,), (0, 2)]
SKIPS: list[Answer | None] = [(1,), None, None]
SAYS_ALL: list[Answer | None] = [(1,), (0,), ()]
SAYS_NOTHING: list[Answer | None] = [None, None, None]

NOBODY_SKIPS = [SMOKER] * 2 + [SAYS_ALL] * 4
SOME_SKIP = [SMOKER] * 2 + [SKIPS] * 3 + [SAYS_NOTHING]

Seen = dict[str, object]


async def what_is_seen(folder: Path, people: Sequence[list[Answer | None]]) -> Seen:
    """Let people report, and collect; return what each party and the network could see of it."""
    task = task_of(SURVEY)
    meaning = Meaning.of_task(task)
    pair = Pair(folder, task)
    exchanged = []

    async def note(response: httpx.Response) -> None:
        request = response.request
        sizes = [each.headers.get("content-length") for each in (request, response)]
        exchanged.append((request.method, request.url.path, response.status_code, *sizes))

    pair.http.event_hooks = {"response": [note]}
    try:
        await pair.provision()
        for report in await pair.reports([meaning.sheet.measurement(each) for each in people]):
            assert not (await pair.upload([report])).status
        first, end = (int(each.timestamp()) for each in meaning.window(_at(NOW)))
        pair.clock.advance(end - NOW)
        unit = task.time_precision
        result = await pair.collect(Interval.of(first // unit, (end - first) // unit))
        return {
            "exchanged": exchanged,
            "reports": result.report_count,
            "leader's store": _rows(folder / "leader.sqlite"),
            "helper's store": _rows(folder / "helper.sqlite"),
            "leader's status": await _status(pair.leader, pair),
            "helper's status": await _status(pair.helper, pair),
        }
    finally:
        await pair.close()


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def _status(service: Service, pair: Pair) -> object:
    """Return what the service publishes of itself and counts, but for its disk.

    How many pages a table of random ids has depends on their order; rows are compared as they are.
    """
    read = partial(read_aggregator_health, role=service.role, stalled_seconds=120)
    document = (await service.database.read("health", read)).document
    counts = [
        await service.database.read(
            "counts", lambda tx, stage=stage: report_counts(tx, pair.task.task_id.value, stage)
        )
        for stage in Stage
    ]
    of_disk = ("store", "free_bytes", "store_bytes")
    return {key: document[key] for key in document if key not in of_disk}, counts


def _rows(store: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every table, with the length alone of what is sealed or random."""
    with sqlite3.connect(store) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: [
                tuple(_shown(value) for value in row)
                for row in connection.execute(f'SELECT * FROM "{name}"')  # noqa: S608  own names
            ]
            for (name,) in names
        }


def _shown(value: object) -> object:
    return len(value) if isinstance(value, bytes) and len(value) > 8 else value


def made(folder: Path) -> list[Path]:
    """Make a folder for each of two populations."""
    folders = [folder / "some", folder / "others"]
    for each in folders:
        each.mkdir()
    return folders


async def test_who_skipped_a_question_is_seen_by_no_aggregator_and_not_on_the_network(
    tmp_path: Path,
) -> None:
    folders = made(tmp_path)
    everybody = await what_is_seen(folders[0], NOBODY_SKIPS)
    some = await what_is_seen(folders[1], SOME_SKIP)
    assert everybody["reports"] == len(NOBODY_SKIPS)
    for name, seen in everybody.items():
        assert some[name] == seen, name


async def test_that_somebody_took_part_is_seen_and_would_be_here(tmp_path: Path) -> None:
    folders = made(tmp_path)
    everybody = await what_is_seen(folders[0], NOBODY_SKIPS)
    fewer = await what_is_seen(folders[1], NOBODY_SKIPS[1:])
    assert all(fewer[name] != seen for name, seen in everybody.items()), [
        name for name, seen in everybody.items() if fewer[name] == seen
    ]
