"""Each task says for how long what ended of it is kept, or leaves that to the service."""

import dataclasses

import pytest
from sqlalchemy import func, select

from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.leftovers import delete_some_leftovers
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction, UnknownTask
from aggregator.service.storage.jobs.aggregate_shares import (
    NewAggregateShare,
    delete_aggregate_share,
    put_aggregate_share,
)
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    create_aggregation_job,
    finish_aggregation_job,
)
from aggregator.service.storage.jobs.answered_jobs import put_answered_job
from aggregator.service.storage.jobs.collection_jobs import (
    COLLECTION_JOBS,
    create_collection_job,
    fail_collection_job,
    finish_collection_job,
)
from aggregator.service.storage.jobs.job_shares import JobShare, put_job_shares
from aggregator.service.storage.reports.claims import JobSize, reports_of_job
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks import garbage
from aggregator.service.storage.tasks.garbage import collect_garbage
from aggregator.service.storage.tasks.tasks import get_task, keep_for, put_task
from tests.support.clock import ManualClock
from tests.support.store import (
    MAX_REPORTS,
    RESULT,
    TASK_ID,
    TENTH,
    add_to_bucket,
    adding,
    aggregate,
    collect,
    freeze_collection,
    leader_task,
    lease_collection,
    new_reports,
    report_id,
    totals,
    unit,
    units,
)

AGE = 1000
"""What the service says, in seconds."""

SHORT, LONG = b"\x01" * 32, b"\x02" * 32
"""Tasks that keep things for a tenth of that, and for ten times as long; `TASK_ID` says nothing."""

ALL = {SHORT, TASK_ID, LONG}
ENDED = {
    "aggregation_jobs",
    "aggregate_shares",
    "answered_jobs",
    "buckets",
    "collection_jobs",
}
"""The tables whose rows go."""


@pytest.fixture(autouse=True)
def _tasks(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "ROWS_PER_STEP", 2)

    def provision(tx: Transaction) -> None:
        for task_id, seconds in ((SHORT, AGE // 10), (LONG, 10 * AGE)):
            put_task(tx, dataclasses.replace(leader_task(), task_id=task_id))
            keep_for(tx, task_id, seconds)

    store.run_sync("provision", provision)


def live(store: Database, task_id: bytes) -> None:
    """Let two of everything end that a leader and a helper keep of a task."""
    for number in range(2):
        for work in (aggregate_one, fail_a_collection, answer, share):
            store.run_sync("live", lambda tx, w=work, n=number: w(tx, task_id, n))
    batch = units(0, 2)
    store.run_sync("collect", lambda tx: mark_collected(tx, task_id, batch))
    while store.run_sync("leftovers", delete_some_leftovers):
        pass


def aggregate_one(tx: Transaction, task_id: bytes, number: int) -> None:
    assert put_reports(tx, task_id, new_reports([number], number), MAX_REPORTS) == [None]
    assert create_aggregation_job(tx, task_id, JobSize(1, 100)) is not None
    (leased,) = AGGREGATION_JOBS.lease(tx, 1, 60, task_id)
    ids = reports_of_job(tx, leased.job.key).ids
    add_to_bucket(tx, task_id, unit(number), adding(1), totals(ids, number))
    finish_aggregation_job(tx, leased.lease, ids, {})


def fail_a_collection(tx: Transaction, task_id: bytes, number: int) -> None:
    create_collection_job(tx, task_id, b"request %d" % number, units(50 + number, 60))
    (leased,) = COLLECTION_JOBS.lease(tx, 1, 60, task_id)
    fail_collection_job(tx, leased.lease, "{}")


def answer(tx: Transaction, task_id: bytes, number: int) -> None:
    put_answered_job(tx, task_id, bytes([number]) * 32, b"answer")


def share(tx: Transaction, task_id: bytes, number: int) -> None:
    batch = units(20 + 2 * number, 21 + 2 * number)
    new = NewAggregateShare(b"selector %d" % number, bytes(32), b"sealed", batch, 1)
    stored = put_aggregate_share(tx, task_id, new, TENTH)
    delete_aggregate_share(tx, task_id, stored.share_id)


def collect_all(store: Database) -> None:
    while store.run_sync("garbage", lambda tx: collect_garbage(tx, AGE)):
        pass


def counts(store: Database) -> dict[bytes, dict[str, int]]:
    """Return how many rows of each table each task has, if any."""

    def count(tx: Transaction) -> dict[bytes, dict[str, int]]:
        found: dict[bytes, dict[str, int]] = {}
        for table in tables.metadata.sorted_tables:
            if "task" in table.c:
                task = tables.tasks.c
                joined = table.join(tables.tasks, task.id == table.c.task)
                query = select(task.task_id, func.count()).select_from(joined)
                for task_id, rows in tx.connection.execute(query.group_by(task.task_id)):
                    found.setdefault(task_id, {})[table.name] = rows
        return found

    return store.read_sync("count", count)


def keeping(store: Database) -> set[bytes]:
    """Return which tasks still have all that ended; each has all of it or nothing."""
    found = {task_id: ENDED & rows.keys() for task_id, rows in counts(store).items()}
    assert all(names in (set(), ENDED) for names in found.values()), found
    return {task_id for task_id, names in found.items() if names}


def test_what_ended_goes_when_its_own_task_says(store: Database, clock: ManualClock) -> None:
    for task_id in ALL:
        live(store, task_id)
    collect_all(store)  # counts of reports that wait no more, which nobody keeps
    before = counts(store)
    passed = 0
    for seconds, left in (
        (AGE // 10, ALL),
        (AGE // 10 + 1, {TASK_ID, LONG}),
        (AGE, {TASK_ID, LONG}),
        (AGE + 1, {LONG}),
        (10 * AGE, {LONG}),
        (10 * AGE + 1, set()),
    ):
        clock.advance(seconds - passed)
        passed = seconds
        collect_all(store)
        assert keeping(store) == left
        kept = {task_id: counts(store)[task_id] for task_id in left}
        assert kept == {task_id: before[task_id] for task_id in left}


def test_another_time_counts_from_then_on(store: Database, clock: ManualClock) -> None:
    for task_id in ALL:
        live(store, task_id)
    store.run_sync("longer", lambda tx: keep_for(tx, SHORT, 2 * AGE))
    clock.advance(AGE // 10 + 1)
    collect_all(store)
    assert keeping(store) == ALL
    store.run_sync("as the service", lambda tx: keep_for(tx, LONG, None))
    collect_all(store)
    assert keeping(store) == ALL
    clock.advance(AGE)
    collect_all(store)
    assert keeping(store) == {SHORT}
    store.run_sync("shorter", lambda tx: keep_for(tx, SHORT, 0))
    collect_all(store)
    assert keeping(store) == set()


@pytest.mark.slow
def test_what_must_stay_stays_if_nothing_is_kept(store: Database, clock: ManualClock) -> None:
    store.run_sync("nothing", lambda tx: keep_for(tx, TASK_ID, 0))
    aggregate(store, [1], time=2)
    collect(store)
    leased = lease_collection(store)
    freeze_collection(store, leased)
    store.run_sync("finish", lambda tx: finish_collection_job(tx, leased.lease, RESULT))
    aggregate(store, [2], time=30)
    counted = JobShare(unit(30), b"\x03" * 32, b"share", totals([report_id(2)], 30))
    store.run_sync("share", lambda tx: put_job_shares(tx, TASK_ID, [counted]))
    store.run_sync("answer", lambda tx: answer(tx, TASK_ID, 3))
    store.run_sync("report", lambda tx: put_reports(tx, TASK_ID, new_reports([3], 30), MAX_REPORTS))
    store.run_sync("job", lambda tx: create_aggregation_job(tx, TASK_ID, JobSize(1, 100)))
    while store.run_sync("leftovers", delete_some_leftovers):
        pass
    before = counts(store)[TASK_ID]
    clock.advance(AGE + 1)
    collect_all(store)
    gone = {"aggregation_jobs": 2, "buckets": 1, "waiting_reports": 1}  # of the released batch
    after = {name: rows - gone.get(name, 0) for name, rows in before.items()}
    assert counts(store)[TASK_ID] == after
    assert min(after.values()) > 0
    stays = ("answered_jobs", "closed_batches", "collection_jobs", "ledger", "report_ids")
    assert set(stays) < after.keys()


def test_a_task_that_is_unknown_has_no_time(store: Database) -> None:
    with pytest.raises(UnknownTask):
        store.run_sync("keep", lambda tx: keep_for(tx, bytes(32), 0))
    task = store.read_sync("task", lambda tx: get_task(tx, SHORT))
    assert task is not None
    assert task.retention_seconds == AGE // 10
