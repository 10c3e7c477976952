"""The order in which a transaction takes its locks is checked in every test."""

import itertools

import pytest

from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.database import Database

TASK, OTHER = bytes(32), bytes([1]) * 32
TAKE = {
    "new tasks": lambda tx, _: locks.add_tasks(tx),
    "collections": locks.ask_for_collections,
    "batches": locks.change_batches,
    "permits": locks.change_permits,
    "claims": locks.claim_waiting,
    "deferred": locks.defer_jobs,
    "answers": lambda tx, _: locks.count_answers(tx),
    "ledger": lambda tx, _: locks.spend(tx),
    "tokens": locks.change_tokens,
    "generations": lambda tx, _: locks.rotate_generations(tx),
    "hpke keys": lambda tx, _: locks.change_keys(tx),
}


def take(database: Database, *subjects: str) -> None:
    database.run_sync("take", lambda tx: [TAKE[each](tx, TASK) for each in subjects])


def test_every_lock_has_its_place() -> None:
    assert locks.IS_CHECKED
    assert tuple(TAKE) == locks.ORDER


def test_locks_may_be_taken_in_order_and_again(store: Database) -> None:
    take(store, *locks.ORDER)
    take(store, *locks.ORDER, *locks.ORDER)


@pytest.mark.parametrize(("first", "second"), [*itertools.combinations(locks.ORDER, 2)])
def test_a_lock_out_of_order_raises(store: Database, first: str, second: str) -> None:
    with pytest.raises(locks.OutOfOrder, match=f"{first} after {second}"):
        take(store, second, first)


def test_a_shared_lock_is_not_made_exclusive(store: Database) -> None:
    """Two transactions that share it would each wait for the other to end."""
    with pytest.raises(locks.OutOfOrder, match="batches alone after sharing it"):
        store.run_sync(
            "upgrade",
            lambda tx: [locks.keep_batches(tx, TASK), locks.change_batches(tx, TASK)],
        )
    store.run_sync(
        "down", lambda tx: [locks.change_batches(tx, TASK), locks.keep_batches(tx, TASK)]
    )


def test_locks_of_one_task_may_follow_those_of_another(store: Database) -> None:
    def of_both(tx: object) -> None:
        for task in (TASK, OTHER):
            locks.keep_batches(tx, task)
            locks.claim_waiting(tx, task)

    store.run_sync("both", of_both)
