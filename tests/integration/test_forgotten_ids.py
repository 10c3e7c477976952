"""A report is counted once, also when its id is long forgotten."""

import dataclasses

from sqlalchemy import func, select

from aggregator.codec import decode, encode
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    UploadRequest,
    VerifyRespReject,
)
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.protocol.reports import HELPER_MAX_AGE_SECONDS, MAX_AGE_SECONDS
from aggregator.service.runtime.report_ages import forget_old_ids
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from tests.support.between import Between
from tests.support.helper_jobs import send_job
from tests.support.pair import Pair, Service

WHILE = 31 * DAY
"""More than a month, after which ids are looked at."""


async def forget(pair: Pair) -> None:
    """Let both aggregators forget what is old enough, as their services do every hour."""
    await forget_old_ids(pair.leader.runtime, MAX_AGE_SECONDS)
    await forget_old_ids(pair.helper.runtime, HELPER_MAX_AGE_SECONDS)


async def pass_time(pair: Pair, seconds: int) -> None:
    """Let time pass with services that forget, month by month."""
    for passed in range(0, seconds, WHILE):
        pair.clock.advance(min(WHILE, seconds - passed))
        await forget(pair)


def ids(service: Service) -> int:
    """Return how many ids a service remembers."""

    def count(tx: Transaction) -> int:
        each = (tables.report_ids, tables.aggregated_reports)
        return sum(
            tx.connection.execute(select(func.count()).select_from(one)).scalar_one()
            for one in each
        )

    return service.database.read_sync("count", count)


async def test_reports_are_refused_for_their_age_once_their_ids_are_forgotten(
    pair: Pair, between: Between
) -> None:
    await forget(pair)
    reports = await pair.reports([0, 1, 2])
    await pair.upload(reports)
    await pair.work_until_idle()
    (job,) = between.posts
    assert (ids(pair.leader), ids(pair.helper)) == (3, 3)

    await pass_time(pair, MAX_AGE_SECONDS - DAY)
    assert (ids(pair.leader), ids(pair.helper)) == (3, 3)
    assert (await pair.upload(reports)).status == ()  # replays are nothing new

    await pass_time(pair, WHILE)
    assert (ids(pair.leader), ids(pair.helper)) == (0, 3)
    errors = (await pair.upload(reports)).status
    assert [DAP_18.report_error(each.error) for each in errors] == [ReportError.REPORT_DROPPED] * 3

    await pass_time(pair, MAX_AGE_SECONDS)
    assert (ids(pair.leader), ids(pair.helper)) == (0, 0)
    sent = decode(AggregationJobInitReq, job)
    another = encode(dataclasses.replace(sent, verify_inits=sent.verify_inits[:2]))
    answer = await send_job(pair, another)
    answers = decode(AggregationJobResp, answer.body).verify_resps
    dropped = DAP_18.code(ReportError.REPORT_DROPPED)
    ids_sent = [each.report_metadata.report_id for each in reports[:2]]
    assert answers == tuple(VerifyRespReject(each, dropped) for each in ids_sent)
    assert pair.helper.counts(pair.task)["aggregated"] == 3


async def test_a_clock_that_was_ahead_lets_no_forgotten_report_in(pair: Pair) -> None:
    await forget(pair)
    reports = await pair.reports([0, 1, 2])
    await pair.upload(reports)
    await pair.work_until_idle()
    await pass_time(pair, 2 * HELPER_MAX_AGE_SECONDS)
    assert ids(pair.leader) == 0
    pair.clock.advance(-2 * HELPER_MAX_AGE_SECONDS)
    body = encode(UploadRequest(tuple(reports)))
    answer = await pair.send("POST", pair.url_of("reports"), UploadRequest.message, body)
    assert answer.status == 503
    errors = (await pair.upload(reports)).status
    assert [DAP_18.report_error(each.error) for each in errors] == [ReportError.REPORT_DROPPED] * 3
    assert pair.leader.counts(pair.task)["aggregated"] == 3


async def test_a_clock_that_is_years_ahead_for_a_moment_stops_no_task(pair: Pair) -> None:
    await pass_time(pair, WHILE)
    pair.clock.advance(20 * HELPER_MAX_AGE_SECONDS)
    await forget(pair)
    pair.clock.advance(-20 * HELPER_MAX_AGE_SECONDS)
    body = encode(UploadRequest(tuple(await pair.reports([0, 1, 2]))))
    answers = [
        await pair.send("POST", pair.url_of("reports"), UploadRequest.message, body)
        for _ in range(2)
    ]
    # Old reports are not taken any more, which the first request is not told.
    assert [answer.status for answer in answers] == [503, 200]
    assert not answers[1].body
    await pair.work_until_idle()
    assert (
        pair.leader.counts(pair.task)["aggregated"]
        == pair.helper.counts(pair.task)["aggregated"]
        == 3
    )


async def test_a_raised_limit_lets_no_forgotten_report_in(pair: Pair) -> None:
    lower = MAX_AGE_SECONDS // 2
    await forget(pair)
    reports = await pair.reports([0, 1, 2])
    await pair.upload(reports)
    await pair.work_until_idle()
    for _ in range(0, lower + 2 * WHILE, WHILE):
        pair.clock.advance(WHILE)
        await forget_old_ids(pair.leader.runtime, lower)
    assert ids(pair.leader) == 0
    # The service takes reports of twice that age, as if the limit had been raised since.
    body = encode(UploadRequest(tuple(reports)))
    answer = await pair.send("POST", pair.url_of("reports"), UploadRequest.message, body)
    assert answer.status == 503
    errors = (await pair.upload(reports)).status
    assert [DAP_18.report_error(each.error) for each in errors] == [ReportError.REPORT_DROPPED] * 3
    assert (await pair.upload(await pair.reports([1], pair.clock.now()))).status == ()
