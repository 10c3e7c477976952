"""Leases by the clock of a database that several processes use: nobody takes one that is held."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import AGGREGATION_JOBS
from aggregator.service.storage.jobs.leases import Lease
from aggregator.service.storage.secrets.crypter import Crypter
from tests.support.engines import ON_POSTGRESQL
from tests.support.store import STORE_KEY, create_job, make_store, store_url, upload

pytestmark = [ON_POSTGRESQL, pytest.mark.slow]  # for seconds go by on the server's clock

LEASE_SECONDS = 60


def renewed(tx: Transaction, lease: Lease) -> None:
    AGGREGATION_JOBS.renew(tx, lease, LEASE_SECONDS)


def released(tx: Transaction, lease: Lease) -> None:
    AGGREGATION_JOBS.release(tx, lease, LEASE_SECONDS, reason="the helper does not answer")


@pytest.mark.parametrize("write", [None, renewed, released])
def test_a_transaction_of_a_second_ago_takes_no_job_that_was_written_since(
    tmp_path: Path, write: Callable[[Transaction, Lease], None] | None
) -> None:
    with (
        closing(make_store(tmp_path)) as store,
        closing(Database.open(store_url(tmp_path), Crypter([STORE_KEY]))) as other,
    ):
        upload(store, [1])
        create_job(store)
        assert store.run_sync("lease", lambda tx: lease_late(tx, other, write)) == 0


def lease_late(
    tx: Transaction, other: Database, write: Callable[[Transaction, Lease], None] | None
) -> int:
    """Let another process lease the only job, and a second go by; return how many are left."""
    time.sleep(1.1)
    (leased,) = other.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, LEASE_SECONDS))
    if write is not None:
        other.run_sync("write", lambda tx: write(tx, leased.lease))
    return len(AGGREGATION_JOBS.lease(tx, 1, LEASE_SECONDS))
