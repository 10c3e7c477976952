"""A store with one task, and short versions of what drivers do to it."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

from sqlalchemy import func, select

from aggregator.clock import Clock
from aggregator.dap.times import Interval
from aggregator.dp.filters import cost_of_dp
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.protocol.time_interval import batch_of_interval
from aggregator.service.storage.batches.sums import Addition, accumulate, read_shards
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database, OnTransaction
from aggregator.service.storage.engine.objects import Objects
from aggregator.service.storage.engine.tables import aggregated_reports
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    AggregationJob,
    create_aggregation_job,
    finish_aggregation_job,
    store_request,
)
from aggregator.service.storage.jobs.collection_jobs import (
    COLLECTION_JOBS,
    CollectionJob,
    CollectionResult,
    create_collection_job,
    freeze_collection_job,
)
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.storage.ledger.charges import Charge
from aggregator.service.storage.reports.claims import JobReports, JobSize, reports_of_job
from aggregator.service.storage.reports.generations import (
    TURN_SECONDS,
    UNUSED_SECONDS,
    rotate_generations,
)
from aggregator.service.storage.reports.groups import StoredReport, as_groups, bodies
from aggregator.service.storage.reports.ids import admit
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.tasks import TaskRecord, keep_for, put_task
from tests.support.clock import ManualClock
from tests.support.empty_store import upgraded, url_of

TASK_ID = bytes(range(32))
VERIFY_KEY = b"a verify key of thirty-two bytes"
TOKEN = "the token that only the helper may see"  # noqa: S105  a test's token
STORE_KEY = bytes(32)
TENTH = Charge("PureDpDiscreteLaplace", cost_of_dp(Fraction(1, 10)), "patients")
MAX_REPORTS = 1000
RESULT = CollectionResult(3, Interval.of(5, 3), b"leader's sealed share", b"helper's sealed share")


def make_store(
    path: Path,
    clock: Clock | None = None,
    on_transaction: OnTransaction | None = None,
    objects: Objects | None = None,
) -> Database:
    """Return the store in `path`, made with one task of a leader if it does not exist."""
    url = store_url(path)
    upgraded(url)
    database = Database.open(url, Crypter([STORE_KEY]), clock, objects=objects)
    database.run_sync("provision", lambda tx: put_task(tx, leader_task()))
    if on_transaction is None:
        return database
    database.close()
    return Database.open(url, Crypter([STORE_KEY]), clock, on_transaction, objects=objects)


def store_url(path: Path) -> str:
    return url_of(stored_in(path))


def stored_in(path: Path) -> Path:
    """Return by which path the store in a folder is named."""
    return path / "store.sqlite"


def leader_task() -> TaskRecord:
    return TaskRecord(TASK_ID, "leader", "version = 1", VERIFY_KEY, peer_token=TOKEN)


def keep_for_longest(tx: Transaction, task_id: bytes, seconds: int) -> None:
    """Keep a task's rows for ten times as long as is usual; add ten tasks with less."""
    for number in range(1, 11):
        other = bytes([number]) * 32
        put_task(tx, dataclasses.replace(leader_task(), task_id=other))
        keep_for(tx, other, seconds // number)
    keep_for(tx, task_id, 10 * seconds)


def report_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def new_reports(numbers: Iterable[int], time: int = 5) -> list[StoredReport]:
    return [StoredReport(report_id(number), unit(time), 0, body_of(number)) for number in numbers]


def body_of(number: int) -> bytes:
    """Return what stands for an encoded Report: its id, and more."""
    return report_id(number) + b"body"


BODY_SIZE = len(body_of(0))


def unit(time: int) -> bytes:
    """Return the key of the bucket of one unit of time."""
    return units(time, time + 1).first if time < 2**64 - 1 else b"\xff" * 8


def units(start: int, end: int) -> Batch:
    """Return the batch of the units of time from `start` up to, but not including, `end`."""
    return batch_of_interval(Interval.of(start, end - start))


def totals(report_ids: Iterable[bytes], time: int = 5) -> BatchTotals:
    """Return the totals of reports with the same time."""
    report_ids = [*report_ids]
    return BatchTotals.of(report_ids, [time] * len(report_ids))


def checksum(report_ids: Iterable[bytes]) -> bytes:
    digest = bytes(32)
    for one in report_ids:
        other = hashlib.sha256(one).digest()
        digest = bytes(a ^ b for a, b in zip(digest, other, strict=True))
    return digest


def adding(number: int) -> Callable[[bytes | None], bytes]:
    """Return a merge that adds `number` to a share, which is a decimal numeral."""
    return lambda share: str(int(share or b"0") + number).encode()


def rotate_all(store: Database, clock: ManualClock) -> int:
    """Let minutes pass in which bodies of no use are deleted; return in how many steps."""
    steps, rounds = 0, 0
    while rounds < 2 * tables.GENERATIONS:
        if store.run_sync("turn", rotate_generations):
            steps += 1
        else:
            clock.advance(max(TURN_SECONDS, UNUSED_SECONDS))
            rounds += 1
    return steps


def bodies_left(store: Database) -> int:
    """Return how many bodies of groups the store has, of use or not."""
    return sum(
        store.read_sync(
            "bodies", lambda tx, t=table: tx.connection.scalar(select(func.count(t.c.report_group)))
        )
        for table in tables.report_bodies
    )


def count_bodiless(tx: Transaction) -> int:
    """Return how many groups have no body where they say it is."""
    group, missing = tables.report_groups.c, 0
    for generation, table in enumerate(tables.report_bodies):
        query = (
            select(func.count())
            .select_from(tables.report_groups.outerjoin(table, table.c.report_group == group.id))
            .where(group.generation == generation, table.c.report_group.is_(None))
        )
        missing += tx.connection.execute(query).scalar_one()
    return missing


def add_to_bucket(
    tx: Transaction,
    task_id: bytes,
    bucket: bytes,
    merge: Callable[[bytes | None], bytes],
    totals: BatchTotals,
) -> None:
    accumulate(tx, task_id, [Addition(bucket, merge, totals)])


def in_shard(tx: Transaction, shard: int) -> None:
    """Let the transaction write to this shard, as if others had the ones before it."""
    tx.shards[tx.task_key(TASK_ID)] = shard


def record_fresh(tx: Transaction, ids: list[bytes]) -> list[bytes]:
    """Remember that the reports are in a bucket; return those that are new."""
    arrivals = [(one, unit(5)) for one in ids]
    errors = admit(tx, aggregated_reports, TASK_ID, arrivals, [0] * len(ids), (), {})
    return [one for one, error in zip(ids, errors, strict=True) if error is None]


def read_shares(tx: Transaction, task_id: bytes, batch: Batch) -> list[bytes]:
    """Return the un-noised shares of the batch's buckets, of each shard."""
    return [each.share for each in read_shards(tx, task_id, batch, limit=10**6)]


def upload(store: Database, numbers: Iterable[int], time: int = 5) -> None:
    sent = new_reports(numbers, time)
    store.run_sync("upload", lambda tx: put_reports(tx, TASK_ID, sent, MAX_REPORTS))


def stored(store: Database) -> int:
    """Return how many reports are stored and not in a job."""
    return store.read_sync("count", lambda tx: unclaimed_reports(tx, TASK_ID))


def create_job(
    store: Database, limit: int = 100, stored_bytes: int = 10_000, *, only_full: bool = False
) -> AggregationJob | None:
    size = JobSize(limit, stored_bytes)
    return store.run_sync(
        "create", lambda tx: create_aggregation_job(tx, TASK_ID, size, only_full=only_full)
    )


def unclaimed_reports(tx: Transaction, task_id: bytes) -> int:
    """Return how many reports of a task wait for an aggregation job."""
    group = tables.report_groups.c
    query = select(func.coalesce(func.sum(group.reports), 0))
    of_task = query.where(group.task == tx.task_key(task_id), group.job.is_(None))
    return int(tx.connection.execute(of_task).scalar_one())


def job_reports(tx: Transaction, job: int) -> list[StoredReport]:
    """Return the reports of a job, each with its bucket."""
    table = tables.report_groups
    groups = as_groups(tx.connection.execute(table.select().where(table.c.job == job)))
    read = bodies(tx, groups)
    buckets = {
        read[each.id][place * each.width :][:16]: each.bucket
        for each in groups
        for place in each.places
    }
    found = reports_of_job(tx, job)
    return [
        StoredReport(each, buckets[each], 0, body)
        for each, body in zip(found.ids, pieces(found), strict=True)
    ]


def pieces(reports: JobReports) -> list[bytes]:
    """Return the bodies of a job's reports."""
    width = reports.width
    return [reports.body[place * width :][:width] for place in range(len(reports))]


def reports_in(store: Database, job: int) -> list[StoredReport]:
    return store.read_sync("read", lambda tx: job_reports(tx, job))


def lease_job(store: Database, seconds: int = 60) -> Leased[AggregationJob]:
    (leased,) = store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, seconds))
    return leased


def finish_job(store: Database, leased: Leased[AggregationJob]) -> None:
    """Send the job and aggregate all of its reports, each with a share of one."""
    if leased.job.request is None:
        store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"request", {}))

    def finish(tx: Transaction) -> None:
        reports = job_reports(tx, leased.job.key)
        for bucket in {report.bucket for report in reports}:
            ids = [report.report_id for report in reports if report.bucket == bucket]
            time = int.from_bytes(bucket, "big")
            add_to_bucket(tx, TASK_ID, bucket, adding(len(ids)), totals(ids, time))
        finish_aggregation_job(tx, leased.lease, [report.report_id for report in reports], {})

    store.run_sync("finish", finish)


def aggregate(store: Database, numbers: Iterable[int], time: int = 5) -> None:
    """Upload the reports and aggregate them in one job."""
    upload(store, numbers, time)
    create_job(store)
    finish_job(store, lease_job(store))


def collect(store: Database, request: bytes = b"collect", start: int = 0, end: int = 10) -> bytes:
    """Ask for a collection and return the job's id."""
    return store.run_sync(
        "collect", lambda tx: create_collection_job(tx, TASK_ID, request, units(start, end))
    ).job_id


def lease_collection(store: Database, seconds: int = 60) -> Leased[CollectionJob]:
    (leased,) = store.run_sync("lease", lambda tx: COLLECTION_JOBS.lease(tx, 1, seconds))
    return leased


def freeze_collection(store: Database, leased: Leased[CollectionJob]) -> None:
    store.run_sync(
        "freeze", lambda tx: freeze_collection_job(tx, leased.lease, b"share request", TENTH)
    )
