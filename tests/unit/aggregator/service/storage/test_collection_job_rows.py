from collections.abc import Callable

import pytest

from aggregator.protocol.groups import cost_of_a_person
from aggregator.service.storage.batches.closed import BatchClosed, closed_batches
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import BatchState, CollectionJobState, LedgerState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.collection_jobs import (
    COLLECTION_JOBS,
    BatchBusy,
    CollectionJob,
    create_collection_job,
    delete_collection_job,
    fail_collection_job,
    find_collection_job,
    finish_collection_job,
    freeze_collection_job,
    get_collection_job,
    note_refusal,
    store_share_location,
)
from aggregator.service.storage.jobs.leases import Lease, LeaseLost
from aggregator.service.storage.ledger.charges import costs_in, list_ledger, releases_made
from aggregator.service.storage.operator.interventions import retry_collection_job
from tests.support.clock import ManualClock
from tests.support.store import (
    RESULT,
    TASK_ID,
    TENTH,
    aggregate,
    collect,
    create_job,
    finish_job,
    freeze_collection,
    lease_collection,
    lease_job,
    read_shares,
    units,
    upload,
)


def job(store: Database, job_id: bytes) -> CollectionJob:
    found = store.read_sync("get", lambda tx: get_collection_job(tx, TASK_ID, job_id))
    assert found is not None
    return found


def batch_state(store: Database) -> BatchState | None:
    return store.read_sync("state", lambda tx: closed_batches(tx, TASK_ID, units(0, 10)).overall())


def ledger_states(store: Database) -> list[LedgerState]:
    return [one.state for one in store.read_sync("list", lambda tx: list_ledger(tx, TASK_ID))]


def shares(store: Database) -> list[bytes]:
    return store.read_sync("shares", lambda tx: read_shares(tx, TASK_ID, units(0, 10)))


def release(store: Database) -> bytes:
    """Take a batch of three reports through both transactions; return the job's id."""
    aggregate(store, range(3))
    job_id = collect(store)
    leased = lease_collection(store)
    freeze_collection(store, leased)
    store.run_sync("finish", lambda tx: finish_collection_job(tx, leased.lease, RESULT))
    return job_id


def test_the_same_request_finds_the_same_job(store: Database) -> None:
    first = collect(store, b"request")
    assert collect(store, b"request") == first
    assert collect(store, b"another") != first
    found = store.read_sync("find", lambda tx: find_collection_job(tx, TASK_ID, b"request"))
    assert found == job(store, first)


def test_a_release_takes_two_transactions(store: Database) -> None:
    aggregate(store, range(3))
    job_id = collect(store)
    leased = lease_collection(store)
    assert leased.job == job(store, job_id)

    freeze_collection(store, leased)
    frozen = job(store, job_id)
    assert (frozen.state, frozen.aggregate_share_request) == (
        CollectionJobState.FROZEN,
        b"share request",
    )
    assert (batch_state(store), ledger_states(store)) == (
        BatchState.FROZEN,
        [LedgerState.RESERVED],
    )
    assert shares(store) == [b"3"]

    store.run_sync("finish", lambda tx: finish_collection_job(tx, leased.lease, RESULT))
    finished = job(store, job_id)
    assert (finished.state, finished.result) == (CollectionJobState.FINISHED, RESULT)
    assert (batch_state(store), ledger_states(store)) == (
        BatchState.COLLECTED,
        [LedgerState.CHARGED],
    )
    assert shares(store) == []
    assert store.run_sync("lease", lambda tx: COLLECTION_JOBS.lease(tx, 9, 60)) == []


def test_a_finished_job_is_repeated_until_it_is_deleted(store: Database) -> None:
    job_id = release(store)
    assert collect(store) == job_id
    assert job(store, job_id).result == RESULT


def test_a_deleted_job_has_lost_its_shares_and_its_batch_stays_collected(store: Database) -> None:
    job_id = release(store)

    def delete() -> bool:
        return store.run_sync("delete", lambda tx: delete_collection_job(tx, TASK_ID, job_id))

    assert delete()
    assert not delete()
    assert job(store, job_id).result is None
    second = collect(store)
    assert second != job_id
    with pytest.raises(BatchClosed) as caught:
        freeze_collection(store, lease_collection(store))
    assert caught.value.state is BatchState.COLLECTED
    assert job(store, second).state is CollectionJobState.START
    assert ledger_states(store) == [LedgerState.CHARGED]


def test_deleting_what_does_not_exist_deletes_nothing(store: Database) -> None:
    assert not store.run_sync("delete", lambda tx: delete_collection_job(tx, TASK_ID, b"?" * 16))


def test_a_refused_release_opens_the_batch_and_costs_nothing(store: Database) -> None:
    aggregate(store, range(3))
    first = collect(store)
    leased = lease_collection(store)
    freeze_collection(store, leased)
    store.run_sync("fail", lambda tx: fail_collection_job(tx, leased.lease, '{"type": "t"}'))
    failed = job(store, first)
    assert (failed.state, failed.problem) == (CollectionJobState.FAILED, '{"type": "t"}')
    assert (batch_state(store), ledger_states(store), shares(store)) == (None, [], [b"3"])

    aggregate(store, range(3, 5))
    second = collect(store)
    assert second != first
    freeze_collection(store, lease_collection(store))
    assert shares(store) == [b"5"]


def test_a_job_that_fails_before_freezing_leaves_the_batch_open(store: Database) -> None:
    aggregate(store, range(3))
    collect(store)
    leased = lease_collection(store)
    store.run_sync("fail", lambda tx: fail_collection_job(tx, leased.lease, "{}"))
    assert (batch_state(store), shares(store)) == (None, [b"3"])


def test_deleting_a_frozen_job_burns_its_batch(store: Database) -> None:
    aggregate(store, range(3))
    job_id = collect(store)
    leased = lease_collection(store)
    freeze_collection(store, leased)
    assert store.run_sync("delete", lambda tx: delete_collection_job(tx, TASK_ID, job_id))
    assert (batch_state(store), ledger_states(store), shares(store)) == (
        BatchState.COLLECTED,
        [LedgerState.CHARGED],
        [],
    )
    with pytest.raises(LeaseLost):
        store.run_sync("finish", lambda tx: finish_collection_job(tx, leased.lease, RESULT))
    assert job(store, job_id).result is None


@pytest.mark.parametrize("claimed", [False, True])
def test_a_batch_is_not_frozen_before_its_reports_are_aggregated(
    store: Database, *, claimed: bool
) -> None:
    upload(store, range(2), time=9)
    upload(store, range(2, 4), time=10)
    if claimed:
        create_job(store)
    collect(store)
    leased = lease_collection(store)
    with pytest.raises(BatchBusy, match="2 reports"):
        freeze_collection(store, leased)
    assert (batch_state(store), ledger_states(store)) == (None, [])
    if not claimed:
        create_job(store)
    finish_job(store, lease_job(store))
    freeze_collection(store, leased)


def test_two_overlapping_jobs_are_not_frozen_together(store: Database) -> None:
    first, second = collect(store, b"1", 0, 10), collect(store, b"2", 9, 20)
    freeze_collection(store, lease_collection(store))
    with pytest.raises(BatchClosed) as caught:
        freeze_collection(store, lease_collection(store))
    assert caught.value.state is BatchState.FROZEN
    states = [job(store, one).state for one in (first, second)]
    assert states == [CollectionJobState.FROZEN, CollectionJobState.START]


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb",
    [
        lambda tx, lease: freeze_collection_job(tx, lease, b"other request", TENTH),
        lambda tx, lease: finish_collection_job(tx, lease, RESULT),
        lambda tx, lease: fail_collection_job(tx, lease, "{}"),
        lambda tx, lease: COLLECTION_JOBS.release(tx, lease, 0),
        lambda tx, lease: store_share_location(tx, lease, "/elsewhere"),
    ],
    ids=["freeze", "finish", "fail", "release", "locate"],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_driver_that_slept_past_its_lease_releases_nothing(
    store: Database,
    clock: ManualClock,
    verb: Callable[[Transaction, Lease], None],
    *,
    frozen: bool,
) -> None:
    aggregate(store, range(3))
    job_id = collect(store)
    sleeper = lease_collection(store)
    if frozen:
        freeze_collection(store, sleeper)
    clock.advance(60)
    holder = lease_collection(store)
    before = job(store, job_id), batch_state(store), ledger_states(store), shares(store)
    with pytest.raises(LeaseLost):
        store.run_sync("late", lambda tx: verb(tx, sleeper.lease))
    assert (job(store, job_id), batch_state(store), ledger_states(store), shares(store)) == before
    if not frozen:
        freeze_collection(store, holder)
    store.run_sync("finish", lambda tx: finish_collection_job(tx, holder.lease, RESULT))


def test_a_request_is_frozen_once_and_survives_its_driver(
    store: Database, clock: ManualClock
) -> None:
    collect(store)
    leased = lease_collection(store)
    freeze_collection(store, leased)
    with pytest.raises(LeaseLost):
        freeze_collection(store, leased)
    store.run_sync("where", lambda tx: store_share_location(tx, leased.lease, "/shares/1"))
    clock.advance(60)
    successor = lease_collection(store)
    assert successor.job.aggregate_share_request == b"share request"
    assert successor.job.helper_location == "/shares/1"
    assert ledger_states(store) == [LedgerState.RESERVED]


def test_a_released_job_waits(store: Database, clock: ManualClock) -> None:
    collect(store)
    leased = lease_collection(store)
    store.run_sync("release", lambda tx: COLLECTION_JOBS.release(tx, leased.lease, 30))
    assert store.run_sync("lease", lambda tx: COLLECTION_JOBS.lease(tx, 1, 60)) == []
    clock.advance(30)
    assert lease_collection(store).lease.attempts == 2


def test_a_retry_forgets_the_refusals_so_far_and_takes_no_lease_from_a_driver(
    store: Database, clock: ManualClock
) -> None:
    job_id = collect(store)
    leased = lease_collection(store)
    store.run_sync("refused", lambda tx: note_refusal(tx, leased.lease))
    clock.advance(20)
    store.run_sync("retry", lambda tx: retry_collection_job(tx, job_id))
    assert store.run_sync("lease", lambda tx: COLLECTION_JOBS.lease(tx, 1, 60)) == []
    clock.advance(20)
    assert store.run_sync("refused", lambda tx: note_refusal(tx, leased.lease)) == 0
    store.run_sync("release", lambda tx: COLLECTION_JOBS.release(tx, leased.lease, 1_000))
    store.run_sync("retry", lambda tx: retry_collection_job(tx, job_id))
    assert lease_collection(store).job.job_id == job_id


def test_a_reservation_counts_as_spent(store: Database) -> None:
    collect(store)
    freeze_collection(store, lease_collection(store))
    assert store.read_sync("count", lambda tx: releases_made(tx, TASK_ID)) == 1
    spent = store.read_sync("spent", lambda tx: cost_of_a_person(costs_in(tx, TENTH.population)))
    assert spent == TENTH.cost


def test_sealed_shares_are_not_shown(store: Database) -> None:
    job_id = release(store)
    assert "sealed share" not in repr(job(store, job_id))


def test_a_collection_over_all_time_is_possible(store: Database) -> None:
    aggregate(store, range(3), time=2**63 + 5)
    found = store.run_sync(
        "collect", lambda tx: create_collection_job(tx, TASK_ID, b"all", units(0, 2**64 - 1))
    )
    freeze_collection(store, lease_collection(store))
    frozen = job(store, found.job_id)
    assert frozen.batch == units(0, 2**64 - 1)
