"""A collection job that waits for its batch's reports to be aggregated."""

import itertools
from pathlib import Path

import httpx
import pytest

from aggregator.leader.collections import CollectionDriver
from aggregator.leader.job_creator import JobCreator
from aggregator.leader.job_driver import JobDriver
from aggregator.leader.scheduler import DriverSettings
from tests.support.pair import LEASE_SECONDS, Pair
from tests.support.tasks import LAPLACE, make_task

pytestmark = pytest.mark.anyio

SETTINGS = DriverSettings(
    concurrency=1, lease_seconds=LEASE_SECONDS, max_attempts=5, peer_attempts=1
)


def nobody(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody there")


async def test_a_long_wait_does_not_lengthen_a_later_outage(tmp_path: Path) -> None:
    """Waiting for reports is no failed attempt: the back-off begins at its shortest."""
    pair = Pair(tmp_path, make_task(privacy=LAPLACE))
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.ask()
    collections = CollectionDriver(pair.leader.runtime, pair.http, SETTINGS)
    for _ in range(10):
        assert await collections.run_once() == 1
        pair.clock.advance(1)
    await JobCreator(pair.leader.runtime, job_size=10, linger_seconds=0).run_once()
    await JobDriver(pair.leader.runtime, pair.http, SETTINGS).run_once()

    async with httpx.AsyncClient(transport=httpx.MockTransport(nobody)) as away:
        assert await CollectionDriver(pair.leader.runtime, away, SETTINGS).run_once() == 1
    pair.clock.advance(1)
    assert await collections.run_once() == 1
    assert (await pair.collect()).report_count == 3
    await pair.close()


async def test_a_collection_that_waits_for_long_is_looked_at_ever_less_often(
    tmp_path: Path,
) -> None:
    """Each look is a write, and hundreds of collections may wait."""
    pair = Pair(tmp_path, make_task(privacy=LAPLACE))
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.ask()
    collections = CollectionDriver(pair.leader.runtime, pair.http, SETTINGS)
    looks: list[int] = []
    for second in range(300):
        if await collections.run_once():
            looks.append(second)
        pair.clock.advance(1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert gaps == sorted(gaps)
    assert (gaps[0], gaps[-1]) == (1, 10)
    assert len(looks) < 60
    await pair.close()
