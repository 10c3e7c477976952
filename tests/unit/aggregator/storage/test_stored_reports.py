import threading

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.storage.aggregation_jobs import create_aggregation_job
from aggregator.storage.batches import freeze, mark_collected, unfreeze
from aggregator.storage.counters import Stage, count_reports, report_counts
from aggregator.storage.database import Database
from aggregator.storage.report_ids import record_ids
from aggregator.storage.reports import (
    PendingReports,
    StoredReport,
    pending_reports,
    put_reports,
    reports_of_job,
)
from aggregator.storage.tables import aggregated_reports
from aggregator.storage.tables import reports as reports_table
from tests.support.store import (
    TASK_ID,
    create_job,
    new_reports,
    report_id,
    unclaimed_reports,
    unit,
    units,
    upload,
)

STORED, REPLAYED, CLOSED = None, ReportError.REPORT_REPLAYED, ReportError.BATCH_COLLECTED


def put(store: Database, numbers: list[int], time: int = 5) -> list[ReportError | None]:
    return store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, new_reports(numbers, time)))


def test_a_report_is_stored_once_and_its_replay_refused(store: Database) -> None:
    assert put(store, [1, 2]) == [STORED, STORED]
    assert put(store, [2, 3]) == [REPLAYED, STORED]
    assert store.read_sync("count", lambda tx: unclaimed_reports(tx, TASK_ID)) == 3


def test_the_first_of_two_reports_with_the_same_id_in_one_call_is_stored(store: Database) -> None:
    assert put(store, [1, 1, 2, 1]) == [STORED, REPLAYED, STORED, REPLAYED]
    assert store.read_sync("count", lambda tx: unclaimed_reports(tx, TASK_ID)) == 2


def test_a_replay_is_refused_after_its_body_was_aggregated(store: Database) -> None:
    put(store, [1])
    store.run_sync("drop", lambda tx: tx.connection.execute(reports_table.delete()))
    assert put(store, [1]) == [REPLAYED]


def test_a_report_for_a_closed_bucket_is_refused_and_its_id_stays_free(store: Database) -> None:
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, units(5, 6)))
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, units(10, 12)))
    assert [put(store, [n], time)[0] for n, time in enumerate([4, 5, 6, 9, 10, 11, 12])] == [
        STORED,
        CLOSED,
        STORED,
        STORED,
        CLOSED,
        CLOSED,
        STORED,
    ]
    store.run_sync("unfreeze", lambda tx: unfreeze(tx, TASK_ID, units(5, 6)))
    assert put(store, [1], time=5) == [STORED]


def test_the_last_unit_of_time_has_a_bucket(store: Database) -> None:
    assert put(store, [1], time=2**64 - 1) == [STORED]
    assert put(store, [2], time=0) == [STORED]


def test_no_reports_need_no_work(store: Database) -> None:
    assert put(store, []) == []


def test_uploads_are_counted_by_outcome(store: Database) -> None:
    put(store, [1, 2, 2])
    put(store, [2, 3])
    store.run_sync(
        "count", lambda tx: count_reports(tx, TASK_ID, Stage.UPLOAD, {"outdated_config": 4})
    )
    assert store.read_sync("count", lambda tx: report_counts(tx, TASK_ID, Stage.UPLOAD)) == {
        "stored": 3,
        "report_replayed": 2,
        "outdated_config": 4,
    }


def test_reports_are_claimed_first_bucket_first_and_read_in_order_of_arrival(
    store: Database,
) -> None:
    put(store, [1, 2], time=9)
    put(store, [3, 4], time=2**63)
    put(store, [5, 6], time=7)
    job = create_job(store, limit=3)
    assert job is not None
    reports = store.read_sync("read", lambda tx: reports_of_job(tx, job.key))
    assert [(r.report_id, r.bucket, r.body) for r in reports] == [
        (report_id(1), unit(9), b"body 1"),
        (report_id(5), unit(7), b"body 5"),
        (report_id(6), unit(7), b"body 6"),
    ]


def test_reports_of_a_frozen_bucket_are_not_claimed(store: Database) -> None:
    put(store, [1], time=5)
    put(store, [2], time=6)
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, units(5, 6)))
    job = create_job(store)
    assert job is not None
    (report,) = store.read_sync("read", lambda tx: reports_of_job(tx, job.key))
    assert report.report_id == report_id(2)


def test_pending_reports_are_counted_over_the_whole_batch_and_no_more(store: Database) -> None:
    for number, time in enumerate([4, 5, 9, 10, 2**64 - 1]):
        put(store, [number], time)
    assert create_job(store, limit=2) is not None

    def pending(start: int, end: int) -> PendingReports:
        return store.read_sync(
            "pending", lambda tx: pending_reports(tx, TASK_ID, units(start, end))
        )

    assert pending(5, 10) == PendingReports(unclaimed=1, claimed=1)
    assert pending(0, 2**64 - 1) == PendingReports(unclaimed=2, claimed=2)
    assert pending(11, 2**63) == PendingReports(unclaimed=0, claimed=0)


def test_two_threads_claim_disjoint_reports(store: Database) -> None:
    upload(store, range(90))

    def claim() -> None:
        store.run_sync("create", lambda tx: create_aggregation_job(tx, TASK_ID, 30))

    threads = [threading.Thread(target=claim) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claimed = [
        report.report_id
        for key in (1, 2, 3)
        for report in store.read_sync("read", lambda tx, k=key: reports_of_job(tx, k))
    ]
    assert sorted(claimed) == [report_id(number) for number in range(90)]


def test_an_id_is_recorded_once_and_that_of_a_closed_batch_only_looked_up(store: Database) -> None:
    def record(*arrivals: tuple[int, bool]) -> list[bool]:
        ids = [(report_id(number), is_closed) for number, is_closed in arrivals]
        return store.run_sync("record", lambda tx: record_ids(tx, aggregated_reports, TASK_ID, ids))

    assert record((1, False), (2, False)) == [False, False]
    assert record((2, False), (3, False), (3, False)) == [True, False, True]
    assert record((1, True), (4, True)) == [True, False]
    assert record((4, False), (4, True)) == [False, False]  # looked up before it was recorded
    assert record() == []


def test_a_report_that_is_in_no_bucket_yet_is_in_no_batch(store: Database) -> None:
    for batch in (Batch(b"a" * 32, b"a" * 32), Batch(bytes(32), bytes(32))):
        store.run_sync("collect", lambda tx, b=batch: mark_collected(tx, TASK_ID, b))
    waiting = StoredReport(report_id(1), b"", b"body")
    assert store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, [waiting])) == [STORED]
    job = create_job(store)
    assert job is not None
    assert store.read_sync("read", lambda tx: reports_of_job(tx, job.key)) == [waiting]
