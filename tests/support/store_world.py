"""A leader and a helper over two stores, without protocol or HTTP, to be killed at any moment.

Out shares are ones, noise is a random number and sealing is the identity, so that only the order of
the transactions is left. `run` may be called again after each crash, like restarted services; at
the end every report is counted once per side, and each side has shown only one noised share.
"""

import hashlib
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from aggregator.dap.times import Interval
from aggregator.service.storage.backup.reconciliation import reconcile, write_down_share
from aggregator.service.storage.batches.closed import BatchClosed, closed_batches
from aggregator.service.storage.batches.leftovers import delete_some_leftovers, has_leftovers
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregate_shares import (
    NewAggregateShare,
    find_aggregate_share,
    put_aggregate_share,
)
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    AggregationJob,
    create_aggregation_job,
    finish_aggregation_job,
    store_request,
)
from aggregator.service.storage.jobs.answered_jobs import find_answered_job, put_answered_job
from aggregator.service.storage.jobs.collection_jobs import (
    COLLECTION_JOBS,
    CollectionJob,
    CollectionResult,
    create_collection_job,
    finish_collection_job,
    freeze_collection_job,
    get_collection_job,
)
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.storage.ledger.journal import share_sha256
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.reports.claims import JobSize, reports_of_job
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.secrets.crypter import Crypter
from tests.support.balance import check_books
from tests.support.clock import ManualClock
from tests.support.store import (
    MAX_REPORTS,
    STORE_KEY,
    TASK_ID,
    TENTH,
    add_to_bucket,
    adding,
    make_store,
    new_reports,
    read_shares,
    record_fresh,
    report_id,
    store_url,
    totals,
    unit,
    units,
)

REPORTS = 7
JOB_SIZE = JobSize(4, 10_000)
LEASE_SECONDS = 60
BATCH = units(0, 10)
IDS = [report_id(number) for number in range(REPORTS)]
Hook = Callable[[str, str], None]
READS = ("load", "poll", "look", "list", "find")
"""How the names of transactions begin that only read."""


def make_world(folder: Path) -> None:
    """Make both stores with the task."""
    for name in ("leader", "helper"):
        make_store(folder / name).close()


class World:
    """Both services over the stores in `folder`; `shown` is everything that ever left them."""

    def __init__(self, folder: Path, clock: ManualClock, hook: Hook) -> None:
        is_open = False

        def moment(transaction: str, name: str) -> None:
            if is_open:
                hook(transaction, name)

        clock.advance(LEASE_SECONDS)  # a successor waits until the leases of dead processes expire
        self.leader, self.helper = (
            Database.open(store_url(folder / name), Crypter([STORE_KEY]), clock, moment)
            for name in ("leader", "helper")
        )
        self.journals = [JournalFile(folder / f"{name}.journal") for name in ("leader", "helper")]
        self.shown: set[bytes] = set()
        stores = ((self.leader, "leader"), (self.helper, "helper"))
        for (store, role), journal in zip(stores, self.journals, strict=True):
            reconcile(store, role, journal)
        self.leader.read_sync("books", lambda tx: check_books(tx, TASK_ID))
        is_open = True

    def close(self) -> None:
        self.leader.close()
        self.helper.close()

    def run(self) -> CollectionResult:
        """Do everything that is left to do, and return what the Collector gets."""
        self.aggregate()
        return self.collect()

    def aggregate(self) -> None:
        """Upload the reports and add them up."""
        reports = new_reports(range(REPORTS))
        for half in (reports[:3], reports[3:]):  # a client that got no answer asks again
            self.leader.run_sync(
                "upload", lambda tx, r=half: put_reports(tx, TASK_ID, r, MAX_REPORTS)
            )
        while self.leader.run_sync(
            "create job", lambda tx: create_aggregation_job(tx, TASK_ID, JOB_SIZE)
        ):
            pass
        for leased in self.leader.run_sync(
            "lease jobs", lambda tx: AGGREGATION_JOBS.lease(tx, 10, LEASE_SECONDS)
        ):
            self._aggregate(leased)

    def collect(self) -> CollectionResult:
        """Ask for the batch, and return what the Collector gets."""
        job = self.leader.run_sync(
            "create collection",
            lambda tx: create_collection_job(tx, TASK_ID, b"collect", BATCH),
        )
        for collection in self.leader.run_sync(
            "lease collections", lambda tx: COLLECTION_JOBS.lease(tx, 10, LEASE_SECONDS)
        ):
            self._collect(collection)
        for store in (self.leader, self.helper):
            while store.read_sync("look for leftovers", has_leftovers):
                store.run_sync("delete leftovers", delete_some_leftovers)
        polled = self.leader.read_sync(
            "poll", lambda tx: get_collection_job(tx, TASK_ID, job.job_id)
        )
        if polled is None or polled.result is None:
            raise AssertionError("the collection is not finished")
        self._show(self.leader, polled.result.leader_share)
        return polled.result

    def _aggregate(self, leased: Leased[AggregationJob]) -> None:
        reports = self.leader.read_sync("load", lambda tx: reports_of_job(tx, leased.job.key))
        ids = reports.ids
        request = leased.job.request
        if request is None:
            request = b"".join(ids)
            self.leader.run_sync(
                "store request", lambda tx: store_request(tx, leased.lease, request, {})
            )
        if request != b"".join(ids):
            raise AssertionError("the reports are not those of the stored request")
        response = self.helper.run_sync("answer job", lambda tx: self._answer(tx, request))
        if response != request:
            raise AssertionError("the helper rejected a report")

        def finish(tx: Transaction) -> None:
            add_to_bucket(tx, TASK_ID, unit(5), adding(len(ids)), totals(ids))
            finish_aggregation_job(tx, leased.lease, ids, {})

        self.leader.run_sync("finish job", finish)

    @staticmethod
    def _answer(tx: Transaction, request: bytes) -> bytes:
        digest = hashlib.sha256(request).digest()
        known = find_answered_job(tx, TASK_ID, digest)
        if known is not None:
            return known.response
        ids = [request[i : i + 16] for i in range(0, len(request), 16)]
        fresh = record_fresh(tx, ids)
        add_to_bucket(tx, TASK_ID, unit(5), adding(len(fresh)), totals(fresh))
        response = b"".join(fresh)
        put_answered_job(tx, TASK_ID, digest, response)
        return response

    def _collect(self, leased: Leased[CollectionJob]) -> None:
        request = leased.job.aggregate_share_request
        if request is None:

            def freeze(tx: Transaction) -> bytes:
                batch = summarize_batch(tx, TASK_ID, BATCH)
                request = b"%d:" % batch.report_count + batch.checksum
                freeze_collection_job(tx, leased.lease, request, TENTH)
                return request

            request = self.leader.run_sync("freeze", freeze)
        helper_share = self.helper.run_sync("release", lambda tx: self._release(tx, request))
        self._show(self.helper, helper_share)

        def finish(tx: Transaction) -> None:
            share = noised(b"leader", tx)
            result = CollectionResult(REPORTS, Interval.of(5, 1), share, helper_share)
            finish_collection_job(tx, leased.lease, result)

        self.leader.run_sync("finish collection", finish)

    def _show(self, store: Database, share: bytes) -> None:
        journal = self.journals[0 if store is self.leader else 1]
        write_down_share(store, journal, TASK_ID, share_sha256(share))
        self.shown.add(share)

    @staticmethod
    def _release(tx: Transaction, request: bytes) -> bytes:
        known = find_aggregate_share(tx, TASK_ID, b"selector")
        if known is not None and known.response is not None:
            return known.response
        closed = closed_batches(tx, TASK_ID, BATCH).overall()
        if closed is not None:
            raise tx.refuse(BatchClosed(closed))
        batch = summarize_batch(tx, TASK_ID, BATCH)
        if request != b"%d:" % batch.report_count + batch.checksum:
            raise AssertionError("the two aggregators counted different reports")
        digest = hashlib.sha256(request).digest()
        response = noised(b"helper", tx)
        share = NewAggregateShare(b"selector", digest, response, BATCH, batch.report_count)
        put_aggregate_share(tx, TASK_ID, share, TENTH)
        return response


def noised(name: bytes, tx: Transaction) -> bytes:
    """Return a stand-in for a sealed share: whose it is, the sum, and fresh noise."""
    (share,) = read_shares(tx, TASK_ID, BATCH)
    return b" ".join((name, share, secrets.token_hex(16).encode()))


def main() -> None:
    """Run the world in the folder given first, and kill it at the moment numbered second."""
    folder, moment, now = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    moments = iter(range(moment))

    def kill(_name: str, _moment: str) -> None:
        if next(moments, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    World(folder, ManualClock(now), kill).run()


if __name__ == "__main__":
    main()
