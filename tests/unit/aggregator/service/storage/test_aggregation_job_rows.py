from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import update

from aggregator.dap.times import DAY
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import AggregationJobState
from aggregator.service.storage.engine.tables import aggregation_jobs, tasks
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    AggregationJob,
    finish_aggregation_job,
    forget_request,
    hold_aggregation_job,
    largest_job,
    note_failure,
    note_sending,
    note_unprocessed,
    split_aggregation_job,
    store_job_location,
    store_request,
)
from aggregator.service.storage.jobs.leases import Lease, LeaseLost
from aggregator.service.storage.operator.interventions import (
    abandon_aggregation_job,
    retry_aggregation_job,
)
from aggregator.service.storage.reports.counters import Stage, report_counts
from tests.support.clock import ManualClock
from tests.support.store import (
    TASK_ID,
    checksum,
    create_job,
    finish_job,
    lease_job,
    report_id,
    reports_in,
    unclaimed_reports,
    units,
    upload,
)

IDS = [report_id(number) for number in range(3)]


@pytest.fixture(autouse=True)
def three_reports_in_a_job(store: Database) -> None:
    upload(store, range(3))
    create_job(store)


def counts(store: Database) -> dict[str, int]:
    return store.read_sync("counts", lambda tx: report_counts(tx, TASK_ID, Stage.AGGREGATION))


def bodies(store: Database) -> list[bytes]:
    return [r.report_id for r in reports_in(store, 1)]


def test_no_job_is_made_for_too_few_reports(store: Database) -> None:
    upload(store, range(3, 5))

    assert create_job(store, 3, only_full=True) is None
    assert store.read_sync("count", lambda tx: unclaimed_reports(tx, TASK_ID)) == 2
    assert create_job(store, 2, only_full=True) is not None
    assert create_job(store) is None


def test_a_leased_job_is_leased_by_nobody_else_until_it_expires(
    store: Database, clock: ManualClock
) -> None:
    first = lease_job(store, seconds=60)
    assert (first.lease.attempts, first.lease.expires_at) == (1, clock.now() + 60)
    clock.advance(59)
    assert store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, 60)) == []
    clock.advance(1)
    assert lease_job(store).lease.attempts == 2


def test_no_more_jobs_are_leased_than_were_asked_for(store: Database) -> None:
    for number in range(3, 6):
        upload(store, [number])
        create_job(store)
    leased = store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 3, 60))
    assert [one.job.key for one in leased] == [1, 2, 3]
    assert len({one.lease.token for one in leased}) == 3


@pytest.mark.parametrize(
    "verb",
    [
        lambda tx, lease: store_request(tx, lease, b"other", {}),
        lambda tx, lease: finish_aggregation_job(tx, lease, IDS, {}),
        note_sending,
        note_failure,
        note_unprocessed,
        forget_request,
        split_aggregation_job,
        lambda tx, lease: hold_aggregation_job(tx, lease, "reason"),
        lambda tx, lease: AGGREGATION_JOBS.release(tx, lease, 0),
        lambda tx, lease: store_job_location(tx, lease, "/elsewhere"),
    ],
    ids=[
        "send",
        "finish",
        "resend",
        "fail",
        "undo",
        "forget",
        "split",
        "hold",
        "release",
        "locate",
    ],
)
def test_a_driver_that_slept_past_its_lease_changes_nothing(
    store: Database, clock: ManualClock, verb: Callable[[Transaction, Lease], None]
) -> None:
    sleeper = lease_job(store)
    clock.advance(60)
    holder = lease_job(store)
    with pytest.raises(LeaseLost):
        store.run_sync("late", lambda tx: verb(tx, sleeper.lease))
    assert bodies(store) == IDS
    finish_job(store, holder)


def test_a_retry_leaves_a_job_to_the_driver_that_has_it_and_takes_one_that_waits(
    store: Database, clock: ManualClock
) -> None:
    """Else the answer on its way would be lost, and with it that nothing was processed."""
    leased = lease_job(store, seconds=60)
    retried = leased.job.job_id
    store.run_sync("retry", lambda tx: retry_aggregation_job(tx, retried))
    store.run_sync("answer", lambda tx: AGGREGATION_JOBS.release(tx, leased.lease, 30))
    assert store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, 60)) == []
    store.run_sync("retry", lambda tx: retry_aggregation_job(tx, retried))
    lease_job(store, seconds=60)
    clock.advance(60)  # its driver has died
    store.run_sync("retry", lambda tx: retry_aggregation_job(tx, retried))
    lease_job(store)


def test_the_request_is_stored_once_and_survives_its_driver(
    store: Database, clock: ManualClock
) -> None:
    leased = lease_job(store)
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"exact", {}))
    with pytest.raises(LeaseLost):
        store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"other", {}))
    store.run_sync("where", lambda tx: store_job_location(tx, leased.lease, "/jobs/1"))
    clock.advance(60)
    job = lease_job(store).job
    assert (job.state, job.request) == (AggregationJobState.SENT, b"exact")
    assert job.helper_location == "/jobs/1"


def test_what_is_rejected_before_sending_leaves_exactly_the_reports_of_the_request(
    store: Database,
) -> None:
    leased = lease_job(store)
    rejected = {IDS[1]: "hpke_decrypt_error"}
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"exact", rejected))
    assert bodies(store) == [IDS[0], IDS[2]]
    assert counts(store) == {"hpke_decrypt_error": 1}


def test_a_finished_job_leaves_a_bucket_counters_and_no_bodies(store: Database) -> None:
    finish_job(store, lease_job(store))
    summary = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, units(0, 10)))
    assert (summary.report_count, summary.checksum) == (3, checksum(IDS))
    assert bodies(store) == []
    assert counts(store) == {"aggregated": 3}
    assert store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, 60)) == []


def test_a_job_whose_reports_were_all_rejected_ends_without_a_request(store: Database) -> None:
    leased = lease_job(store)
    rejected = dict.fromkeys(IDS, "invalid_message")
    store.run_sync("end", lambda tx: finish_aggregation_job(tx, leased.lease, [], rejected))
    assert counts(store) == {"invalid_message": 3}
    assert bodies(store) == []


def test_a_job_is_finished_once(store: Database) -> None:
    leased = lease_job(store)
    finish_job(store, leased)
    with pytest.raises(LeaseLost):
        store.run_sync("again", lambda tx: finish_aggregation_job(tx, leased.lease, IDS, {}))
    with pytest.raises(Conflict, match="has ended: it is finished"):
        store.run_sync("again", lambda tx: abandon(tx, leased.job, returned=False))


@pytest.mark.parametrize(
    ("aggregated", "rejected"),
    [
        (IDS[:2], {}),
        ([*IDS, report_id(9)], {}),
        (IDS, {IDS[0]: "vdaf_verify_error"}),
        ([*IDS, IDS[0]], {}),
        (IDS, {report_id(9): "vdaf_verify_error"}),
    ],
)
def test_a_job_that_does_not_name_each_report_once_is_not_finished(
    store: Database, aggregated: list[bytes], rejected: dict[bytes, str]
) -> None:
    leased = lease_job(store)
    with pytest.raises(Conflict):
        store.run_sync(
            "end", lambda tx: finish_aggregation_job(tx, leased.lease, aggregated, rejected)
        )
    assert bodies(store) == IDS


def test_a_job_cannot_reject_a_report_that_is_not_in_it(store: Database) -> None:
    leased = lease_job(store)
    with pytest.raises(Conflict, match="not in the aggregation job"):
        store.run_sync(
            "send", lambda tx: store_request(tx, leased.lease, b"x", {report_id(9): "reason"})
        )
    assert lease_state(store) == "created"


def test_a_released_job_waits_and_keeps_its_attempts(store: Database, clock: ManualClock) -> None:
    leased = lease_job(store)
    store.run_sync("release", lambda tx: AGGREGATION_JOBS.release(tx, leased.lease, 30))
    clock.advance(29)
    assert store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, 60)) == []
    clock.advance(1)
    again = lease_job(store)
    assert again.lease.attempts == 2
    store.run_sync(
        "release", lambda tx: AGGREGATION_JOBS.release(tx, again.lease, 0, progressed=True)
    )
    assert lease_job(store).lease.attempts == 1


def test_an_operator_abandons_a_job_with_its_reports_or_frees_them(store: Database) -> None:
    leased = lease_job(store)
    assert store.run_sync("abandon", lambda tx: abandon(tx, leased.job, returned=True)) == 3
    assert counts(store) == {}
    again = create_job(store)
    assert again is not None
    assert store.run_sync("abandon", lambda tx: abandon(tx, again, returned=False)) == 3
    assert counts(store) == {"dropped_by_operator": 3}
    assert create_job(store) is None
    with pytest.raises(LeaseLost):
        store.run_sync("late", lambda tx: AGGREGATION_JOBS.release(tx, leased.lease, 0))


def test_reports_that_are_too_early_wait_for_another_job(
    store: Database, clock: ManualClock
) -> None:
    leased = lease_job(store)
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"exact", {}, [IDS[0]]))
    store.run_sync(
        "end", lambda tx: finish_aggregation_job(tx, leased.lease, [IDS[1]], {}, [IDS[2]])
    )
    assert counts(store) == {"aggregated": 1}
    assert create_job(store) is None
    clock.advance(60)
    again = create_job(store)
    assert again is not None
    ids = reports_in(store, again.key)
    assert [report.report_id for report in ids] == [IDS[0], IDS[2]]


def test_reports_that_stay_too_early_are_asked_about_less_and_less_often(
    store: Database, clock: ManualClock
) -> None:
    waits = []
    for _ in range(8):
        leased = lease_job(store)
        store.run_sync(
            "end", lambda tx, lease=leased.lease: finish_aggregation_job(tx, lease, [], {}, IDS)
        )
        began = clock.now()
        while create_job(store) is None:
            clock.advance(30)
        waits.append(clock.now() - began)
    assert waits[0] == 60
    assert waits == sorted(waits)
    assert waits[-1] > 60


@pytest.mark.parametrize(("ahead", "passed"), [(0, DAY), (365 * DAY, -365 * DAY)])
def test_reports_that_are_too_early_wait_for_a_day_at_most_whatever_the_clock_says(
    store: Database, clock: ManualClock, ahead: int, passed: int
) -> None:
    clock.advance(100 * DAY + ahead)
    leased = lease_job(store)
    store.run_sync("end", lambda tx: finish_aggregation_job(tx, leased.lease, [], {}, IDS))
    assert create_job(store) is None
    clock.advance(passed)
    assert create_job(store) is not None


def test_a_request_is_forgotten_only_if_each_sending_of_it_was_refused(store: Database) -> None:
    leased = lease_job(store)
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"exact", {}))
    with pytest.raises(Conflict, match="may have processed"):
        store.run_sync("forget", lambda tx: forget_request(tx, leased.lease))
    store.run_sync("refused", lambda tx: note_unprocessed(tx, leased.lease))
    store.run_sync("resend", lambda tx: note_sending(tx, leased.lease))
    with pytest.raises(Conflict, match="may have processed"):
        store.run_sync("forget", lambda tx: forget_request(tx, leased.lease))
    store.run_sync("refused", lambda tx: note_unprocessed(tx, leased.lease))
    job = store.run_sync("refused", lambda tx: note_failure(tx, leased.lease))
    assert (job.failures, job.unanswered) == (1, 0)
    store.run_sync("split", lambda tx: split_aggregation_job(tx, leased.lease))
    halves = [[report.report_id for report in reports_in(store, key)] for key in (1, 2)]
    assert halves == [IDS[:2], IDS[2:]]
    assert lease_job(store).job.key == 2  # the first one is still ours
    assert job.state == "sent"
    store.run_sync("release", lambda tx: AGGREGATION_JOBS.release(tx, leased.lease, 0))
    first = lease_job(store).job
    assert (first.key, first.state, first.request, first.failures) == (1, "created", None, 0)


def test_jobs_grow_again_slowly_while_the_helper_takes_the_largest_allowed(
    store: Database,
) -> None:
    def bound() -> int | None:
        return store.read_sync("bound", lambda tx: largest_job(tx, TASK_ID))

    def take(size: int, number: int) -> int | None:
        """Let the Helper take a job of `size` bytes; return the bound after it."""
        upload(store, [number])
        create_job(store)
        leased = lease_job(store)
        store.run_sync("send", lambda tx: store_request(tx, leased.lease, bytes(size), {}))
        finish_job(store, replace(leased, job=replace(leased.job, request=b"sent")))
        return bound()

    leased = lease_job(store)
    finish_job(store, leased)
    assert (take(100, 10), bound()) == (None, None)  # nothing was refused
    upload(store, range(11, 13))
    create_job(store)
    leased = lease_job(store)
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, bytes(2560), {}))
    store.run_sync("refused", lambda tx: note_unprocessed(tx, leased.lease))
    store.run_sync("split", lambda tx: split_aggregation_job(tx, leased.lease))
    store.run_sync("release", lambda tx: AGGREGATION_JOBS.release(tx, leased.lease, 0))
    for _ in range(2):
        finish_job(store, lease_job(store))
    assert bound() == 1280  # halves of a few bytes prove nothing
    assert [take(1280, 13), take(1300, 14), take(660, 15)] == [1300, 1320, 1320]
    store.run_sync("bound", lambda tx: tx.connection.execute(update(tasks).values(largest_job=2)))
    assert take(2, 16) == 3


def test_a_held_job_is_driven_again_only_by_an_operator(store: Database) -> None:
    leased = lease_job(store)
    store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"exact", {}))
    store.run_sync("hold", lambda tx: hold_aggregation_job(tx, leased.lease, "garbled"))
    assert store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, 60)) == []
    store.run_sync("retry", lambda tx: retry_aggregation_job(tx, leased.job.job_id))
    assert lease_job(store).job.request == b"exact"
    assert bodies(store) == IDS


def abandon(tx: Transaction, job: AggregationJob, *, returned: bool) -> int:
    return abandon_aggregation_job(tx, job.job_id, returned=returned)


def lease_state(store: Database) -> str:
    def work(tx: Transaction) -> str:
        return str(tx.connection.execute(aggregation_jobs.select()).one().state)

    return store.read_sync("state", work)
