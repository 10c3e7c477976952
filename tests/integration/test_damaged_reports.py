"""Reports whose bodies are damaged in the leader's store after the helper was asked about them."""

import dataclasses
from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import select, update

from aggregator.dap.messages import Report
from aggregator.protocol.batches import Batch
from aggregator.protocol.buckets import merge_agg_shares
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.job_shares import leave_out
from aggregator.service.storage.operator.interventions import abandon_aggregation_job
from aggregator.service.storage.reports.giving_up import give_up_unreadable
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER
from tests.support.balance import check_books
from tests.support.between import Between
from tests.support.pair import Pair

ID_SIZE = 16

Spoil = Callable[[bytes, bytes], bytes | None]
"""What becomes of a stored body, given the id of the report that is meant."""


def _without(_body: bytes, _report_id: bytes) -> None:
    return None


def _cut(body: bytes, _report_id: bytes) -> bytes:
    return body[:-1]


def _of_another_id(body: bytes, report_id: bytes) -> bytes:
    return body.replace(report_id, bytes(ID_SIZE), 1)


def _of_another_share(body: bytes, report_id: bytes) -> bytes:
    last = body.index(report_id) + len(body) // 3 // 2  # of three reports; in the leader's share
    return body[:last] + bytes([body[last] ^ 1]) + body[last + 1 :]


async def ask(pair: Pair, between: Between, reports: list[Report]) -> None:
    """Let the helper count the reports, whose answer is lost."""
    await pair.upload(reports)

    def lost(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
        raise httpx.ReadError("the connection broke")

    between.change = lost
    await pair.work()
    between.change = None


async def spoil(pair: Pair, how: Spoil, report: Report) -> None:
    report_id, table = report.report_metadata.report_id.value, tables.report_bodies[0]

    def change(tx: Transaction) -> None:
        body: bytes = tx.connection.execute(select(table.c.body)).scalar_one()
        spoilt = how(body, report_id)
        statement = table.delete() if spoilt is None else update(table).values(body=spoilt)
        tx.connection.execute(statement)

    await pair.leader.database.run("spoil", change)


async def jobs(pair: Pair) -> list[tuple[str, bytes, str | None, bytes]]:
    job = tables.aggregation_jobs

    def read(tx: Transaction) -> list[tuple[str, bytes, str | None, bytes]]:
        rows = tx.connection.execute(select(job).order_by(job.c.id))
        return [(row.state, row.job_id, row.reason, row.request_sha256) for row in rows]

    return await pair.leader.database.read("jobs", read)


async def work_for_long(pair: Pair) -> None:
    for _ in range(6):
        await pair.work()
        pair.clock.advance(61)


async def give_up(pair: Pair) -> None:
    """Be the operator who gives up what cannot be read, and let the leader work on."""
    pair.clock.advance(3600)  # a driver that has just stopped holds its lease for a while
    give_up_unreadable(pair.leader.database)
    await work_for_long(pair)


def sealed_to_nobody(report: Report) -> Report:
    """Return a report of which the helper alone sees that it is wrong."""
    sealed = report.helper_encrypted_input_share
    wrong = dataclasses.replace(sealed, payload=bytes(len(sealed.payload)))
    return dataclasses.replace(report, helper_encrypted_input_share=wrong)


@pytest.mark.parametrize(
    ("how", "lost"),
    [(_without, 3), (_cut, 3), (_of_another_id, 1), (_of_another_share, 1)],
)
async def test_a_job_of_damaged_reports_that_the_helper_counted_waits_for_a_person(
    pair: Pair, between: Between, how: Spoil, lost: int
) -> None:
    reports = await pair.reports([3, 3, 3])
    await ask(pair, between, reports)
    await spoil(pair, how, reports[1])
    await work_for_long(pair)
    if how in (_without, _cut):  # they may be there again a minute later
        ((state, _, reason, _),) = await jobs(pair)
        assert (state, str(reason)[:22]) == ("sent", "the body of group 1 of")
        await give_up(pair)
    ((state, job_id, reason, digest),) = await jobs(pair)
    assert state == "held"
    assert str(reason).startswith(f"{lost} of the job's reports can no longer be read")
    assert pair.leader.counts(pair.task) == {}

    # A person gives the job up, at both aggregators; the others of the batch are counted once.
    await pair.upload(await pair.reports([0, 1]))
    task_id = pair.task.task_id.value
    vdaf = pair.task.vdaf(NO_PARAMETER)
    all_buckets = Batch(bytes(8), b"\xff" * 8)
    await pair.leader.database.run(
        "abandon", lambda tx: abandon_aggregation_job(tx, job_id, returned=False)
    )
    await pair.helper.database.run(
        "leave out",
        lambda tx: leave_out(
            tx,
            task_id,
            all_buckets,
            digest,
            lambda shares: vdaf.encode_agg_share(merge_agg_shares(vdaf, shares)),
        ),
    )
    result = await pair.collect()
    assert result.report_count == 2
    assert pair.leader.counts(pair.task) == {"aggregated": 2, "dropped_by_operator": 3}
    await pair.leader.database.run("books", lambda tx: check_books(tx, task_id))


@pytest.mark.parametrize(
    ("how", "why"),
    [(_of_another_id, "invalid_message"), (_of_another_share, "hpke_decrypt_error")],
)
async def test_a_job_goes_on_without_a_damaged_report_that_the_helper_rejected(
    pair: Pair, between: Between, how: Spoil, why: str
) -> None:
    reports = await pair.reports([0, 1, 2])
    reports[1] = sealed_to_nobody(reports[1])
    await ask(pair, between, reports)
    await spoil(pair, how, reports[1])
    await work_for_long(pair)
    assert pair.leader.counts(pair.task) == {"aggregated": 2, why: 1}
    assert (await pair.collect()).report_count == 2
    task_id = pair.task.task_id.value
    await pair.leader.database.run("books", lambda tx: check_books(tx, task_id))


async def test_a_job_of_nothing_but_reports_that_are_given_up_and_were_rejected_ends(
    pair: Pair, between: Between
) -> None:
    reports = [sealed_to_nobody(each) for each in await pair.reports([0, 1])]
    await ask(pair, between, reports)
    await spoil(pair, _without, reports[0])
    await work_for_long(pair)
    assert [state for state, *_ in await jobs(pair)] == ["sent"]
    await give_up(pair)
    assert [state for state, *_ in await jobs(pair)] == ["finished"]
    assert pair.leader.counts(pair.task) == {"invalid_message": 2}
