"""An id is remembered with the day of its report's time, which only the client can change."""

import dataclasses
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from aggregator.codec import encode
from aggregator.dap.messages import Report
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import Stage, report_counts
from tests.support.balance import check_books
from tests.support.entropy import SeededEntropy
from tests.support.helper_jobs import errors_of, send_job
from tests.support.pair import NOW, Pair, Service
from tests.support.tasks import NO_NOISE, make_task

COUNT = {"type": "Prio3Count"}
MODES = ("time_interval", "leader_selected")
REPLAYED = ReportError.REPORT_REPLAYED


@pytest.fixture(params=MODES)
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    task = make_task(COUNT, NO_NOISE, batch_mode=request.param, min_batch_size=5)
    async with Pair(tmp_path, task) as made:
        yield made


async def reports_of(pair: Pair, seed: bytes, seconds: int, count: int = 1) -> list[Report]:
    """Make reports whose ids depend on the seed alone, as a client may that does what it likes."""
    pair.client_entropy = SeededEntropy(seed)
    return await pair.reports([1] * count, seconds)


def counts(service: Service, pair: Pair) -> dict[str, int]:
    """Return how many reports had which outcome at an aggregator, and check the leader's books."""

    def look(tx: Transaction) -> dict[str, int]:
        if service is pair.leader:
            check_books(tx, pair.task.task_id.value)
        return report_counts(tx, pair.task.task_id.value, Stage.AGGREGATION)

    return {why: n for why, n in service.database.read_sync("look", look).items() if n}


async def job(pair: Pair, reports: Sequence[Report], batch: bytes = b"a") -> bytes:
    """Return the request of a leader that puts these reports into a batch, if it selects them."""
    extensions = pair.task.batching.job_extensions(batch * 32)
    return await pair.job(reports, pair.clock.now(), extensions)


@pytest.mark.parametrize("pair", ["leader_selected"], indirect=True)
async def test_a_leader_that_offers_one_report_to_two_batches_has_it_counted_in_one(
    pair: Pair,
) -> None:
    reports = await reports_of(pair, b"one", NOW, 3)
    assert errors_of((await send_job(pair, await job(pair, reports))).body) == [None] * 3
    for batch in (b"b", b"c"):
        answer = await send_job(pair, await job(pair, reports, batch))
        assert errors_of(answer.body) == [REPLAYED] * 3
    assert counts(pair.helper, pair) == {"aggregated": 3, "report_replayed": 6}


@pytest.mark.parametrize("days", [-1, 1, 300])
async def test_a_report_whose_time_is_changed_on_its_way_opens_nowhere(
    pair: Pair, days: int
) -> None:
    """Its time is authenticated with both ciphertexts: no replay has another one."""
    reports = await reports_of(pair, b"one", NOW, 2)
    body = await job(pair, reports)
    assert errors_of((await send_job(pair, body)).body) == [None] * 2
    pair.clock.advance(301 * DAY)
    other = pair.task.time(NOW + days * DAY)
    for report in reports:
        metadata = encode(report.report_metadata)
        assert body.count(metadata) == 1
        body = body.replace(
            metadata, encode(dataclasses.replace(report.report_metadata, time=other))
        )
    answer = await send_job(pair, body)
    assert errors_of(answer.body) == [ReportError.HPKE_DECRYPT_ERROR] * 2
    # A leader that was given the report so finds the same, whose answer to the upload is of before.
    changed = [
        dataclasses.replace(
            each, report_metadata=dataclasses.replace(each.report_metadata, time=other)
        )
        for each in reports
    ]
    assert (await pair.upload(changed)).status == ()
    await pair.work_until_idle()
    assert counts(pair.leader, pair) == {"hpke_decrypt_error": 2}
    assert counts(pair.helper, pair) == {"aggregated": 2, "hpke_decrypt_error": 2}


async def test_two_reports_with_one_id_and_times_of_two_days_are_two_reports(pair: Pair) -> None:
    first = await reports_of(pair, b"one", NOW - DAY)
    second = await reports_of(pair, b"one", NOW)
    assert first[0].report_metadata.report_id == second[0].report_metadata.report_id
    for reports in (first, second):
        assert (await pair.upload(reports)).status == ()
        await pair.work_until_idle()
    for reports in (second, first):  # replays of either are told as usual, and are nothing new
        assert (await pair.upload(reports)).status == ()
    await pair.work_until_idle()
    for service in (pair.leader, pair.helper):
        assert counts(service, pair) == {"aggregated": 2}


async def test_two_reports_with_one_id_in_one_job_cost_no_other_report(pair: Pair) -> None:
    """A helper refuses a job that names an id twice, so the leader sends the first alone."""
    twins = [*await reports_of(pair, b"one", NOW - DAY), *await reports_of(pair, b"one", NOW)]
    honest = await reports_of(pair, b"other", NOW - DAY, 3)
    assert (await pair.upload([*twins, *honest])).status == ()
    await pair.work_until_idle()
    assert counts(pair.leader, pair) == {"aggregated": 4, "report_replayed": 1}
    assert counts(pair.helper, pair) == {"aggregated": 4}
    await pair.upload([*twins, *honest])
    await pair.work_until_idle()
    assert counts(pair.helper, pair) == {"aggregated": 4}


async def test_one_id_and_two_times_of_one_day_count_once(pair: Pair) -> None:
    midnight = NOW // DAY * DAY
    times = (midnight - DAY, midnight - DAY + 7200)
    assert len({pair.task.time(each) for each in times}) == 2
    for seconds in times:
        await pair.upload(await reports_of(pair, b"one", seconds))
        await pair.work_until_idle()
    for service in (pair.leader, pair.helper):
        assert counts(service, pair) == {"aggregated": 1}
