"""How many collection jobs a task has at the leader, whatever its collector asks for."""

import pytest
from sqlalchemy import select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.jobs import collection_room
from aggregator.service.storage.jobs.collection_jobs import (
    delete_collection_job,
    fail_collection_job,
    finish_collection_job,
)
from aggregator.service.storage.jobs.collection_room import (
    delete_fruitless_jobs,
    pending_collections,
)
from tests.support.store import (
    RESULT,
    TASK_ID,
    aggregate,
    collect,
    freeze_collection,
    lease_collection,
)


def pending(store: Database) -> int:
    return store.run_sync("pending", lambda tx: pending_collections(tx, TASK_ID))


def forget(store: Database, *, leader_selects: bool = False) -> int:
    return store.run_sync(
        "forget", lambda tx: delete_fruitless_jobs(tx, TASK_ID, leader_selects=leader_selects)
    )


def requests(store: Database) -> set[bytes]:
    query = select(tables.collection_jobs.c.request)
    return set(store.read_sync("list", lambda tx: tx.connection.execute(query).scalars().all()))


def fail(store: Database) -> None:
    leased = lease_collection(store)
    store.run_sync("fail", lambda tx: fail_collection_job(tx, leased.lease, "{}"))


def test_only_jobs_that_have_not_ended_are_pending(store: Database) -> None:
    aggregate(store, range(3))
    collect(store, b"failed")
    fail(store)
    deleted = collect(store, b"deleted")
    store.run_sync("delete", lambda tx: delete_collection_job(tx, TASK_ID, deleted))
    collect(store, b"frozen")
    freeze_collection(store, lease_collection(store))
    collect(store, b"start", 20, 30)
    assert pending(store) == 2


def test_the_oldest_that_came_to_nothing_are_forgotten_and_no_result(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_room, "MOST_FRUITLESS", 2)
    aggregate(store, range(3))
    finished = collect(store, b"finished")
    freeze_collection(store, leased := lease_collection(store))
    store.run_sync("finish", lambda tx: finish_collection_job(tx, leased.lease, RESULT))
    store.run_sync("delete", lambda tx: delete_collection_job(tx, TASK_ID, finished))
    for number in range(4):
        collect(store, b"%d" % number, 20, 30)
        fail(store)
    collect(store, b"waits", 20, 30)
    assert forget(store, leader_selects=True) == 0, "they remember what was selected"
    assert forget(store) == 2
    assert requests(store) == {b"finished", b"2", b"3", b"waits"}
    assert forget(store) == 0
