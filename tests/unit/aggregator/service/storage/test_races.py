"""Verbs that look before they write, called from eight connections at the same moment."""

import dataclasses
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, select

from aggregator.cli.service.parties import AggregatorParty
from aggregator.cli.service.taking_part import take_part
from aggregator.collector.store import (
    CollectorTask,
    NewCollection,
    list_collections,
    put_collection,
    put_collector_task,
)
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.dap.report_errors import ReportError
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError, StoreError
from aggregator.protocol.provisioning import provision
from aggregator.service.config import HelperSettings
from aggregator.service.runtime.key_rotation import new_key
from aggregator.service.storage.batches.closed import BatchClosed, freeze, mark_collected
from aggregator.service.storage.batches.selected import batch_with_room, next_batch
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionJobState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregate_shares import NewAggregateShare, put_aggregate_share
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    create_aggregation_job,
    finish_aggregation_job,
    store_request,
)
from aggregator.service.storage.jobs.answered_jobs import find_answered_job, put_answered_job
from aggregator.service.storage.jobs.collection_jobs import (
    COLLECTION_JOBS,
    BatchBusy,
    create_collection_job,
    delete_collection_job,
    finish_collection_job,
    get_collection_job,
    select_batch,
)
from aggregator.service.storage.jobs.job_shares import JobShare, leave_out, put_job_shares
from aggregator.service.storage.jobs.leases import LeaseLost
from aggregator.service.storage.ledger import charges as ledger
from aggregator.service.storage.ledger.journal import Owner
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.ledger.populations import Population, get_population, put_population
from aggregator.service.storage.operator.interventions import abandon_aggregation_job
from aggregator.service.storage.reports.claims import JobSize
from aggregator.service.storage.reports.counters import DROPPED, Stage, report_counts
from aggregator.service.storage.reports.ids import admit
from aggregator.service.storage.reports.rejected import remember_rejected
from aggregator.service.storage.reports.rejecting import drop_reports
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.caller_tokens import (
    add_caller_token,
    end_caller_token,
    list_caller_tokens,
    put_caller_token,
)
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs
from aggregator.service.storage.tasks.tasks import TaskRecord, end_task, list_tasks, put_task
from tests.support.entropy import SeededEntropy
from tests.support.racers import CONNECTIONS, PAUSE_SECONDS, Racers
from tests.support.store import (
    MAX_REPORTS,
    RESULT,
    TASK_ID,
    TENTH,
    VERIFY_KEY,
    add_to_bucket,
    adding,
    aggregate,
    collect,
    create_job,
    freeze_collection,
    lease_collection,
    lease_job,
    new_reports,
    read_shares,
    record_fresh,
    report_id,
    reports_in,
    totals,
    unit,
    units,
    upload,
)
from tests.support.tasks import LAPLACE, make_task


def test_a_report_that_all_upload_is_stored_once(racers: Racers) -> None:
    reports = new_reports(range(20))
    results = racers.run(
        lambda tx, n: put_reports(
            tx, TASK_ID, reports if n % 2 else reports[::-1], MAX_REPORTS
        ).count(None)
    )
    assert sum(filter(None, results)) == 20
    counts = racers.store.read_sync("c", lambda tx: report_counts(tx, TASK_ID, Stage.UPLOAD))
    assert counts == {"stored": 20, "report_replayed": 140}


def test_reports_that_are_free_again_and_that_all_upload_are_stored_once(racers: Racers) -> None:
    """Whoever comes second is not told that they do not count."""
    reports = new_reports(range(20))
    upload(racers.store, range(20))
    job = create_job(racers.store)
    assert job is not None

    def give_up(tx: Transaction) -> None:
        drop_reports(tx, TASK_ID, job.key)
        whole = {each.report_id: hashlib.sha256(each.body).digest() for each in reports}
        remember_rejected(tx, tx.task_key(TASK_ID), dict.fromkeys(whole, DROPPED), whole)

    racers.store.run_sync("give up", give_up)
    ample = 10**6  # or else the batch's room would let one in after the other
    results = racers.run(
        lambda tx, n: put_reports(tx, TASK_ID, reports if n % 2 else reports[::-1], ample)
    )
    told = Counter(error for errors in results for error in errors or ())
    assert told == {None: 20, ReportError.REPORT_REPLAYED: 140}


def test_uploads_at_once_do_not_overfill_a_bucket(racers: Racers) -> None:
    results = racers.run(
        lambda tx, n: put_reports(tx, TASK_ID, new_reports(range(10 * n, 10 * n + 10)), 35).count(
            None
        )
    )
    assert sum(filter(None, results)) == 35


def test_a_batch_is_not_frozen_while_a_report_of_it_is_being_stored(racers: Racers) -> None:
    aggregate(racers.store, range(3))
    is_stored = threading.Event()

    def slow_upload(tx: Transaction) -> None:
        put_reports(tx, TASK_ID, new_reports([3]), MAX_REPORTS)
        is_stored.set()
        time.sleep(10 * PAUSE_SECONDS)

    uploader = threading.Thread(target=racers.store.run_sync, args=("upload", slow_upload))
    uploader.start()
    is_stored.wait()
    (other, *_) = racers.stores
    collect(other)
    with pytest.raises(BatchBusy):
        freeze_collection(other, lease_collection(other))
    uploader.join()


def test_what_all_add_to_a_bucket_is_in_it(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> None:
        ids = [report_id(number)]
        record_fresh(tx, ids)
        add_to_bucket(tx, TASK_ID, unit(5), adding(1), totals(ids))

    racers.run(work)
    batch = units(0, 10)
    assert summed(racers.store) == 8
    summary = racers.store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, batch))
    assert summary == totals([report_id(number) for number in range(CONNECTIONS)])


def test_nothing_is_added_to_a_batch_that_is_being_collected(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> list[bytes]:
        if number == CONNECTIONS // 2:
            shares = read_shares(tx, TASK_ID, units(0, 10))
            mark_collected(tx, TASK_ID, units(0, 10))
            return shares
        ids = [report_id(number)]
        add_to_bucket(tx, TASK_ID, unit(5), adding(1), totals(ids))
        return []

    racers.run(work, BatchClosed)
    left = racers.store.read_sync("left", lambda tx: read_shares(tx, TASK_ID, units(0, 10)))
    assert left == []


def test_batches_that_overlap_are_not_both_frozen(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bool:
        freeze(tx, TASK_ID, units(number, number + 10))
        return True

    assert racers.run(work, BatchClosed).count(True) == 1


def test_a_report_goes_into_one_job(racers: Racers) -> None:
    upload(racers.store, range(50))
    size = JobSize(10, 10_000)
    jobs = racers.run(lambda tx, _: create_aggregation_job(tx, TASK_ID, size))
    made = [job.key for job in jobs if job is not None]
    assert len(made) == 5
    members = [{each.report_id for each in reports_in(racers.store, key)} for key in made]
    assert sorted(map(len, members)) == [10] * 5
    assert len(set.union(*members)) == 50


def test_a_batch_that_the_leader_fills_is_not_overfilled(racers: Racers) -> None:
    upload_without_bucket(racers.store, 50)

    def work(tx: Transaction, _: int) -> bytes:
        bucket, room = batch_with_room(tx, TASK_ID, 20)
        job = create_aggregation_job(tx, TASK_ID, JobSize(min(room, 5), 10_000), bucket=bucket)
        assert job is not None
        return bucket

    buckets = racers.run(work)
    assert sorted(buckets.count(bucket) for bucket in set(buckets)) == [4, 4]


def test_a_batch_is_selected_for_one_collection(racers: Racers) -> None:
    for number in range(CONNECTIONS):
        racers.store.run_sync(
            "collect", lambda tx, n=number: create_collection_job(tx, TASK_ID, b"%d" % n, None)
        )
    leases = [
        leased.lease
        for leased in racers.store.run_sync(
            "lease", lambda tx: COLLECTION_JOBS.lease(tx, CONNECTIONS, 60)
        )
    ]
    for time_ in range(3):
        aggregate(racers.store, range(10 * time_, 10 * time_ + 5), time_)

    def work(tx: Transaction, number: int) -> bytes | None:
        batch = next_batch(tx, TASK_ID, 5)
        if batch is None:
            return None
        select_batch(tx, leases[number], batch)
        return batch.first

    selected = [first for first in racers.run(work) if first is not None]
    assert sorted(selected) == [unit(0), unit(1), unit(2)]


def test_a_job_is_leased_once(racers: Racers) -> None:
    upload(racers.store, range(40))
    for _ in range(20):
        create_job(racers.store, limit=2)
    results = racers.run(
        lambda tx, _: [leased.job.key for leased in AGGREGATION_JOBS.lease(tx, 20, 60)]
    )
    leased = [key for keys in results if keys is not None for key in keys]
    assert len(leased) == len(set(leased))
    rest = racers.store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 20, 60))
    assert len(leased) + len(rest) == 20


def test_a_budget_is_not_spent_twice(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bool:
        freeze(tx, TASK_ID, units(10 * number, 10 * number + 10))
        if ledger.releases_made(tx, TASK_ID) >= 3:
            return False
        ledger.reserve(tx, TASK_ID, units(10 * number, 10 * number + 10), TENTH)
        return True

    assert racers.run(work).count(True) == 3


def test_what_a_population_may_spend_is_fixed_before_its_first_release(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bool:
        if number % 2:
            put_population(tx, TENTH.population, Population(is_closed=True))
            return True
        is_closed = get_population(tx, TENTH.population).is_closed
        batch = units(10 * number, 10 * number + 10)
        if not is_closed:
            ledger.charge(tx, TASK_ID, batch, TENTH)
        return is_closed

    results = racers.run(work, Conflict)
    is_closed = racers.store.read_sync(
        "get", lambda tx: get_population(tx, TENTH.population).is_closed
    )
    # Either it was closed before all releases, or a release came first and it is not closed.
    assert set(results) == ({True} if is_closed else {False, None})


def test_a_job_is_left_out_once(racers: Racers) -> None:
    def add(tx: Transaction, number: int) -> None:
        ids = [report_id(number)]
        add_to_bucket(tx, TASK_ID, unit(5), adding(1), totals(ids))
        put_job_shares(tx, TASK_ID, [JobShare(unit(5), bytes([number]) * 32, b"1", totals(ids))])

    def merge(shares: Sequence[bytes]) -> bytes:
        return b"%d" % sum(map(int, shares))

    batch = units(0, 10)
    racers.run(add)
    left = racers.run(lambda tx, n: leave_out(tx, TASK_ID, batch, bytes([n // 2]) * 32, merge))
    assert sorted(filter(None, left)) == [1] * 4
    assert summed(racers.store) == 4


def test_a_job_that_is_given_up_while_it_ends_counts_its_reports_once(racers: Racers) -> None:
    upload(racers.store, range(10))
    job = create_job(racers.store)
    assert job is not None
    leased = lease_job(racers.store)
    racers.store.run_sync("send", lambda tx: store_request(tx, leased.lease, b"request", {}))

    def work(tx: Transaction, number: int) -> int:
        if number % 2:
            return abandon_aggregation_job(tx, job.job_id, returned=False)
        ids = [report_id(each) for each in range(10)]
        finish_aggregation_job(tx, leased.lease, ids, {})
        return 10

    assert sum(filter(None, racers.run(work, StoreError))) == 10
    counts = racers.store.read_sync(
        "count", lambda tx: report_counts(tx, TASK_ID, Stage.AGGREGATION)
    )
    assert sum(counts.values()) == 10


def test_a_collection_is_made_once(racers: Racers) -> None:
    batch = units(0, 10)
    jobs = racers.run(lambda tx, _: create_collection_job(tx, TASK_ID, b"collect", batch).job_id)
    assert len(set(jobs)) == 1


def test_a_collection_that_is_deleted_while_it_ends_shows_nothing(racers: Racers) -> None:
    aggregate(racers.store, range(3))
    job_id = collect(racers.store)
    leased = lease_collection(racers.store)
    freeze_collection(racers.store, leased)

    def work(tx: Transaction, number: int) -> bool:
        if number % 2:
            return delete_collection_job(tx, TASK_ID, job_id)
        finish_collection_job(tx, leased.lease, RESULT)
        return True

    results = racers.run(work, LeaseLost)
    assert results[::2].count(True) <= 1
    assert results[1::2].count(True) == 1
    job = racers.store.read_sync("get", lambda tx: get_collection_job(tx, TASK_ID, job_id))
    assert job is not None
    assert (job.state, job.result) == (CollectionJobState.DELETED, None)
    assert racers.store.read_sync("spent", lambda tx: ledger.releases_made(tx, TASK_ID)) == 1


def test_a_request_is_answered_once(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bytes:
        found = find_answered_job(tx, TASK_ID, bytes(32))
        if found is not None:
            return found.response
        return put_answered_job(tx, TASK_ID, bytes(32), b"%d" % number).response

    assert len(set(racers.run(work))) == 1


def test_a_batch_is_released_once(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bytes | None:
        share = NewAggregateShare(
            b"selector %d" % number, bytes(32), b"%d" % number, units(number, number + 10), 3
        )
        return put_aggregate_share(tx, TASK_ID, share, TENTH).response

    assert racers.run(work, BatchClosed).count(None) == CONNECTIONS - 1
    assert racers.store.read_sync("spent", lambda tx: ledger.releases_made(tx, TASK_ID)) == 1


def test_a_task_is_stored_once_and_with_one_verification_key(racers: Racers) -> None:
    def work(tx: Transaction, number: int) -> bool:
        key = VERIFY_KEY if number % 2 else VERIFY_KEY[::-1]
        put_task(tx, TaskRecord(b"?" * 32, "helper", "version = 1", key))
        return True

    assert racers.run(work, Conflict).count(True) == CONNECTIONS // 2
    assert len(racers.store.read_sync("list", list_tasks)) == 2


def test_a_first_key_pair_is_made_once(racers: Racers) -> None:
    def work(tx: Transaction, _: int) -> bool:
        if list_hpke_configs(tx):
            return False
        new_key(tx, SystemEntropy())
        return True

    assert racers.run(work).count(True) == 1
    assert len(racers.store.read_sync("list", list_hpke_configs)) == 1


def test_a_task_comes_with_one_token(racers: Racers) -> None:
    racers.run(lambda tx, n: put_caller_token(tx, TASK_ID, bytes([n]) * 32), Conflict)
    tokens = racers.store.read_sync("list", lambda tx: list_caller_tokens(tx, TASK_ID))
    assert len(tokens) == 1


def test_one_token_without_an_end_is_left(racers: Racers) -> None:
    for number in range(CONNECTIONS):
        racers.store.run_sync(
            "add", lambda tx, n=number: add_caller_token(tx, TASK_ID, bytes([n]) * 32)
        )
    racers.run(lambda tx, n: end_caller_token(tx, TASK_ID, bytes([n]) * 32, 60), Conflict)
    tokens = racers.store.read_sync("list", lambda tx: list_caller_tokens(tx, TASK_ID))
    assert [token.expires_at for token in tokens].count(None) == 1


def test_a_batch_is_asked_for_once(racers: Racers) -> None:
    task = CollectorTask(TASK_ID, "version = 1", "token")
    racers.store.run_sync("task", lambda tx: put_collector_task(tx, task))
    results = racers.run(
        lambda tx, n: (
            put_collection(
                tx, NewCollection(bytes([n]) * 16, TASK_ID, b"request", asks_for_next=False)
            ).collection_id
        )
    )
    assert len(set(results)) == 1
    assert len(racers.store.read_sync("list", list_collections)) == 1


def summed(store: Database) -> int:
    """Return what the un-noised shares of all shards of all buckets add up to."""
    shares = store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 10)))
    return sum(map(int, shares))


STORES: dict[str, Callable[[Transaction], object]] = {
    "upload": lambda tx: put_reports(tx, TASK_ID, new_reports([3]), MAX_REPORTS),
    "aggregated": lambda tx: admit(
        tx, tables.aggregated_reports, TASK_ID, [(report_id(3), unit(5))], [0], (), {}
    ),
    "collection": lambda tx: create_collection_job(tx, TASK_ID, b"collect", units(0, 10)),
    "token": lambda tx: add_caller_token(tx, TASK_ID, bytes(32)),
}


@pytest.mark.parametrize("verb", STORES)
def test_what_is_being_stored_while_its_task_is_forgotten_goes_too(
    racers: Racers, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    racers.store.run_sync("first", lambda tx: put_caller_token(tx, TASK_ID, b"\x01" * 32))
    racers.store.run_sync("end", lambda tx: end_task(tx, TASK_ID))
    has_looked, look = threading.Event(), Transaction.task_key

    def look_slowly(tx: Transaction, task_id: bytes) -> int:
        key = look(tx, task_id)
        if threading.current_thread() is storer and not has_looked.is_set():
            has_looked.set()
            time.sleep(10 * PAUSE_SECONDS)
        return key

    monkeypatch.setattr(Transaction, "task_key", look_slowly)
    storer = threading.Thread(target=racers.store.run_sync, args=("store", STORES[verb]))
    storer.start()
    has_looked.wait()
    forget(racers.stores[0], TASK_ID)
    storer.join()
    for table in (each for each in tables.metadata.sorted_tables if "task" in each.c):
        query = select(func.count()).select_from(table)
        left = racers.store.read_sync("left", lambda tx, q=query: tx.connection.scalar(q))
        assert left == 0, table.name


def upload_without_bucket(store: Database, count: int) -> None:
    reports = [dataclasses.replace(each, bucket=b"") for each in new_reports(range(count))]
    store.run_sync("upload", lambda tx: put_reports(tx, TASK_ID, reports, MAX_REPORTS))


def test_tasks_of_a_group_that_are_added_at_once_are_alike(racers: Racers, tmp_path: Path) -> None:
    """Or a population's budget counts as one place of a group what two sorts of noise cost."""
    journal = JournalFile(tmp_path / "journal")
    journal.create(Owner("leader", 2))

    def add(number: int) -> tuple[bool, bool]:
        epsilon = number % 2 + 1
        privacy = {**LAPLACE, "epsilon": str(epsilon), "group": "words", "group_place": number}
        task = make_task(privacy=privacy, id=str(TaskId(bytes([number]) * 32)))
        settings = HelperSettings(database="none")
        party = AggregatorParty(Role.HELPER, settings, racers.stores[number], journal)
        together.wait()
        try:
            take_part(party, provision(task, SeededEntropy(number))[Role.HELPER])
        except ParameterError:
            return epsilon == 1, False
        return epsilon == 1, True

    together = threading.Barrier(CONNECTIONS)
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        found = [kind for kind, is_added in threads.map(add, range(CONNECTIONS)) if is_added]
    assert len(found) == CONNECTIONS // 2
    assert len(set(found)) == 1
