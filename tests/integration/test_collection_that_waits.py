"""A collection job that waits for its batch's reports to be aggregated."""

import dataclasses
import itertools
from pathlib import Path

import httpx
import pytest

from aggregator.dap.ids import ReportId
from aggregator.dap.messages import Report
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import AnyReportError, ReportError
from aggregator.service.leader.collections import CollectionDriver
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.leader.job_driver import JobDriver
from aggregator.service.storage.reports.counters import Stage, report_counts
from aggregator.service.transport.driver import DriverSettings
from tests.support.pair import LEASE_SECONDS, NOW, Pair, pair_of
from tests.support.tasks import LAPLACE, NO_NOISE, TIME_PRECISION, make_task

SETTINGS = DriverSettings(
    concurrency=1, lease_seconds=LEASE_SECONDS, max_attempts=5, peer_attempts=1
)


pair = pair_of(privacy=NO_NOISE)


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


class Trickle:
    """Uploads seven reports between any two steps of the leader's workers, 21 a second."""

    def __init__(self, pair: Pair, *, honest: bool) -> None:
        self.pair = pair
        self.honest = honest
        self.answers: set[AnyReportError] = set()
        self._numbers = iter(range(2**20))

    async def drip(self) -> None:
        reports = await self.pair.reports([0] * 7)
        if not self.honest:
            reports = [self._junk(report) for report in reports]
        statuses = (await self.pair.upload(reports)).status
        self.answers |= {DAP_18.report_error(each.error) for each in statuses}

    def _junk(self, report: Report) -> Report:
        other = ReportId(next(self._numbers).to_bytes(16, "big"))  # the ciphertexts do not open
        metadata = dataclasses.replace(report.report_metadata, report_id=other)
        return dataclasses.replace(report, report_metadata=metadata)


@pytest.mark.parametrize("honest", [False, True])
async def test_reports_that_keep_coming_do_not_keep_a_collection_waiting(
    pair: Pair, *, honest: bool
) -> None:
    trickle = Trickle(pair, honest=honest)
    await pair.upload(await pair.reports([1] * 5))
    await trickle.drip()
    location = (await pair.ask()).headers["location"]
    creator = JobCreator(pair.leader.runtime, job_size=10, linger_seconds=2)
    for _ in range(5):
        for work in (
            creator,
            JobDriver(pair.leader.runtime, pair.http, SETTINGS),
            CollectionDriver(pair.leader.runtime, pair.http, SETTINGS),
        ):
            await trickle.drip()
            await work.run_once()
        pair.clock.advance(1)
    result = pair.open((await pair.poll(location)).body)
    assert list(result.values) == [7 if honest else 0, 5, 0, 0]
    assert trickle.answers == {ReportError.REPORT_TOO_EARLY, ReportError.BATCH_COLLECTED}
    counts = await pair.leader.database.read(
        "counts", lambda tx: report_counts(tx, pair.task.task_id.value, Stage.UPLOAD)
    )
    assert counts["stored"] == 12
    assert counts["being_collected"] + counts["batch_collected"] == 105
    assert counts["being_collected"] >= 7


async def told(pair: Pair, reports: list[Report]) -> list[AnyReportError]:
    return [DAP_18.report_error(each.error) for each in (await pair.upload(reports)).status]


async def test_a_report_is_told_that_its_batch_is_collected_only_when_it_is(pair: Pair) -> None:
    """Until then the collection may fail, and the report be counted in a later one."""
    before, after = await pair.reports([1] * 3), await pair.reports([1])
    await pair.upload(before)
    await pair.ask()
    assert await told(pair, after) == [ReportError.REPORT_TOO_EARLY]
    assert await told(pair, before) == []  # known, whatever becomes of the batch
    assert await told(pair, []) == [ReportError.REPORT_TOO_EARLY]  # who has no report yet
    await JobCreator(pair.leader.runtime, job_size=10, linger_seconds=0).run_once()
    await JobDriver(pair.leader.runtime, pair.http, SETTINGS).run_once()
    async with httpx.AsyncClient(transport=httpx.MockTransport(nobody)) as away:
        await CollectionDriver(pair.leader.runtime, away, SETTINGS).run_once()  # it is frozen
    assert await told(pair, after) == [ReportError.REPORT_TOO_EARLY]
    assert await told(pair, before) == []
    pair.clock.advance(60)  # when the helper is asked again
    assert (await pair.collect()).report_count == 3
    assert await told(pair, after) == [ReportError.BATCH_COLLECTED]
    assert await told(pair, before) == []
    pair.clock.advance(NOW - pair.clock.now())
    assert await told(pair, []) == [ReportError.BATCH_COLLECTED]


async def test_only_what_was_asked_for_is_closed_and_only_until_it_fails(pair: Pair) -> None:
    later = NOW + TIME_PRECISION
    pair.clock.advance(TIME_PRECISION)
    await pair.upload(await pair.reports([1] * 3))
    await pair.ask(pair.interval(NOW, 2))
    await pair.ask()
    assert len((await pair.upload(await pair.reports([1]))).status) == 1
    assert len((await pair.upload(await pair.reports([1], later))).status) == 1
    assert (await pair.upload(await pair.reports([1], NOW - TIME_PRECISION))).status == ()
    await pair.work_until_idle()
    assert len((await pair.upload(await pair.reports([1]))).status) == 1  # collected by one of them

    alone = await pair.reports([1], NOW - TIME_PRECISION)
    asked = await pair.ask(pair.interval(NOW - TIME_PRECISION))
    assert len((await pair.upload(alone)).status) == 1
    await CollectionDriver(pair.leader.runtime, pair.http, SETTINGS).run_once()
    failed = await pair.poll(asked.headers["location"])
    assert failed.problem_type == "invalidBatchSize"
    assert (await pair.upload(alone)).status == ()


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
