"""Real processes that die before and after the commit of every transaction of a report's way.

`tests/integration/test_crashes.py` does the same in memory; here the death is the operating
system's, and what comes after is a start from nothing but the files. On PostgreSQL a process dies
before the commit of each transaction only: after it, in memory.
"""

import itertools
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import httpx
import pytest

from tests.support.measured_task import HOUR, MeasuredTask, make_measured_task
from tests.support.mortal import MOMENTS, Fate
from tests.support.processes import Processes
from tests.support.sudden_death import Patient, explained, failures_in_logs
from tests.support.transactions import OF_TIME, WRITES

pytestmark = pytest.mark.slow

REPORTS = 40
BUCKETS = 5
FIRST_TRANSACTIONS = ("mark the journal", "ensure hpke key")
"""Those of a new store, before its process listens."""
TASKS = {
    "sqlite": (("--mechanism=None",), ("--epsilon=1", "--batch-mode=leader-selected")),
    "postgresql": (("--epsilon=1",),),
}
"""The options with which tasks are made, by the engine of the stores."""


def deaths(engine: str, transactions: Sequence[str]) -> list[tuple[str, str]]:
    """Return the transactions and the moments at which processes die, in order."""
    moments = MOMENTS if engine == "sqlite" else ("before commit",)
    return list(itertools.product(transactions, moments))


async def round_trip(asked: MeasuredTask, transport: Patient) -> bytes:
    """Upload everything in one request, wait until it is added up, and collect it twice."""
    async with httpx.AsyncClient(transport=transport, timeout=30) as http:
        await asked.upload(http, REPORTS)
        while not asked.aggregated("leader"):  # noqa: ASYNC110 - only the store can say it
            await anyio.sleep(0.05)
        body = await asked.collect(http)
        assert await asked.collect(http) == body, "whoever asks again gets the same sealed shares"
        return body


def test_a_death_around_any_transaction_changes_nothing_that_anybody_sees(
    engine: str, tmp_path: Path
) -> None:
    tasks = TASKS[engine]
    start = int(time.time()) // HOUR * HOUR - HOUR
    settings = {"request_timeout_seconds": 1, "work_interval_seconds": 0.05}
    with Processes(tmp_path, **settings) as services:
        fates = {party: Fate(tmp_path / f"{party}-fate") for party in WRITES}
        for party, fate in fates.items():
            services.programs[party] = fate.command()
            fate.arm(deaths(engine, FIRST_TRANSACTIONS))
        transport = Patient()

        def go(name: str, *options: str) -> None:
            asked = make_measured_task(services, name, REPORTS, BUCKETS, start, *options)
            asked.assert_right(asked.open(anyio.run(round_trip, asked, transport)))
            asked.assert_counted_once()

        with explained(services, transport):
            services.start(*WRITES)
            go("undisturbed", *tasks[-1])
            for party, fate in fates.items():
                assert not fate.is_armed
                written = dict.fromkeys(name for name, _ in fate.moments())
                in_order = [name for name in written if name not in OF_TIME]
                assert in_order == [*FIRST_TRANSACTIONS, *WRITES[party]]

            for options in tasks:
                for party, fate in fates.items():
                    fate.arm(deaths(engine, WRITES[party]))
                go(f"{options}", *options)
                assert not any(fate.is_armed for fate in fates.values())
            transport.assert_no_failure()
            assert failures_in_logs(services, *WRITES) == []
        for party, fate in fates.items():
            planned = [
                deaths(engine, FIRST_TRANSACTIONS),
                *len(tasks) * [deaths(engine, WRITES[party])],
            ]
            assert sorted(fate.deaths()) == sorted(itertools.chain(*planned))
