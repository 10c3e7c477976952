"""Every secret comes under the first key, in steps that may be stopped."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.operator import reencryption
from aggregator.service.storage.operator.reencryption import rewrap
from aggregator.service.storage.secrets.crypter import Crypter, CrypterError
from aggregator.service.storage.tasks.hpke_keys import HpkeKey, list_hpke_keys, put_hpke_key
from aggregator.service.storage.tasks.tasks import TaskRecord, get_task, put_task
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    VERIFY_KEY,
    add_to_bucket,
    adding,
    leader_task,
    read_shares,
    report_id,
    store_url,
    totals,
    unit,
    units,
)

NEW_KEY = b"\x07" * 32
BATCH = units(0, 100)
HPKE = [HpkeKey(number, b"config", bytes([number]) * 32) for number in range(3)]
Open = Callable[..., Database]


@pytest.fixture
def opened(store: Database, tmp_path: Path) -> Open:
    """Return what opens a store with secrets of every kind, with some keys."""

    def put_share(time: int) -> None:
        ids = totals([report_id(time)], time)
        store.run_sync("add", lambda tx: add_to_bucket(tx, TASK_ID, unit(time), adding(time), ids))

    for key in HPKE:
        store.run_sync("key", lambda tx, k=key: put_hpke_key(tx, k))
    other = TaskRecord(bytes(32), "leader", "version = 1", VERIFY_KEY)
    store.run_sync("task", lambda tx: put_task(tx, other))
    put_share(50)
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, units(50, 51)))
    for time in range(1, 4):
        put_share(time)

    def open_with(*keys: bytes) -> Database:
        return Database.open(store_url(tmp_path), Crypter(keys))

    return open_with


def check(store: Database) -> None:
    """Check that all secrets can be read, and close the store."""
    task = store.read_sync("task", lambda tx: get_task(tx, TASK_ID))
    assert task is not None
    assert task.record == leader_task()
    keys = store.read_sync("keys", list_hpke_keys)
    assert {key.private_key for key in keys} == {key.private_key for key in HPKE}
    shares = store.read_sync("shares", lambda tx: read_shares(tx, TASK_ID, BATCH))
    assert shares == [b"1", b"2", b"3"]
    store.close()


def test_the_new_key_alone_reads_everything_afterwards(opened: Open) -> None:
    both = opened(NEW_KEY, STORE_KEY)
    assert rewrap(both) == 2 + 1 + len(HPKE) + 3
    assert rewrap(both) == 0
    both.close()
    check(opened(NEW_KEY))
    before = opened(STORE_KEY)
    with pytest.raises(CrypterError):
        before.read_sync("task", lambda tx: get_task(tx, TASK_ID))
    before.close()


def test_it_goes_on_where_it_was_stopped(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reencryption, "SECRETS_PER_STEP", 1)
    whole = 9
    for stopped_at in (1, 4, 7):
        both, done = opened(NEW_KEY, STORE_KEY), []

        def stop(_name: str, moment: str, counted: list[str] = done, at: int = stopped_at) -> None:
            if moment == "before commit":
                counted.append(moment)
                if len(counted) == at:
                    raise KeyboardInterrupt

        monkeypatch.setattr(both, "_on_transaction", stop)
        with pytest.raises(KeyboardInterrupt):
            rewrap(both)
        both.close()
        check(opened(NEW_KEY, STORE_KEY))
    both = opened(NEW_KEY, STORE_KEY)
    assert 0 < rewrap(both) < whole
    both.close()
    check(opened(NEW_KEY))


def test_a_key_that_is_not_given_is_named(opened: Open) -> None:
    store = opened(NEW_KEY)
    (fingerprint,) = Crypter([STORE_KEY]).fingerprints
    with pytest.raises(CrypterError, match=f"under the store key {fingerprint.hex()}"):
        rewrap(store)
    store.close()
