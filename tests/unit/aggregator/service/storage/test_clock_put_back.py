"""Leases and delays that were set by a clock which has been put back since hold nobody up."""

import pytest

from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.jobs.aggregation_jobs import AGGREGATION_JOBS
from aggregator.service.storage.jobs.collection_jobs import COLLECTION_JOBS
from aggregator.service.storage.jobs.leases import LATE_SECONDS, LeaseLost
from tests.support.clock import ManualClock
from tests.support.store import collect, create_job, finish_job, lease_job, upload

HOUR = 3600


def count_due(store: Database) -> int:
    return sum(store.read_sync("due", AGGREGATION_JOBS.due).values())


def test_a_job_that_was_made_by_a_clock_ahead_is_leased(
    store: Database, clock: ManualClock
) -> None:
    upload(store, range(3))
    create_job(store)
    collect(store)
    clock.advance(-HOUR)
    assert count_due(store) == 1
    finish_job(store, lease_job(store))
    assert len(store.run_sync("lease", lambda tx: COLLECTION_JOBS.lease(tx, 1, 60))) == 1


def test_a_delay_that_was_set_by_a_clock_ahead_is_void(store: Database, clock: ManualClock) -> None:
    upload(store, range(3))
    create_job(store)
    leased = lease_job(store)
    store.run_sync("wait", lambda tx: AGGREGATION_JOBS.release(tx, leased.lease, 60, reason="so"))
    assert count_due(store) == 0
    clock.advance(-LATE_SECONDS)
    assert count_due(store) == 0  # as if others had written it since our transaction began
    clock.advance(-1)
    assert count_due(store) == 1


def test_a_lease_by_a_clock_ahead_passes_on_and_its_old_holder_changes_nothing(
    store: Database, clock: ManualClock
) -> None:
    upload(store, range(3))
    create_job(store)
    leased = lease_job(store)
    clock.advance(-HOUR)
    again = lease_job(store)
    assert again.job.key == leased.job.key
    with pytest.raises(LeaseLost):
        finish_job(store, leased)
    finish_job(store, again)
    assert store.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 1, 60)) == []
