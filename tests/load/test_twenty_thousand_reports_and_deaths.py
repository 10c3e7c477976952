"""20,000 histogram reports of length 256, of each of two tasks, through services that keep dying.

On demand: `pytest -m bench tests/load`. One task adds noise and the other adds none, so one result
must be near the truth and one must be the truth.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest

from tests.support.measured_task import HOUR, MeasuredTask, make_measured_task
from tests.support.mortal import Fate
from tests.support.processes import COMMANDS, Processes
from tests.support.sudden_death import Patient, Reaper, explained, failures_in_logs

pytestmark = [pytest.mark.bench, pytest.mark.slow]

REPORTS = 20_000
LENGTH = 256
REPORTS_PER_REQUEST = 100
SETTINGS = {"request_timeout_seconds": 2}

KILLS = 80
LEAST_KILLS = 20
EVERY = {"leader": 25, "helper": 5, "collector": 3}
"""At which moment of its transactions each service dies: odd, so before and after commits."""
LEAST_DEATHS = {"leader": 24, "helper": 24, "collector": 3}


async def collect_at_the_desk(asked: MeasuredTask, http: httpx.AsyncClient) -> list[int]:
    """Have the collector's service collect the batch; return the values that it shows."""
    desk = asked.services.urls["collector"] + "api/"
    interval = {"start": asked.start, "end": asked.start + HOUR}
    token = {"authorization": f"Bearer {asked.services.collector_token}"}
    url = f"{desk}tasks/{asked.task_id}/collections"
    created = await http.post(url, json=interval, headers=token)
    shown = created.json()
    while shown["state"] == "pending":
        await anyio.sleep(0.5)
        url = f"{desk}collections/{shown['collection_id']}"
        answer = await http.get(url, headers=token)
        shown = answer.json()
    assert shown["problem"] is None, shown
    assert shown["result"]["report_count"] == len(asked.measurements)
    values: list[int] = shown["result"]["values"]
    return values


async def go_through(
    tasks: list[MeasuredTask], transport: Patient, reaper: Reaper | None
) -> list[list[int]]:
    """Upload to all tasks at once, and collect each; return their values."""
    found: dict[str, list[int]] = {}

    async def one(asked: MeasuredTask, http: httpx.AsyncClient) -> None:
        await asked.upload(http, REPORTS_PER_REQUEST)
        found[asked.task_id] = await collect_at_the_desk(asked, http)

    async with (
        httpx.AsyncClient(transport=transport, timeout=60) as http,
        anyio.create_task_group() as group,
    ):
        for asked in tasks:
            group.start_soon(one, asked, http)
        if reaper is not None:
            await anyio.to_thread.run_sync(reaper.reap, KILLS, lambda: len(found) == len(tasks))
    return [found[asked.task_id] for asked in tasks]


@contextmanager
def measured(
    services: Processes, transport: Patient, capsys: pytest.CaptureFixture[str]
) -> Iterator[list[MeasuredTask]]:
    """Make the tasks for what is done inside, and say how long that took and what was answered."""
    start = int(time.time()) // HOUR * HOUR - HOUR
    tasks = [
        make_measured_task(services, name, REPORTS, LENGTH, start, privacy)
        for name, privacy in (("exact", "--mechanism=None"), ("noised", "--epsilon=1"))
    ]
    began = time.monotonic()
    yield tasks
    with capsys.disabled():
        print(  # noqa: T201 - what a measurement is for
            f"\n{len(tasks)} x {REPORTS:,} reports in {time.monotonic() - began:.0f} s; answers "
            f"{dict(transport.statuses)}, broken connections {dict(transport.broken_connections)}"
        )


def assert_nothing_happened(
    services: Processes, tasks: list[MeasuredTask], found: list[list[int]], transport: Patient
) -> None:
    """Every report counted once, the right results, and no failure that anybody saw or logged."""
    transport.assert_no_failure()
    for asked, values in zip(tasks, found, strict=True):
        asked.assert_right(values)
        asked.assert_counted_once()
    assert failures_in_logs(services, *COMMANDS) == []


def test_20_000_reports_are_counted_once_whoever_is_killed_and_whenever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Processes(tmp_path, **SETTINGS) as services:
        transport = Patient()
        reaper = Reaper(services, tuple(COMMANDS), (0.05, 0.4))
        with explained(services, reaper, transport), measured(services, transport, capsys) as tasks:
            services.start(*COMMANDS)
            found = anyio.run(go_through, tasks, transport, reaper)
            assert sum(reaper.kills.values()) >= LEAST_KILLS
            assert_nothing_happened(services, tasks, found, transport)
    with capsys.disabled():
        print(f"kills: {dict(reaper.kills)}")  # noqa: T201 - as above


def test_20_000_reports_are_counted_once_with_a_death_after_every_few_transactions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Processes(tmp_path, **SETTINGS) as services:
        transport = Patient()
        fates = {party: Fate(tmp_path / f"{party}-fate", every) for party, every in EVERY.items()}
        for party, fate in fates.items():
            services.programs[party] = fate.command()
        with explained(services, transport), measured(services, transport, capsys) as tasks:
            services.start(*COMMANDS)
            found = anyio.run(go_through, tasks, transport, None)
            deaths = {party: len(fate.deaths()) for party, fate in fates.items()}
            assert all(deaths[party] >= least for party, least in LEAST_DEATHS.items()), deaths
            assert_nothing_happened(services, tasks, found, transport)
    with capsys.disabled():
        moments = {party: len(fate.moments()) for party, fate in fates.items()}
        print(f"deaths: {deaths}, of {moments} moments")  # noqa: T201 - as above
