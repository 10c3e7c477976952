import threading

from aggregator.client.verdicts import Verdict, verdict_of
from aggregator.dap.profile import PROFILES
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.closed import freeze, mark_collected, unfreeze
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.tables import aggregated_reports, report_groups
from aggregator.service.storage.jobs.aggregation_jobs import store_request
from aggregator.service.storage.reports.counters import Stage, count_reports, report_counts
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.ids import admit
from aggregator.service.storage.reports.rejected import remember_rejected
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.reports.waiting import waiting_in_batch
from tests.support.racers import run_at_once
from tests.support.store import (
    BODY_SIZE,
    MAX_REPORTS,
    TASK_ID,
    body_of,
    create_job,
    finish_job,
    lease_job,
    new_reports,
    report_id,
    reports_in,
    unclaimed_reports,
    unit,
    units,
    upload,
)

STORED, REPLAYED, CLOSED = None, ReportError.REPORT_REPLAYED, ReportError.BATCH_COLLECTED
FULL = ReportError.REPORT_DROPPED


def put(store: Database, numbers: list[int], time: int = 5) -> list[ReportError | None]:
    return store.run_sync(
        "put", lambda tx: put_reports(tx, TASK_ID, new_reports(numbers, time), MAX_REPORTS)
    )


def test_a_report_is_stored_once_and_its_replay_refused(store: Database) -> None:
    assert put(store, [1, 2]) == [STORED, STORED]
    assert put(store, [2, 3]) == [REPLAYED, STORED]
    assert store.read_sync("count", lambda tx: unclaimed_reports(tx, TASK_ID)) == 3


def test_the_first_of_two_reports_with_the_same_id_in_one_call_is_stored(store: Database) -> None:
    assert put(store, [1, 1, 2, 1]) == [STORED, REPLAYED, STORED, REPLAYED]
    assert store.read_sync("count", lambda tx: unclaimed_reports(tx, TASK_ID)) == 2


def test_a_replay_is_refused_after_its_body_was_aggregated(store: Database) -> None:
    put(store, [1])
    store.run_sync("drop", lambda tx: tx.connection.execute(report_groups.delete()))
    assert put(store, [1]) == [REPLAYED]


def test_a_report_that_does_not_count_is_told_so_in_a_word_that_settles_it(
    store: Database,
) -> None:
    """Otherwise a client would wait for days, send it again, or take it for counted."""
    put(store, [1])
    rejected = [report_id(1)]
    store.run_sync("reject", lambda tx: remember_rejected(tx, tx.task_key(TASK_ID), rejected))
    (error,) = put(store, [1])
    assert error is not None
    assert verdict_of(error.draft_name) is Verdict.LATE
    for profile in PROFILES.values():
        profile.code(error)


def test_a_report_for_a_closed_bucket_is_refused_and_its_id_stays_free(store: Database) -> None:
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, units(5, 6)))
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, units(10, 12)))
    assert [put(store, [n], time)[0] for n, time in enumerate([4, 5, 6, 9, 10, 11, 12])] == [
        STORED,
        ReportError.REPORT_TOO_EARLY,  # nobody knows yet
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
    job = create_job(store, limit=4)
    assert job is not None
    reports = reports_in(store, job.key)
    assert [(r.report_id, r.bucket, r.body) for r in reports] == [
        (report_id(number), unit(time), body_of(number))
        for number, time in ((1, 9), (2, 9), (5, 7), (6, 7))
    ]


def test_reports_of_a_frozen_bucket_are_not_claimed(store: Database) -> None:
    put(store, [1], time=5)
    put(store, [2], time=6)
    store.run_sync("freeze", lambda tx: freeze(tx, TASK_ID, units(5, 6)))
    job = create_job(store)
    assert job is not None
    (report,) = reports_in(store, job.key)
    assert report.report_id == report_id(2)


def test_waiting_reports_are_counted_over_the_whole_batch_and_no_more(store: Database) -> None:
    for number, time in enumerate([4, 5, 9, 9, 10, 2**64 - 1]):
        put(store, [number], time)
    assert create_job(store, limit=3) is not None

    def waiting(start: int, end: int) -> int:
        return store.read_sync(
            "waiting", lambda tx: waiting_in_batch(tx, TASK_ID, units(start, end))
        )

    assert [waiting(5, 10), waiting(0, 2**64 - 1), waiting(11, 2**63)] == [3, 5, 0]
    finish_job(store, lease_job(store))
    assert [waiting(5, 10), waiting(0, 2**64 - 1)] == [1, 2]


def test_two_threads_claim_disjoint_reports(store: Database) -> None:
    upload(store, range(90))

    def claim() -> None:
        create_job(store, 30)

    threads = [threading.Thread(target=claim) for _ in range(3)]
    run_at_once(threads)
    claimed = [report.report_id for key in (1, 2, 3) for report in reports_in(store, key)]
    assert sorted(claimed) == [report_id(number) for number in range(90)]


def test_a_job_is_filled_by_the_bytes_that_its_reports_have(store: Database) -> None:
    for number, size in enumerate([2, 1, 1, 3, 1]):
        put(store, [10 * number + each for each in range(size)])
    jobs = []
    while (job := create_job(store, 3, stored_bytes=3 * BODY_SIZE - 1)) is not None:
        jobs.append(len(reports_in(store, job.key)))
    assert jobs == [2, 2, 2, 2]


def test_a_report_alone_fills_a_job_whatever_its_size(store: Database) -> None:
    put(store, [1, 2])
    sizes = []
    while (job := create_job(store, 3, stored_bytes=1)) is not None:
        sizes.append(len(reports_in(store, job.key)))
    assert sizes == [1, 1]


def test_reports_of_different_sizes_are_in_different_jobs(store: Database) -> None:
    """As if the sizes of a task's reports were changed: a job has reports of one width."""
    ids = [report_id(number) for number in range(4)]
    sent = [
        StoredReport(each, unit(5), 0, each + bytes(size))
        for each, size in zip(ids, [1, 2, 1, 1], strict=True)
    ]
    store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, sent, MAX_REPORTS))
    jobs = []
    while (job := create_job(store, only_full=not jobs)) is not None:
        jobs.append([each.report_id for each in reports_in(store, job.key)])
    assert jobs == [[ids[0], ids[2], ids[3]], [ids[1]]]


def test_a_job_is_full_by_its_reports_or_by_their_bytes(store: Database) -> None:
    put(store, [1, 2])
    assert create_job(store, 3, 100, only_full=True) is None
    assert create_job(store, 2, 100, only_full=True) is not None
    put(store, [3, 4])
    assert create_job(store, 3, 3 * BODY_SIZE, only_full=True) is None
    assert create_job(store, 3, 2 * BODY_SIZE, only_full=True) is not None


def test_an_id_is_remembered_once_and_that_of_a_closed_batch_only_looked_up(
    store: Database,
) -> None:
    closed = unit(9)

    def record(*arrivals: tuple[int, bytes]) -> list[ReportError | None]:
        ids = [(report_id(number), bucket) for number, bucket in arrivals]
        days = [0] * len(ids)
        return store.run_sync(
            "record", lambda tx: admit(tx, aggregated_reports, TASK_ID, ids, days, {closed}, {})
        )

    open_ = unit(5)
    assert record((1, open_), (2, open_)) == [STORED, STORED]
    assert record((2, open_), (3, open_), (3, open_)) == [REPLAYED, STORED, REPLAYED]
    assert record((1, closed), (4, closed)) == [REPLAYED, CLOSED]
    assert record((4, open_), (4, closed)) == [STORED, CLOSED]  # looked up before it was recorded
    assert record() == []


def test_a_full_bucket_takes_no_more_and_its_neighbours_do(store: Database) -> None:
    def put_at_most(limit: int, numbers: list[int], time: int = 5) -> list[ReportError | None]:
        sent = new_reports(numbers, time)
        return store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, sent, limit))

    assert put_at_most(3, [1, 2]) == [STORED, STORED]
    create_job(store)
    finish_job(store, lease_job(store))
    assert put_at_most(3, [1, 3, 3, 4, 2]) == [REPLAYED, STORED, REPLAYED, FULL, REPLAYED]
    assert put_at_most(3, [3, 4]) == [REPLAYED, FULL]
    assert put_at_most(3, [5], time=6) == [STORED]
    assert put_at_most(4, [4]) == [STORED]  # its id was left free
    assert store.read_sync("count", lambda tx: report_counts(tx, TASK_ID, Stage.UPLOAD)) == {
        "stored": 5,
        "report_replayed": 4,
        "batch_full": 2,
    }


def test_buckets_that_are_collected_together_share_their_room(store: Database) -> None:
    def put_at_most(limit: int, *arrivals: tuple[int, int]) -> list[ReportError | None]:
        sent = [report for number, time in arrivals for report in new_reports([number], time)]
        return store.run_sync(
            "put", lambda tx: put_reports(tx, TASK_ID, sent, limit, lambda _: units(4, 7))
        )

    assert put_at_most(4, (1, 4), (2, 5)) == [STORED, STORED]
    create_job(store)
    finish_job(store, lease_job(store))
    assert put_at_most(4, (3, 6)) == [STORED]
    assert put_at_most(4, (4, 5), (3, 6), (5, 4), (6, 6)) == [STORED, REPLAYED, FULL, FULL]
    assert put_at_most(4, (6, 4), (2, 5)) == [FULL, REPLAYED]
    assert put_at_most(5, (6, 4)) == [STORED]


def test_a_report_that_was_rejected_leaves_its_place_to_another(store: Database) -> None:
    def put_at_most_two(number: int) -> ReportError | None:
        sent = new_reports([number])
        return store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, sent, 2))[0]

    assert [put_at_most_two(number) for number in (1, 2, 3)] == [STORED, STORED, FULL]
    create_job(store)
    leased = lease_job(store)
    rejected = {report_id(1): "invalid_message"}
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"request", rejected))
    assert [put_at_most_two(number) for number in (3, 4)] == [STORED, FULL]


def test_a_report_that_is_in_no_bucket_yet_is_in_no_batch(store: Database) -> None:
    for batch in (Batch(b"a" * 32, b"a" * 32), Batch(bytes(32), bytes(32))):
        store.run_sync("collect", lambda tx, b=batch: mark_collected(tx, TASK_ID, b))
    waiting = StoredReport(report_id(1), b"", 0, body_of(1))
    assert store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, [waiting], MAX_REPORTS)) == [
        STORED
    ]
    job = create_job(store)
    assert job is not None
    assert reports_in(store, job.key) == [waiting]
