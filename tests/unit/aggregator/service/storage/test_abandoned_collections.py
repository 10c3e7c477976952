"""Collections that a collector gave up: of which its leader is to hear, and of which not."""

from aggregator.collector.store import (
    CollectorTask,
    NewCollection,
    StoredCollection,
    abandon_collection,
    finish_collection,
    get_collection,
    list_untold_collections,
    note_told,
    put_collection,
    put_collector_task,
    set_location,
)
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState

TASK = bytes([7] * 32)


def ask(store: Database, name: bytes, request: bytes = b"request") -> None:
    new = NewCollection(name * 16, TASK, request, asks_for_next=False)
    task = CollectorTask(TASK, "version = 1", "a token")
    store.run_sync("task", lambda tx: put_collector_task(tx, task))
    store.run_sync("put", lambda tx: put_collection(tx, new))


def abandon(store: Database, name: bytes) -> bool:
    return store.run_sync("abandon", lambda tx: abandon_collection(tx, name * 16, "{}"))


def place(store: Database, name: bytes) -> None:
    store.run_sync("place", lambda tx: set_location(tx, name * 16, "https://leader.example/job"))


def stored(store: Database, name: bytes) -> StoredCollection:
    found = store.read_sync("get", lambda tx: get_collection(tx, name * 16))
    assert found is not None
    return found


def untold(store: Database) -> set[bytes]:
    return {each.collection_id[:1] for each in store.read_sync("list", list_untold_collections)}


def test_only_what_is_pending_is_given_up_and_then_takes_no_result(store: Database) -> None:
    ask(store, b"a")
    assert abandon(store, b"a")
    assert not abandon(store, b"a")
    assert not store.run_sync("finish", lambda tx: finish_collection(tx, b"a" * 16, "{}"))
    assert (stored(store, b"a").state, stored(store, b"a").result) == (
        CollectionState.ABANDONED,
        None,
    )
    ask(store, b"b")
    assert store.run_sync("finish", lambda tx: finish_collection(tx, b"b" * 16, "{}"))
    assert not abandon(store, b"b")


def test_the_leader_hears_once_of_each_whose_job_it_has_named(store: Database) -> None:
    for name in (b"a", b"b"):
        ask(store, name, request=name)
    place(store, b"a")
    assert untold(store) == set(), "they are pending"
    abandon(store, b"a")
    abandon(store, b"b")
    assert untold(store) == {b"a"}
    place(store, b"b")  # an answer that was on its way
    assert untold(store) == {b"a", b"b"}
    store.run_sync("told", lambda tx: note_told(tx, b"a" * 16))
    assert untold(store) == {b"b"}
    assert stored(store, b"a").location is None


def test_the_leader_does_not_hear_of_one_that_was_asked_for_again(store: Database) -> None:
    ask(store, b"a")
    place(store, b"a")
    abandon(store, b"a")
    ask(store, b"b")
    assert untold(store) == set()
    store.run_sync("finish", lambda tx: finish_collection(tx, b"b" * 16, "{}"))
    assert untold(store) == {b"a"}
