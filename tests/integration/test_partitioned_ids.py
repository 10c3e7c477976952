"""An operator may part the tables of ids on a server: no report is lost or counted twice by it."""

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select

from aggregator.service.config import GROUP_REPORTS
from aggregator.service.runtime.report_ages import forget_old_ids
from aggregator.service.storage.engine import tables
from tests.support.engines import ON_POSTGRESQL
from tests.support.pair import Pair, Service

pytestmark = [ON_POSTGRESQL, pytest.mark.usefixtures("engine")]

SCRIPT = Path(__file__).parents[2] / "deploy" / "postgresql" / "partition-ids.sql"
YEAR = 366 * 86_400


def part(service: Service) -> None:
    """Do what the script says, while the service is stopped."""
    service.database.close()
    with psycopg.connect(service.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(SCRIPT.read_bytes())
    service.start()


def ids_of(service: Service) -> tuple[int, int]:
    """Return how many ids of uploads a service holds, and of counted reports."""
    columns = (tables.report_ids.c.report_id, tables.aggregated_reports.c.report_id)
    uploaded, counted = (
        service.database.read_sync(
            "ids", lambda tx, column=column: tx.connection.execute(select(column)).all()
        )
        for column in columns
    )
    return len(uploaded), len(counted)


def parts(service: Service) -> int:
    """Return how many parts of tables hold ids."""
    query = "SELECT count(DISTINCT tableoid) FROM report_ids"
    return int(
        service.database.read_sync(
            "parts", lambda tx: tx.connection.exec_driver_sql(query).scalar_one()
        )
    )


async def test_ids_from_before_and_after_are_each_counted_once(pair: Pair) -> None:
    before, after = [await pair.reports([n % 4 for n in range(50)]) for _ in range(2)]
    await pair.upload(before)
    await pair.work_until_idle()
    for service in (pair.leader, pair.helper):
        part(service)
    assert (await pair.upload([*before, *after])).status == ()
    assert (await pair.upload([*after, *before])).status == ()
    await pair.work_until_idle()
    assert ids_of(pair.leader) == (100, 0)
    assert ids_of(pair.helper) == (0, 100)
    assert parts(pair.leader) > 1
    for service in (pair.leader, pair.helper):
        assert service.counts(pair.task) == {"aggregated": 100}
    assert (await pair.collect()).report_count == 100


async def test_ids_in_parts_are_forgotten_by_age(pair: Pair) -> None:
    part(pair.leader)
    await forget_old_ids(pair.leader.runtime, YEAR)
    await pair.upload(await pair.reports([n % 4 for n in range(GROUP_REPORTS // 10)]))
    await pair.work_until_idle()
    for _ in range(14):
        pair.clock.advance(YEAR // 12)
        await forget_old_ids(pair.leader.runtime, YEAR)
    assert ids_of(pair.leader) == (0, 0)
