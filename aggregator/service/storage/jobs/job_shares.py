"""What each aggregation job added to the buckets that are not released yet, on both sides.

A shard of a bucket is the sum of its rows here, so a job can be left out of it as if it had never
been added. Rows are encrypted under the shard's key, and are destroyed with it when the bucket is
released.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import delete, insert, select, update

from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.service.storage.batches.closed import BatchClosed, closed_batches
from aggregator.service.storage.batches.sums import (
    StoredShard,
    replace_share,
    shard_cipher,
    shard_row,
    totals_columns,
    totals_of,
)
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.states import ANSWERED_JOB, ResourceState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.reports.counters import AGGREGATED, Stage, count_reports
from aggregator.service.storage.secrets.crypter import Crypter

LEFT_OUT = "left_out_by_operator"
"""The reason that counts reports of jobs that an operator left out of a batch."""


@dataclasses.dataclass(frozen=True, slots=True)
class JobShare:
    """What a job added to a bucket.

    Attributes:
        bucket: The bucket's key.
        job: SHA-256 of the job's request, 32 bytes.
        share: The encoded sum of its out shares.
        totals: What else is stated about its reports in the bucket.
    """

    bucket: bytes
    job: bytes
    share: bytes = dataclasses.field(repr=False)
    totals: BatchTotals


@dataclasses.dataclass(frozen=True, slots=True)
class CountedJob:
    """What a job added to a batch.

    Attributes:
        job: SHA-256 of its request, 32 bytes.
        totals: What is stated about its reports in the batch.
        counted_at: Seconds; when they were added.
    """

    job: bytes
    totals: BatchTotals
    counted_at: int


def put_job_shares(
    tx: Transaction,
    task_id: bytes,
    shares: Sequence[JobShare],
    ciphers: Mapping[bytes, Crypter] = MappingProxyType({}),
) -> None:
    """Store what a job added to some buckets, in the transaction that added it.

    A request whose answer was deleted may come again and add reports that were too early before:
    the sum of both is what it added.

    Args:
        tx: The transaction.
        task_id: The task.
        shares: What was added, to each bucket once.
        ciphers: What `accumulate` has returned; the keys of other buckets are looked up.
    """
    if not shares:
        return
    task = tx.task_key(task_id)
    shard = locks.own_shard(tx, task)
    rows = []
    for share in shares:
        cipher = ciphers.get(share.bucket)
        if cipher is None:
            cipher = shard_cipher(tx, task_id, share.bucket, shard)
        row = shard_row(task_id, share.bucket, shard) + share.job
        place = {"task": task, "bucket": share.bucket, "shard": shard, "job": share.job}
        sealed = cipher.encrypt("job_shares", row, "share", share.share)
        columns = totals_columns(share.totals)
        rows.append({**place, "share": sealed, "counted_at": tx.now, **columns})
    tx.run(_PUTTING, *rows)


_PUTTING = insert(tables.job_shares)


def list_counted_jobs(tx: Transaction, task_id: bytes, batch: Batch) -> list[CountedJob]:
    """Return the jobs that added to a batch, oldest first; none once it is released."""
    row = tables.job_shares.c
    query = (
        select(tables.job_shares)
        .where(row.task == tx.task_key(task_id), row.bucket.between(batch.first, batch.last))
        .order_by(row.counted_at, row.job)
    )
    counted: dict[bytes, CountedJob] = {}
    for each in tx.connection.execute(query):
        known = counted.get(each.job, CountedJob(each.job, BatchTotals(), each.counted_at))
        totals = known.totals + totals_of(each)
        counted[each.job] = dataclasses.replace(known, totals=totals)
    return list(counted.values())


def leave_out(
    tx: Transaction,
    task_id: bytes,
    batch: Batch,
    job: bytes,
    merge: Callable[[Sequence[bytes]], bytes],
) -> int:
    """Take what a job added out of the buckets of a batch; return how many reports that were.

    Their ids stay, so they are never counted again; neither is the helper's answer to the job given
    again, from which the leader would count them.

    Args:
        tx: The transaction.
        task_id: The task.
        batch: The batch, which is open.
        job: SHA-256 of the job's request.
        merge: Returns the encoded sum of encoded aggregate shares, which may be none.

    Raises:
        BatchClosed: The batch, or a part of it, is being collected or was.
    """
    locks.change_batches(tx, task_id)
    state = closed_batches(tx, task_id, batch).overall()
    if state is not None:
        raise tx.refuse(BatchClosed(state))
    task = tx.task_key(task_id)
    table = tables.job_shares
    of_job = (
        table.c.task == task,
        table.c.job == job,
        table.c.bucket.between(batch.first, batch.last),
    )
    query = select(table.c.bucket, table.c.shard, table.c.report_count).where(*of_job)
    left = tx.connection.execute(query).all()
    if not left:
        return 0
    tx.connection.execute(delete(table).where(*of_job))
    for bucket, shard in sorted({(row.bucket, row.shard) for row in left}):
        _sum_again(tx, task_id, bucket, shard, merge)
    reports: int = sum(row.report_count for row in left)
    count_reports(tx, task_id, Stage.AGGREGATION, {AGGREGATED: -reports, LEFT_OUT: reports})
    answered = tables.answered_jobs
    forgotten = ANSWERED_JOB.transition("delete_answered_job").target
    tx.connection.execute(
        update(answered)
        .where(
            answered.c.task == task,
            answered.c.body_sha256 == job,
            answered.c.state == ResourceState.LIVE,
        )
        .values(state=forgotten, response=None)
    )
    return reports


def _sum_again(
    tx: Transaction,
    task_id: bytes,
    bucket: bytes,
    shard: int,
    merge: Callable[[Sequence[bytes]], bytes],
) -> None:
    """Make a shard of a bucket the sum of the jobs that it has left."""
    row = tables.job_shares.c
    query = select(tables.job_shares).where(
        row.task == tx.task_key(task_id), row.bucket == bucket, row.shard == shard
    )
    rows = tx.connection.execute(query).all()
    cipher = shard_cipher(tx, task_id, bucket, shard)
    place = shard_row(task_id, bucket, shard)
    shares = [cipher.decrypt("job_shares", place + row.job, "share", row.share) for row in rows]
    totals = sum((totals_of(row) for row in rows), BatchTotals())
    replace_share(tx, task_id, StoredShard(bucket, shard, merge(shares), totals))
