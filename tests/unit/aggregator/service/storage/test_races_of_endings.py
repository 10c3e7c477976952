"""Verbs that end, reopen or take back, called from eight connections at the same moment."""

from aggregator.collector.store import (
    CollectorTask,
    NewCollection,
    abandon_collection,
    fail_collection,
    finish_collection,
    put_collection,
    put_collector_task,
)
from aggregator.entropy import SystemEntropy
from aggregator.errors import StoreError
from aggregator.service.runtime.key_rotation import new_key
from aggregator.service.storage.backup.reconciliation import enter_releases
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.sums import check_unchanged
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import AGGREGATION_JOBS, store_request
from aggregator.service.storage.jobs.collection_jobs import (
    create_collection_job,
    fail_collection_job,
    finish_collection_job,
    freeze_collection_job,
)
from aggregator.service.storage.jobs.collection_room import pending_collections
from aggregator.service.storage.ledger.charges import LedgerState, list_ledger
from aggregator.service.storage.ledger.journal import Release
from aggregator.service.storage.operator.interventions import (
    abandon_aggregation_job,
    abandon_collection_job,
    retry_aggregation_job,
    retry_collection_job,
)
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.forgetting import begin_to_forget
from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs, retire_hpke_key
from aggregator.service.storage.tasks.tasks import end_task
from tests.support.racers import CONNECTIONS, Racers
from tests.support.store import (
    MAX_REPORTS,
    RESULT,
    TASK_ID,
    TENTH,
    add_to_bucket,
    adding,
    aggregate,
    collect,
    create_job,
    freeze_collection,
    lease_collection,
    lease_job,
    new_reports,
    report_id,
    totals,
    unit,
    units,
    upload,
)

MOST = 3
BATCH = units(0, 10)


def test_no_more_collections_are_pending_than_may_be(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bool:
        if pending_collections(tx, TASK_ID) >= MOST:
            return False
        create_collection_job(tx, TASK_ID, b"collect %d" % number, units(number, number + 1))
        return True

    assert racers.run(work).count(True) == MOST


def test_a_collection_begins_once_or_a_report_is_stored_first(racers: Racers) -> None:
    aggregate(racers.store, range(3))
    collect(racers.store)
    leased = lease_collection(racers.store)

    def work(tx: Transaction, number: int) -> str:
        if number % 2:
            (outcome,) = put_reports(tx, TASK_ID, new_reports([10 + number]), MAX_REPORTS)
            return "stored" if outcome is None else "refused"
        freeze_collection_job(tx, leased.lease, b"request", TENTH)
        return "frozen"

    outcomes = racers.run(work, StoreError)
    states = [each.state for each in racers.store.read_sync("ledger", list_ledger)]
    if "stored" in outcomes:
        assert ("frozen" in outcomes, states) == (False, [])
    else:
        assert (outcomes.count("frozen"), states) == (1, [LedgerState.RESERVED])


def test_a_collection_ends_once_whoever_ends_it(racers: Racers) -> None:
    aggregate(racers.store, range(3))
    job_id = collect(racers.store)
    leased = lease_collection(racers.store)
    freeze_collection(racers.store, leased)
    ends = (
        lambda tx: abandon_collection_job(tx, job_id, "{}", returned=True),
        lambda tx: abandon_collection_job(tx, job_id, "{}", returned=False),
        lambda tx: fail_collection_job(tx, leased.lease, "{}"),
        lambda tx: finish_collection_job(tx, leased.lease, RESULT),
    )

    def work(tx: Transaction, number: int) -> int:
        ends[number % 4](tx)
        return number % 4

    (winner,) = [each for each in racers.run(work, StoreError) if each is not None]
    states = [each.state for each in racers.store.read_sync("ledger", list_ledger)]
    assert states == ([] if winner in {0, 2} else [LedgerState.CHARGED])


def test_a_collection_is_retried_or_ends(racers: Racers) -> None:
    aggregate(racers.store, range(3))
    job_id = collect(racers.store)

    def work(tx: Transaction, number: int) -> bool:
        if number % 2:
            retry_collection_job(tx, job_id)
            return False
        abandon_collection_job(tx, job_id, "{}", returned=True)
        return True

    assert racers.run(work, StoreError).count(True) == 1


def test_an_aggregation_job_is_retried_or_ends(racers: Racers) -> None:
    upload(racers.store, range(10))
    job = create_job(racers.store)
    assert job is not None
    leased = lease_job(racers.store)
    racers.store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"request", {}))

    def work(tx: Transaction, number: int) -> int:
        if number % 2:
            retry_aggregation_job(tx, job.job_id)
            return 0
        return abandon_aggregation_job(tx, job.job_id, returned=False)

    assert sum(filter(None, racers.run(work, StoreError))) == 10
    assert racers.store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 5, 60)) == []


def test_a_batch_is_released_as_it_was_read_or_not_at_all(racers: Racers) -> None:
    ids = [report_id(number) for number in range(3)]
    racers.store.run_sync(
        "add", lambda tx: add_to_bucket(tx, TASK_ID, unit(5), adding(3), totals(ids))
    )
    read = totals(ids)

    def work(tx: Transaction, number: int) -> bool:
        if number == 0:
            mark_collected(tx, TASK_ID, BATCH)
            check_unchanged(tx, TASK_ID, BATCH, read)
            return True
        more = [report_id(10 + number)]
        add_to_bucket(tx, TASK_ID, unit(5), adding(1), totals(more))
        return False

    is_released, *added = racers.run(work, StoreError)
    assert bool(is_released) != (False in added)


def test_one_key_stays_advertised_however_many_are_retired(racers: Racers) -> None:
    for _ in range(CONNECTIONS):
        racers.store.run_sync("new", lambda tx: new_key(tx, SystemEntropy()))

    def work(tx: Transaction, number: int) -> bool:
        advertised = [each for each in list_hpke_configs(tx) if each.retired_at is None]
        if len(advertised) == 1:
            return False
        retire_hpke_key(tx, advertised[number % len(advertised)].config_id)
        return True

    assert racers.run(work).count(True) == CONNECTIONS - 1


def test_releases_of_a_journal_are_entered_once(racers: Racers) -> None:
    releases = [
        Release(TASK_ID, units(10 * n, 10 * n + 10), bytes([n]) * 32, TENTH, 7) for n in range(3)
    ]
    entered = racers.run(lambda tx, _: enter_releases(tx, releases))
    assert sorted(filter(None, entered)) == [3]
    assert len(racers.store.read_sync("ledger", list_ledger)) == 3


def test_a_task_is_forgotten_or_a_batch_of_it_is_being_collected(racers: Racers) -> None:
    aggregate(racers.store, range(3))
    collect(racers.store)
    leased = lease_collection(racers.store)
    racers.store.run_sync("end", lambda tx: end_task(tx, TASK_ID))

    def work(tx: Transaction, number: int) -> str:
        if number % 2:
            begin_to_forget(tx, TASK_ID)
            return "forgotten"
        freeze_collection_job(tx, leased.lease, b"request", TENTH)
        return "frozen"

    assert len({*racers.run(work, StoreError), None}) == 2


def test_a_collection_of_a_collector_ends_once(racers: Racers) -> None:
    task = CollectorTask(TASK_ID, "version = 1", "token")
    collection = NewCollection(bytes(16), TASK_ID, b"request", asks_for_next=False)
    racers.store.run_sync("task", lambda tx: put_collector_task(tx, task))
    racers.store.run_sync("collection", lambda tx: put_collection(tx, collection))
    ends = (finish_collection, fail_collection, abandon_collection)
    assert racers.run(lambda tx, n: ends[n % 3](tx, bytes(16), "{}")).count(True) == 1


def test_a_collectors_task_has_one_token(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bool:
        put_collector_task(tx, CollectorTask(TASK_ID, "version = 1", f"token {number % 2}"))
        return True

    assert racers.run(work, Conflict).count(True) == CONNECTIONS // 2
