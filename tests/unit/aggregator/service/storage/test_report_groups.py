"""Reports of one transaction lie in one row, and are copied only where some go another way."""

from collections import Counter
from collections.abc import Iterable
from functools import partial

import pytest
from sqlalchemy import select

from aggregator.dap.report_errors import ReportError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict, UnreadableBodies
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.jobs.aggregation_jobs import (
    create_aggregation_job,
    finish_aggregation_job,
    note_unprocessed,
    set_reports_aside,
    split_aggregation_job,
    store_request,
)
from aggregator.service.storage.reports import groups
from aggregator.service.storage.reports.claims import JobSize, reports_of_job
from aggregator.service.storage.reports.giving_up import give_up_unreadable
from aggregator.service.storage.reports.groups import StoredReport, as_groups, bitmap
from aggregator.service.storage.reports.incoming import IncomingReports
from aggregator.service.storage.reports.rejecting import reject_waiting
from aggregator.service.storage.reports.reports import put_reports
from tests.support.balance import check_books
from tests.support.clock import ManualClock
from tests.support.store import (
    BODY_SIZE,
    MAX_REPORTS,
    TASK_ID,
    bodies_left,
    body_of,
    create_job,
    finish_job,
    lease_job,
    new_reports,
    report_id,
    reports_in,
    rotate_all,
    unit,
    units,
    upload,
)


def kept(store: Database) -> list[groups.Group]:
    query = select(tables.report_groups).order_by(tables.report_groups.c.id)
    return store.read_sync("groups", lambda tx: as_groups(tx.connection.execute(query)))


def numbers(store: Database, job: int) -> list[int]:
    found = reports_in(store, job)
    assert [each.body for each in found] == [body_of(number_of(each)) for each in found]
    return [number_of(each) for each in found]


def number_of(report: StoredReport) -> int:
    return int.from_bytes(report.report_id, "big")


def ids(wanted: Iterable[int]) -> list[bytes]:
    return [report_id(number) for number in wanted]


@pytest.fixture(autouse=True)
def _books(store: Database) -> Iterable[None]:
    """After every test each id has one live place in a group, or one in a counter."""
    yield
    store.read_sync("books", lambda tx: check_books(tx, TASK_ID))


def test_a_transaction_writes_one_row_for_each_bucket_and_a_job_claims_it_whole(
    store: Database,
) -> None:
    sent = [*new_reports(range(30), time=5), *new_reports(range(30, 50), time=6)]
    store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, sent, MAX_REPORTS))
    assert [(each.bucket, each.reports) for each in kept(store)] == [(unit(5), 30), (unit(6), 20)]
    job = create_job(store)
    assert job is not None
    assert numbers(store, job.key) == list(range(50))
    finish_job(store, lease_job(store))
    assert (kept(store), bodies_left(store)) == ([], 2)


def test_no_group_has_too_many_reports_or_bytes_but_one_alone_has_what_it_has() -> None:
    def sizes(count: int, width: int) -> list[int]:
        made = (each.to_bytes(16, "big") for each in range(count))
        some = [StoredReport(each, b"", 0, each + bytes(width - 16)) for each in made]
        return [group.size for group in IncomingReports.of(some).packed()]

    assert sizes(1000, 100) == [400, 400, 200]
    assert sizes(5, groups.MOST_BYTES // 2) == [2, 2, 1]
    assert sizes(2, groups.MOST_BYTES + 1) == [1, 1]


def test_a_body_that_does_not_begin_with_its_id_is_not_stored() -> None:
    with pytest.raises(ValueError, match="must begin with its id"):
        IncomingReports.of([StoredReport(report_id(1), b"", 0, body_of(2))])


def test_replays_are_left_out_of_the_row(store: Database) -> None:
    upload(store, [1, 3])
    sent = new_reports([1, 2, 2, 3, 4])
    errors = store.run_sync("put", lambda tx: put_reports(tx, TASK_ID, sent, MAX_REPORTS))
    replayed = ReportError.REPORT_REPLAYED
    assert errors == [replayed, None, replayed, replayed, None]
    job = create_job(store)
    assert job is not None
    assert numbers(store, job.key) == [1, 3, 2, 4]


def test_a_group_that_is_too_large_is_claimed_in_parts(store: Database) -> None:
    upload(store, range(10))
    jobs = []
    while (job := create_job(store, 4)) is not None:
        jobs.append(numbers(store, job.key))
        store.read_sync("books", lambda tx: check_books(tx, TASK_ID))
    assert jobs == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_job_is_at_least_half_full_where_more_wait_and_copies_nothing_beyond_that(
    store: Database,
) -> None:
    for first, count in ((0, 3), (10, 3), (20, 1), (30, 6)):
        upload(store, range(first, first + count))
    jobs = []
    while (job := create_job(store, 4)) is not None:
        jobs.append(len(reports_in(store, job.key)))
    assert jobs == [3, 4, 4, 2]
    assert bodies_left(store) == 4 + 1  # of 30 to 35 some were copied, once


def test_what_is_rejected_is_a_bit_and_what_is_too_early_a_group_of_its_own(
    store: Database, clock: ManualClock
) -> None:
    upload(store, range(10))
    create_job(store)
    leased = lease_job(store)
    rejected = dict.fromkeys(ids([0, 9]), "hpke_decrypt_error")
    store.run_sync(
        "send", lambda tx: store_request(tx, leased.lease, b"request", rejected, ids([3, 4]))
    )
    here, waiting = kept(store)
    assert (here.size, here.reports, here.live) == (10, 6, bitmap([1, 2, 5, 6, 7, 8], 10))
    assert (waiting.size, waiting.reports, waiting.job) == (2, 2, None)
    assert numbers(store, leased.job.key) == [1, 2, 5, 6, 7, 8]
    store.run_sync(
        "end",
        lambda tx: finish_aggregation_job(
            tx, leased.lease, ids([2, 5, 7, 8]), {report_id(1): "vdaf_verify_error"}, ids([6])
        ),
    )
    store.read_sync("books", lambda tx: check_books(tx, TASK_ID))
    assert create_job(store) is None
    clock.advance(60)
    job = create_job(store)
    assert job is not None
    assert numbers(store, job.key) == [3, 4, 6]


def test_a_group_without_a_live_report_is_deleted(store: Database) -> None:
    upload(store, range(3))
    create_job(store)
    leased = lease_job(store)
    rejected = dict.fromkeys(ids(range(3)), "invalid_message")
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"request", rejected))
    assert kept(store) == []


def test_a_job_of_several_groups_is_split_in_halves(store: Database) -> None:
    for first in (0, 10, 20):
        upload(store, range(first, first + 3))
    create_job(store)
    leased = lease_job(store)
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"request", {}))
    store.run_sync("refused", lambda tx: note_unprocessed(tx, leased.lease))
    store.run_sync("split", lambda tx: split_aggregation_job(tx, leased.lease))
    halves = [sorted(numbers(store, job)) for job in (1, 2)]
    assert halves == [[0, 1, 2, 10, 11], [12, 20, 21, 22]]


def test_a_job_of_one_report_is_not_split(store: Database) -> None:
    upload(store, [1])
    create_job(store)
    leased = lease_job(store)
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"request", {}))
    store.run_sync("refused", lambda tx: note_unprocessed(tx, leased.lease))
    with pytest.raises(Conflict, match="one report cannot be split"):
        store.run_sync("split", lambda tx: split_aggregation_job(tx, leased.lease))


def test_what_waits_for_a_batch_that_is_given_up_is_counted_by_its_reports(
    store: Database,
) -> None:
    upload(store, range(5), time=5)
    upload(store, range(5, 8), time=6)
    dropped = store.run_sync("reject", lambda tx: reject_waiting(tx, TASK_ID, units(5, 6), "lost"))
    assert (dropped, [each.reports for each in kept(store)]) == (5, [3])


def test_a_group_leaves_its_dead_reports_behind_when_it_is_moved(
    store: Database, clock: ManualClock
) -> None:
    for number in range(tables.GENERATIONS):
        upload(store, range(100 * number, 100 * number + 10))
        create_job(store)
        lease = lease_job(store, seconds=10**6).lease
        dead = dict.fromkeys(ids(range(100 * number, 100 * number + 9)), "invalid_message")
        store.run_sync("send", partial(store_request, lease=lease, request=b"?", rejected=dead))
        for other in range(10, 20):
            upload(store, [100 * number + other])
            create_job(store)
            finish_job(store, lease_job(store))
        rotate_all(store, clock)
    assert Counter((each.size, each.live) for each in kept(store))[(1, None)] > 0
    for number in range(tables.GENERATIONS):
        job = 11 * number + 1
        assert numbers(store, job) == [100 * number + 9]


def test_a_body_of_another_length_is_not_taken_for_reports(store: Database) -> None:
    upload(store, range(3))
    job = create_job(store)
    assert job is not None
    table = tables.report_bodies[0]
    cut = table.update().values(body=bytes(2 * BODY_SIZE))
    store.run_sync("cut", lambda tx: tx.connection.execute(cut))
    with pytest.raises(UnreadableBodies, match="not of the length"):
        store.read_sync("read", lambda tx: reports_of_job(tx, job.key))
    whole = table.update().values(body=b"".join(map(body_of, range(3))))
    store.run_sync("mend", lambda tx: tx.connection.execute(whole))


def test_a_group_that_cannot_be_read_is_claimed_whole_and_set_aside(store: Database) -> None:
    upload(store, range(10))
    table = tables.report_bodies[0]
    (body,) = store.run_sync(
        "lose",
        lambda tx: [
            tx.connection.execute(select(table.c.body)).scalar_one(),
            tx.connection.execute(table.update().values(body=b"?")),
        ][:1],
    )
    few = JobSize(3, 10**6)
    store.run_sync("create", lambda tx: create_aggregation_job(tx, TASK_ID, few))
    leased = lease_job(store)
    with pytest.raises(UnreadableBodies) as raised:
        store.read_sync("read", lambda tx: reports_of_job(tx, leased.job.key))
    groups = raised.value.groups
    aside = store.run_sync("aside", lambda tx: set_reports_aside(tx, leased.lease, groups))
    assert aside == 10
    assert create_job(store) is None  # they are not tried again at once
    restored = table.update().values(body=body)
    store.run_sync("restore", lambda tx: tx.connection.execute(restored))
    store.run_sync("books", lambda tx: check_books(tx, TASK_ID))


@pytest.mark.parametrize(("whole", "jobs"), [(1, 1), (3, 2)])
def test_a_job_is_split_without_reports_that_an_operator_has_given_up(
    store: Database, whole: int, jobs: int
) -> None:
    upload(store, range(4))
    upload(store, range(4, 4 + whole))
    job = create_job(store)
    assert job is not None
    lease = lease_job(store, seconds=0).lease
    store.run_sync("send", lambda tx: store_request(tx, lease, b"request", {}))
    table = tables.report_bodies[0]
    lost = table.delete().where(table.c.report_group == 1)
    store.run_sync("lose", lambda tx: tx.connection.execute(lost))
    (loss,) = give_up_unreadable(store).losses.values()
    assert loss.asked == 4
    store.run_sync("note", lambda tx: note_unprocessed(tx, lease))
    store.run_sync("split", lambda tx: split_aggregation_job(tx, lease))
    found = [numbers(store, job.key + later) for later in range(jobs)]
    assert sorted(number for some in found for number in some) == [*range(4, 4 + whole)]
    assert all(found)
    store.run_sync("books", lambda tx: check_books(tx, TASK_ID))
