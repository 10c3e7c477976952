import dataclasses
import threading

import pytest

from aggregator.service.storage.batches.closed import BatchClosed
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregate_shares import (
    NewAggregateShare,
    StoredAggregateShare,
    delete_aggregate_share,
    find_aggregate_share,
    get_aggregate_share,
    put_aggregate_share,
)
from aggregator.service.storage.jobs.answered_jobs import (
    AnsweredJob,
    delete_answered_job,
    find_answered_job,
    get_answered_job,
    put_answered_job,
)
from aggregator.service.storage.ledger.charges import list_ledger
from tests.support.racers import run_at_once
from tests.support.store import (
    TASK_ID,
    TENTH,
    add_to_bucket,
    adding,
    read_shares,
    record_fresh,
    report_id,
    totals,
    unit,
    units,
)

BODY = b"d" * 32
SHARE = NewAggregateShare(b"selector", BODY, b"sealed bytes", units(0, 10), 3)


def put(tx: Transaction, body: bytes = BODY, response: bytes = b"response") -> AnsweredJob:
    return put_answered_job(tx, TASK_ID, body, response)


def find(store: Database, body: bytes = BODY) -> AnsweredJob | None:
    return store.read_sync("find", lambda tx: find_answered_job(tx, TASK_ID, body))


def answer(store: Database, numbers: list[int]) -> bytes:
    """Do what the Helper does with a request for an aggregation job."""

    def work(tx: Transaction) -> bytes:
        known = find_answered_job(tx, TASK_ID, BODY)
        if known is not None:
            return known.response
        ids = [report_id(number) for number in numbers]
        fresh = record_fresh(tx, ids)
        if fresh:
            add_to_bucket(tx, TASK_ID, unit(5), adding(len(fresh)), totals(fresh))
        put(tx, response=b"%d counted" % len(fresh))
        return b"%d counted" % len(fresh)

    return store.run_sync("answer", work)


def release(store: Database, share: NewAggregateShare = SHARE) -> StoredAggregateShare:
    return store.run_sync("share", lambda tx: put_aggregate_share(tx, TASK_ID, share, TENTH))


def shares(store: Database) -> list[bytes]:
    return store.read_sync("shares", lambda tx: read_shares(tx, TASK_ID, units(0, 10)))


def test_an_answer_is_found_by_the_digest_and_by_its_id(store: Database) -> None:
    stored = store.run_sync("put", put)
    assert find(store) == stored
    assert find(store, b"e" * 32) is None
    by_id = store.read_sync("get", lambda tx: get_answered_job(tx, TASK_ID, stored.job_id))
    assert by_id == stored
    assert store.read_sync("get", lambda tx: get_answered_job(tx, TASK_ID, b"?" * 16)) is None


def test_a_request_is_answered_once(store: Database) -> None:
    stored = store.run_sync("put", put)
    with pytest.raises(Conflict, match=r"answered_jobs|live_request"):
        store.run_sync("put", lambda tx: put(tx, response=b"another"))
    assert find(store) == stored


def test_a_repeated_request_is_counted_once_and_answered_alike(store: Database) -> None:
    assert answer(store, [1, 2, 3]) == answer(store, [1, 2, 3]) == b"3 counted"
    assert shares(store) == [b"3"]


def test_identical_requests_at_once_are_counted_once(store: Database) -> None:
    answers: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: answers.append(answer(store, [1, 2, 3]))) for _ in range(4)
    ]
    run_at_once(threads)
    assert answers == [b"3 counted"] * 4
    assert shares(store) == [b"3"]


def test_after_a_deletion_the_same_request_finds_only_replays(store: Database) -> None:
    answer(store, [1, 2, 3])
    first = find(store)
    assert first is not None
    delete = lambda tx: delete_answered_job(tx, TASK_ID, first.job_id)  # noqa: E731  used twice
    assert store.run_sync("delete", delete)
    assert not store.run_sync("delete", delete)
    assert find(store) is None
    assert answer(store, [1, 2, 3]) == b"0 counted"
    second = find(store)
    assert second is not None
    assert second.job_id != first.job_id
    assert shares(store) == [b"3"]


def test_a_release_stores_charges_and_destroys_at_once(store: Database) -> None:
    answer(store, [1, 2, 3])
    stored = release(store)
    found = store.read_sync("find", lambda tx: find_aggregate_share(tx, TASK_ID, b"selector"))
    assert (
        found == stored == StoredAggregateShare(stored.share_id, b"selector", BODY, b"sealed bytes")
    )
    by_id = store.read_sync("get", lambda tx: get_aggregate_share(tx, TASK_ID, stored.share_id))
    assert by_id == stored
    assert shares(store) == []
    (entry,) = store.read_sync("ledger", list_ledger)
    assert (entry.state, entry.batch) == (LedgerState.CHARGED, units(0, 10))


def test_a_batch_is_released_once(store: Database) -> None:
    stored = release(store)
    with pytest.raises(Conflict, match="already"):
        release(store, dataclasses.replace(SHARE, body_sha256=b"e" * 32, response=b"more noise"))
    with pytest.raises(BatchClosed):
        release(store, dataclasses.replace(SHARE, selector=b"a part", batch=units(9, 10)))
    found = store.read_sync("find", lambda tx: find_aggregate_share(tx, TASK_ID, b"selector"))
    assert found == stored
    assert len(store.read_sync("ledger", list_ledger)) == 1


def test_a_deleted_share_is_never_released_again(store: Database) -> None:
    share_id = release(store).share_id
    assert store.run_sync("delete", lambda tx: delete_aggregate_share(tx, TASK_ID, share_id))
    assert not store.run_sync("delete", lambda tx: delete_aggregate_share(tx, TASK_ID, share_id))
    found = store.read_sync("find", lambda tx: find_aggregate_share(tx, TASK_ID, b"selector"))
    assert found is not None
    assert found.response is None
    with pytest.raises(Conflict):
        release(store)


def test_responses_are_not_shown(store: Database) -> None:
    assert "sealed bytes" not in repr(SHARE) + repr(release(store))
    assert "response" not in repr(store.run_sync("put", put)).replace("response=", "")
