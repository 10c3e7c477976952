"""What is old and of no use is deleted in steps, and a task as a whole when it is forgotten."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select

from aggregator.protocol.batches import Batch
from aggregator.protocol.groups import cost_of_a_person
from aggregator.service.storage.batches.closed import closed_batches, mark_collected
from aggregator.service.storage.batches.leftovers import delete_some_leftovers, has_leftovers
from aggregator.service.storage.batches.selected import batch_with_room, next_batch
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import BatchState
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
from aggregator.service.storage.jobs.answered_jobs import find_answered_job, put_answered_job
from aggregator.service.storage.jobs.collection_jobs import (
    delete_collection_job,
    fail_collection_job,
    finish_collection_job,
    get_collection_job,
)
from aggregator.service.storage.jobs.job_shares import JobShare, put_job_shares
from aggregator.service.storage.ledger.charges import costs_in, list_ledger
from aggregator.service.storage.reports.claims import JobSize, reports_of_job
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.reports.waiting import count_waiting, waiting_buckets
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks import forgetting, garbage
from aggregator.service.storage.tasks.caller_tokens import put_caller_token
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.garbage import collect_garbage
from aggregator.service.storage.tasks.tasks import (
    end_task,
    get_task,
    list_all_tasks,
    list_tasks,
    put_task,
)
from tests.support.clock import ManualClock
from tests.support.raw_bytes import keys_in
from tests.support.store import (
    RESULT,
    STORE_KEY,
    TASK_ID,
    TENTH,
    add_to_bucket,
    adding,
    aggregate,
    bodies_left,
    body_of,
    collect,
    freeze_collection,
    in_shard,
    leader_task,
    lease_collection,
    report_id,
    rotate_all,
    store_url,
    totals,
    unit,
    units,
    upload,
)

AGE = 1000


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(forgetting, "ROWS_PER_STEP", 2)


def collect_all(store: Database) -> int:
    steps = 0
    while store.run_sync("garbage", lambda tx: collect_garbage(tx, AGE)):
        steps += 1
    return steps


def rows(store: Database) -> dict[str, int]:
    """Return how many rows each table has, if any."""

    def count() -> dict[str, int]:
        return store.read_sync(
            "count",
            lambda tx: {
                table.name: tx.connection.execute(
                    select(func.count()).select_from(table)
                ).scalar_one()
                for table in tables.metadata.sorted_tables
            },
        )

    return {name: number for name, number in count().items() if number}


def release(store: Database) -> bytes:
    """Collect units 0 to 9 as a leader does, to the end."""
    job_id = collect(store)
    leased = lease_collection(store)
    freeze_collection(store, leased)
    store.run_sync("finish", lambda tx: finish_collection_job(tx, leased.lease, RESULT))
    while store.read_sync("left", has_leftovers):
        store.run_sync("leftovers", delete_some_leftovers)
    return job_id


def test_jobs_and_counts_go_when_they_are_old_and_results_when_they_were_deleted(
    store: Database, clock: ManualClock
) -> None:
    for number in range(4):
        aggregate(store, [number], time=number)
    job_id = release(store)
    clock.advance(AGE)
    assert collect_all(store) == 2  # counts of reports that wait no more
    clock.advance(1)
    before = rows(store)
    assert (before["aggregation_jobs"], before["buckets"], before["collection_jobs"]) == (4, 4, 1)
    gone = {"aggregation_jobs", "buckets"}
    assert collect_all(store) == 2 * len(gone)
    after = rows(store)
    assert after == {name: count for name, count in before.items() if name not in gone}
    job = store.read_sync("job", lambda tx: get_collection_job(tx, TASK_ID, job_id))
    assert job is not None
    assert job.result == RESULT
    store.run_sync("delete", lambda tx: delete_collection_job(tx, TASK_ID, job_id))
    clock.advance(AGE + 1)
    assert collect_all(store) == 1
    assert "collection_jobs" not in rows(store)


def test_counts_of_what_waited_go_with_all_shards_of_a_bucket_or_not_at_all(
    store: Database,
) -> None:
    def wait(tx: Transaction, shard: int, change: dict[bytes, int]) -> None:
        in_shard(tx, shard)
        count_waiting(tx, tx.task_key(TASK_ID), change)

    for shard, reports in enumerate((5, -3, -2)):
        change = dict.fromkeys(map(unit, (1, 2, 3, 20)), reports) | {unit(4): 1}
        store.run_sync("wait", lambda tx, s=shard, c=change: wait(tx, s, c))
    collect_all(store)
    left = dict(store.read_sync("waiting", lambda tx: waiting_buckets(tx, TASK_ID)))
    assert left == {unit(4): 3}
    assert rows(store)["waiting_reports"] == 3


def test_a_failed_collection_goes_unless_its_batch_could_be_selected_again(
    store: Database, clock: ManualClock
) -> None:
    for first, last in ((0, 10), (5, 6), (7, 8)):
        collect(store, b"%d to %d" % (first, last), first, last)
        leased = lease_collection(store)
        store.run_sync("fail", lambda tx, held=leased: fail_collection_job(tx, held.lease, "{}"))
    aggregate(store, [1], time=5)
    clock.advance(AGE + 1)
    collect_all(store)
    assert rows(store)["collection_jobs"] == 1
    collect(store, b"5 to 6", 5, 6)
    freeze_collection(store, leased := lease_collection(store))
    store.run_sync("finish", lambda tx: finish_collection_job(tx, leased.lease, RESULT))
    collect_all(store)
    assert rows(store)["collection_jobs"] == 1, "the finished one only"


def test_so_does_one_that_the_collector_has_deleted(store: Database, clock: ManualClock) -> None:
    aggregate(store, [1], time=5)
    job_id = collect(store, b"5 to 6", 5, 6)
    leased = lease_collection(store)
    store.run_sync("fail", lambda tx: fail_collection_job(tx, leased.lease, "{}"))
    store.run_sync("delete", lambda tx: delete_collection_job(tx, TASK_ID, job_id))
    clock.advance(AGE + 1)
    collect_all(store)
    assert store.read_sync("next", next_batch_if_any) is None


def next_batch_if_any(tx: Transaction) -> Batch | None:
    """Return which batch a leader would select that selects batches of one report."""
    return next_batch(tx, TASK_ID, 1)


def test_of_the_jobs_of_a_leader_that_selects_batches_those_of_the_newest_stay(
    store: Database, clock: ManualClock
) -> None:
    def fill(tx: Transaction, number: int) -> None:
        put_reports(tx, TASK_ID, [StoredReport(report_id(number), b"", 0, body_of(number))], 100)
        bucket, room = batch_with_room(tx, TASK_ID, 2)
        assert room == 2 - number % 2
        create_aggregation_job(tx, TASK_ID, JobSize(1, 100), bucket=bucket)

    def finish(tx: Transaction) -> None:
        (leased,) = AGGREGATION_JOBS.lease(tx, 1, 60)
        ids = reports_of_job(tx, leased.job.key).ids
        add_to_bucket(tx, TASK_ID, leased.job.bucket, adding(1), totals(ids))
        finish_aggregation_job(tx, leased.lease, ids, {})

    for number in range(7):
        store.run_sync("fill", lambda tx, n=number: fill(tx, n))
        store.run_sync("finish", finish)
    newest = store.read_sync("newest", newest_bucket)
    clock.advance(AGE + 1)
    collect_all(store)
    assert rows(store)["aggregation_jobs"] == 1
    assert store.read_sync("newest", newest_bucket) == newest
    store.run_sync("fill", lambda tx: fill(tx, 7))  # into the same batch
    assert store.read_sync("newest", newest_bucket) == newest


def newest_bucket(tx: Transaction) -> bytes:
    found: list[bytes | None] = list(
        tx.connection.execute(select(tables.aggregation_jobs.c.bucket)).scalars()
    )
    return max(bucket for bucket in found if bucket)


def test_an_answer_stays_while_an_open_batch_counts_its_reports(
    store: Database, clock: ManualClock
) -> None:
    for digest in (b"\x01" * 32, b"\x02" * 32):
        store.run_sync("answer", lambda tx, d=digest: put_answered_job(tx, TASK_ID, d, b"answer"))
    aggregate(store, [1])
    share = JobShare(unit(5), b"\x01" * 32, b"share", totals([report_id(1)]))
    store.run_sync("share", lambda tx: put_job_shares(tx, TASK_ID, [share]))
    clock.advance(AGE + 1)
    collect_all(store)

    def is_kept(digest: bytes) -> bool:
        found = store.read_sync("find", lambda tx: find_answered_job(tx, TASK_ID, digest))
        return found is not None

    assert (is_kept(b"\x01" * 32), is_kept(b"\x02" * 32)) == (True, False)
    release(store)
    collect_all(store)
    assert not is_kept(b"\x01" * 32)


def test_a_share_that_was_deleted_goes_and_its_batch_stays_closed(
    store: Database, clock: ManualClock
) -> None:
    share = NewAggregateShare(b"selector", bytes(32), b"sealed", units(0, 10), 1)
    stored = store.run_sync("put", lambda tx: put_aggregate_share(tx, TASK_ID, share, TENTH))
    clock.advance(AGE + 1)
    collect_all(store)
    assert rows(store)["aggregate_shares"] == 1
    store.run_sync("delete", lambda tx: delete_aggregate_share(tx, TASK_ID, stored.share_id))
    collect_all(store)
    assert "aggregate_shares" not in rows(store)
    closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, units(0, 10)))
    assert closed.overall() is BatchState.COLLECTED


def test_collected_batches_that_follow_one_another_become_one(
    store: Database, clock: ManualClock
) -> None:
    for start, end in ((0, 2), (2, 3), (3, 8), (9, 10), (10, 12)):
        batch = units(start, end)
        store.run_sync("collect", lambda tx, b=batch: mark_collected(tx, TASK_ID, b))
    while store.read_sync("left", has_leftovers):
        store.run_sync("leftovers", delete_some_leftovers)
    clock.advance(AGE + 1)
    collect_all(store)
    assert rows(store)["closed_batches"] == 2
    closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, units(0, 20)))
    open_units = [each for each in range(14) if closed.state(unit(each)) is None]
    assert open_units == [8, 12, 13]


def test_batches_that_another_process_has_joined_meanwhile_stay_closed(
    store: Database, clock: ManualClock, tmp_path: Path
) -> None:
    for start in range(3):
        batch = units(start, start + 1)
        store.run_sync("collect", lambda tx, b=batch: mark_collected(tx, TASK_ID, b))
    while store.read_sync("left", has_leftovers):
        store.run_sync("leftovers", delete_some_leftovers)
    clock.advance(AGE + 1)
    other = Database.open(store_url(tmp_path), Crypter([STORE_KEY]), clock)
    late = threading.Thread(target=collect_all, args=[other])

    def join_while_the_other_waits(tx: Transaction) -> None:
        locks.change_batches(tx, TASK_ID)
        late.start()
        time.sleep(0.3)  # it has seen three batches, and waits for the lock
        while collect_garbage(tx, AGE):
            pass

    store.run_sync("garbage", join_while_the_other_waits)
    late.join()
    other.close()
    closed = store.read_sync("closed", lambda tx: closed_batches(tx, TASK_ID, units(0, 3)))
    assert [closed.state(unit(each)) for each in range(3)] == [BatchState.COLLECTED] * 3


def test_a_forgotten_task_leaves_what_it_cost(
    store: Database, clock: ManualClock, tmp_path: Path, engine: str
) -> None:
    for number in range(3):
        aggregate(store, [number], time=number)
    release(store)
    aggregate(store, range(10, 15), time=20)
    upload(store, range(20, 25), time=21)
    store.run_sync("token", lambda tx: put_caller_token(tx, TASK_ID, bytes(32)))
    with pytest.raises(Conflict, match="has not ended"):
        forget(store, TASK_ID)
    store.run_sync("end", lambda tx: end_task(tx, TASK_ID))
    row = TASK_ID + unit(20)
    if engine == "sqlite":
        assert keys_in(tmp_path.iterdir(), STORE_KEY, row) != set()
    ledger = store.read_sync("ledger", list_ledger)
    held = bodies_left(store)
    assert held > 0
    forget(store, TASK_ID)
    forget(store, TASK_ID)
    assert bodies_left(store) == held  # for the next minutes
    rotate_all(store, clock)
    assert bodies_left(store) == 0
    assert rows(store) == {
        "tasks": 1,
        "ledger": 1,
        "report_generations": tables.GENERATIONS,
        "settings_versions": 1,
    }
    assert store.read_sync("ledger", list_ledger) == ledger
    spent = store.read_sync("spent", lambda tx: cost_of_a_person(costs_in(tx, TENTH.population)))
    assert spent == TENTH.cost
    assert store.read_sync("task", lambda tx: get_task(tx, TASK_ID)) is None
    assert store.read_sync("tasks", list_tasks) == []
    assert len(store.read_sync("tasks", list_all_tasks)) == 1
    if engine == "sqlite":
        assert keys_in(tmp_path.iterdir(), STORE_KEY, row) == set()
    with pytest.raises(UnknownTask):
        upload(store, [30])
    with pytest.raises(Conflict, match="was forgotten"):
        store.run_sync("again", lambda tx: put_task(tx, leader_task()))


def test_a_task_is_not_forgotten_while_a_batch_is_collected(store: Database) -> None:
    aggregate(store, [1])
    collect(store)
    freeze_collection(store, lease_collection(store))
    store.run_sync("end", lambda tx: end_task(tx, TASK_ID))
    with pytest.raises(Conflict, match=r"is being collected.*prio job abandon"):
        forget(store, TASK_ID)
    with pytest.raises(UnknownTask):
        forget(store, bytes(32))
