"""The keys of buckets on a PostgreSQL server: rows that come and go with their transaction."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import select

from aggregator.errors import StoreError
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.sums import shard_row
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.key_table import KeyTable, SlotRows
from aggregator.service.storage.engine.tables import bucket_key_slots, bucket_keys
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter, CrypterError
from aggregator.service.storage.secrets.key_file import KeyGone
from tests.support.engines import ON_POSTGRESQL
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    add_to_bucket,
    make_store,
    read_shares,
    report_id,
    totals,
    unit,
    units,
)

pytestmark = ON_POSTGRESQL

KEYS = [b"%d" % number * 8 for number in range(300)]
SHARE = bytes(range(48))


class Refused(StoreError):
    """Ends a transaction."""


def refuse(tx: Transaction) -> None:
    raise tx.refuse(Refused("on purpose"))


def put(store: Database, *keys: bytes) -> list[int]:
    return store.run_sync("put", lambda tx: list(tx.keys.put(keys).slots))


def keys_at(store: Database, slots: list[int]) -> list[bytes]:
    return store.read_sync("get", lambda tx: [tx.keys.get(slot) for slot in slots])


def slots_of(store: Database) -> set[int]:
    query = select(bucket_key_slots.c.slot)
    return store.read_sync("slots", lambda tx: set(tx.connection.execute(query).scalars()))


def test_a_store_on_a_server_keeps_its_keys_in_the_table(store: Database) -> None:
    keys = store.read_sync("keys", lambda tx: tx.keys)
    assert isinstance(keys, SlotRows)


def test_each_key_is_in_the_slot_that_was_returned_for_it(store: Database) -> None:
    slots = put(store, *KEYS)
    assert len(set(slots)) == len(KEYS)
    assert keys_at(store, slots) == KEYS


def test_a_deleted_key_is_gone_and_its_slot_is_never_used_again(store: Database) -> None:
    first, last = put(store, b"first", b"last")
    outside = store.run_sync("delete", lambda tx: list(tx.keys.delete([last])))
    assert outside == []  # nothing is left to be destroyed after the commit
    with pytest.raises(KeyGone, match=f"no key in slot {last}"):
        keys_at(store, [last])
    assert keys_at(store, [first]) == [b"first"]
    assert put(store, b"next")[0] > last
    store.run_sync("delete nothing", lambda tx: tx.keys.delete([]))
    assert len(slots_of(store)) == 2


def test_a_transaction_that_fails_neither_puts_nor_deletes(store: Database) -> None:
    kept = put(store, b"kept")

    def work(tx: Transaction) -> None:
        tx.keys.put([b"new"])
        tx.keys.delete(kept)
        refuse(tx)

    with pytest.raises(Refused):
        store.run_sync("fail", work)
    assert keys_at(store, kept) == [b"kept"]
    assert slots_of(store) == set(kept)


def test_transactions_that_put_at_once_get_slots_of_their_own(store: Database) -> None:
    both = Barrier(2)

    def work(tx: Transaction) -> list[int]:
        both.wait(timeout=PATIENCE_SECONDS)
        slots = list(tx.keys.put(KEYS[:50]).slots)
        both.wait(timeout=PATIENCE_SECONDS)  # neither has committed
        return slots

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda _: store.run_sync("put", work), range(2))
    assert not set(one) & set(other)
    assert keys_at(store, one) == keys_at(store, other) == KEYS[:50]


def add_share(store: Database, time: int) -> None:
    ids = totals([report_id(time)], time)
    store.run_sync("share", lambda tx: add_to_bucket(tx, TASK_ID, unit(time), lambda _: SHARE, ids))


def slot_of(store: Database, time: int) -> int:
    query = select(bucket_keys.c.slot).where(bucket_keys.c.bucket == unit(time))
    return store.read_sync("slot", lambda tx: int(tx.connection.execute(query).scalar_one()))


def test_a_release_deletes_the_keys_of_its_batch_and_no_others(store: Database) -> None:
    for time in (4, 5, 12):
        add_share(store, time)
    left = slot_of(store, 12)
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, units(0, 10)))
    assert slots_of(store) == {left}
    shares = store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 20)))
    assert shares == [SHARE]


def test_a_release_that_fails_keeps_the_keys(store: Database) -> None:
    add_share(store, 5)

    def work(tx: Transaction) -> None:
        mark_collected(tx, TASK_ID, units(0, 10))
        refuse(tx)

    with pytest.raises(Refused):
        store.run_sync("collect", work)
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 10))) == [SHARE]


def test_a_key_lies_there_under_the_stores_key(store: Database) -> None:
    add_share(store, 5)
    (sealed,) = keys_at(store, [slot_of(store, 5)])
    row = shard_row(TASK_ID, unit(5), 0)
    share = store.read_sync("share", stored_share)
    key = Crypter([STORE_KEY]).decrypt("bucket_keys", row, "key", sealed)
    assert Crypter([key]).decrypt("bucket_shares", row, "share", share) == SHARE
    with pytest.raises(CrypterError, match="which is not in the list"):
        Crypter([b"?" * 32]).decrypt("bucket_keys", row, "key", sealed)


def stored_share(tx: Transaction) -> bytes:
    found = tx.connection.exec_driver_sql("SELECT share FROM bucket_shares").scalar_one()
    return bytes(found)


def test_who_opens_the_store_later_destroys_no_key_of_another(
    store: Database, tmp_path: Path
) -> None:
    """Where a killed process leaves nothing outside the database, nothing is looked for."""
    add_share(store, 5)
    assert not KeyTable().held().slots
    other = make_store(tmp_path)
    other.close()
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 10))) == [SHARE]
