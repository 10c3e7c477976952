"""Raw bytes: no file of a store holds the share of a released batch together with its key.

The search knows the store's key and tries every position of every file for a ciphertext of the
bucket's key; where it finds one, it tries every position for the share under that key.
"""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from aggregator.errors import StoreError
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.postgresql import Postgresql
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.secrets.key_file import SLOT_SIZE, KeyFile, KeyGone, KeysMissing
from tests.support.engines import ON_SQLITE
from tests.support.raw_bytes import keys_in, reading, shares_in
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    add_to_bucket,
    in_shard,
    make_store,
    read_shares,
    report_id,
    store_url,
    totals,
    unit,
    units,
)

pytestmark = ON_SQLITE

SHARE = bytes(range(48))
ROW = TASK_ID + unit(5)
BATCH = units(0, 10)


def put_share(store: Database, time: int = 5, share: bytes = SHARE, shard: int = 0) -> None:
    ids = totals([report_id(time)], time)

    def put(tx: Transaction) -> None:
        in_shard(tx, shard)
        add_to_bucket(tx, TASK_ID, unit(time), lambda _: share, ids)

    store.run_sync("share", put)


def collect(store: Database) -> None:
    store.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, BATCH))


def keys_left(folder: Path) -> set[bytes]:
    return keys_in(folder.iterdir(), STORE_KEY, ROW)


def shares_left(folder: Path) -> set[bytes]:
    return shares_in(folder.iterdir(), STORE_KEY, ROW, len(SHARE))


def database_in(folder: Path) -> Path:
    return folder / "store.sqlite"


def test_before_its_release_a_share_can_be_read_with_the_stores_key(tmp_path: Path) -> None:
    """The search finds what is there to be found."""
    store = make_store(tmp_path)
    put_share(store)
    assert shares_left(tmp_path) == {SHARE}
    store.close()


@pytest.mark.parametrize("is_read", [False, True], ids=["alone", "with a reader"])
def test_a_released_share_cannot_be_read_though_nothing_is_written_any_more(
    tmp_path: Path, *, is_read: bool
) -> None:
    store = make_store(tmp_path)
    put_share(store)
    with reading(database_in(tmp_path)) if is_read else contextlib.nullcontext():
        collect(store)
        assert keys_left(tmp_path) == set()
        assert shares_left(tmp_path) == set()
    store.close()


def test_a_release_destroys_the_shares_of_all_shards(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    of_shards = {bytes([shard]) * len(SHARE) for shard in range(Postgresql.shards)}
    for share in of_shards:
        put_share(store, share=share, shard=share[0])
    with reading(database_in(tmp_path)):
        assert shares_left(tmp_path) == of_shards
        collect(store)
        assert keys_left(tmp_path) == set()
        assert shares_left(tmp_path) == set()
    store.close()


def test_the_keys_of_other_batches_stay(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for time in (4, 5, 11, 12):
        put_share(store, time)
    collect(store)
    put_share(store, 13)
    found = store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(10, 20)))
    assert found == [SHARE] * 3
    store.close()


DYING = """
    import os, sys
    from pathlib import Path
    from tests.support.store import *
    from aggregator.service.storage.batches.closed import mark_collected

    moment, folder = sys.argv[1], Path(sys.argv[2])

    def die(name, reached):
        if (name, reached) == ("destroy", moment):
            os.kill(os.getpid(), 9)

    store = make_store(folder, on_transaction=die)
    store.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, units(0, 10)))
"""


@pytest.mark.parametrize("is_read", [False, True], ids=["alone", "with a reader"])
@pytest.mark.parametrize("moment", ["before commit", "committed"])
def test_what_a_killed_process_left_is_destroyed_when_the_next_opens_the_store(
    tmp_path: Path, moment: str, *, is_read: bool
) -> None:
    store = make_store(tmp_path)
    put_share(store)
    store.close()
    with reading(database_in(tmp_path)) if is_read else contextlib.nullcontext():
        died = subprocess.run(  # noqa: S603  our own program
            [sys.executable, "-c", textwrap.dedent(DYING), moment, str(tmp_path)], check=False
        )
        assert died.returncode == -signal.SIGKILL
        assert shares_left(tmp_path) == {SHARE}
        successor = Database.open(store_url(tmp_path), Crypter([STORE_KEY]))
        if moment == "committed":
            assert keys_left(tmp_path) == set()
        else:  # the release was not made, and can be
            assert shares_left(tmp_path) == {SHARE}
            collect(successor)
        assert shares_left(tmp_path) == set()
        successor.close()


def test_a_transaction_that_fails_leaves_no_key_behind(tmp_path: Path) -> None:
    """Of a large one the log may have shares, although it was never committed."""
    store = make_store(tmp_path)

    def fail(tx: Transaction) -> None:
        ids = totals([report_id(5)], 5)
        add_to_bucket(tx, TASK_ID, unit(5), lambda _: SHARE, ids)
        assert len(keys_left(tmp_path)) == 1
        raise tx.refuse(StoreError("on purpose"))

    with pytest.raises(StoreError, match="on purpose"):
        store.run_sync("fail", fail)
    store.read_sync("whatever comes next", lambda tx: tx.now)
    assert keys_left(tmp_path) == set()
    put_share(store)
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, BATCH)) == [SHARE]
    store.close()


def test_a_slot_that_is_not_overwritten_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeyFile, "destroy", lambda _, slots: list(slots))
    store = make_store(tmp_path)
    put_share(store)
    with reading(database_in(tmp_path)):
        collect(store)
        assert shares_left(tmp_path) == {SHARE}
    store.close()


def test_a_key_inside_the_database_would_be_found_with_a_reader_open(tmp_path: Path) -> None:
    """Why there is a key file: the log keeps what a reader may still need."""
    store = make_store(tmp_path)
    put_share(store)
    held = store.read_sync("key", lambda tx: tx.keys.get(1))
    store.run_sync(
        "keep", lambda tx: tx.connection.exec_driver_sql("CREATE TABLE kept AS SELECT ? k", (held,))
    )
    with reading(database_in(tmp_path)):
        store.run_sync("forget", lambda tx: tx.connection.exec_driver_sql("DELETE FROM kept"))
        collect(store)
        assert shares_left(tmp_path) == {SHARE}
    store.close()


def test_nobody_is_told_of_a_release_while_its_keys_cannot_be_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    put_share(store)

    def fail(*_: object) -> None:
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        for _ in range(2):
            with pytest.raises(
                StoreError, match=r"keys in .*store\.sqlite\.keys: Input/output error"
            ):
                collect(store)
        with pytest.raises(StoreError, match="Input/output error"):
            store.read_sync("ask", lambda tx: tx.now)
    store.read_sync("ask again", lambda tx: tx.now)
    assert keys_left(tmp_path) == set()
    store.close()


def test_who_reads_a_batch_while_it_is_released_sees_it_collected(tmp_path: Path) -> None:
    """A snapshot from before the release names keys that are gone: it is taken again."""
    store, other = make_store(tmp_path), make_store(tmp_path)
    put_share(store)
    snapshots: list[Transaction] = []

    def work(tx: Transaction) -> list[bytes]:
        if not snapshots:
            tx.connection.exec_driver_sql("SELECT * FROM tasks").fetchall()
            collect(other)
        snapshots.append(tx)
        return read_shares(tx, TASK_ID, BATCH)

    assert store.read_sync("read", work) == []
    assert len(snapshots) == 2
    store.close()
    other.close()


@pytest.mark.parametrize(
    "left", [None, b"", bytes(SLOT_SIZE) + b"cut"], ids=["gone", "empty", "cut"]
)
def test_a_store_whose_key_file_was_lost_says_so_and_makes_no_other_in_its_place(
    tmp_path: Path, left: bytes | None
) -> None:
    """Else the file that comes back takes the place of one with newer keys."""
    file = tmp_path / "store.sqlite.keys"
    store = make_store(tmp_path)
    put_share(store)
    store.close()
    away = file.rename(tmp_path / "away")
    if left is not None:
        file.write_bytes(left)
    store = make_store(tmp_path)
    with pytest.raises(KeyGone, match=r"store\.sqlite\.keys has no key in slot 1"):
        store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, BATCH))
    with pytest.raises(KeysMissing, match="nothing is counted until it is back"):
        put_share(store, 15)
    assert (file.read_bytes() if file.exists() else None) == left
    store.close()

    away.rename(file)
    store = make_store(tmp_path)
    put_share(store, 15)
    for batch in (BATCH, units(15, 16)):
        read = store.read_sync("read", lambda tx, batch=batch: read_shares(tx, TASK_ID, batch))
        assert read == [SHARE]
    store.close()


@pytest.mark.slow
def test_a_store_whose_key_file_is_lost_counts_again_when_those_sums_are_closed(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    put_share(store)
    store.close()
    (tmp_path / "store.sqlite.keys").unlink()
    store = make_store(tmp_path)
    collect(store)
    put_share(store, 15)
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(15, 16))) == [SHARE]
    store.close()


def test_no_key_goes_to_a_file_that_was_taken_away_from_a_running_process(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite.keys"
    store = make_store(tmp_path)
    put_share(store)
    away = file.rename(tmp_path / "away")
    with pytest.raises(KeysMissing, match="while it was in use: put it back"):
        put_share(store, 15)
    file.write_bytes(away.read_bytes())
    with pytest.raises(KeysMissing, match="if you meant the change"):
        put_share(store, 15)
    away.rename(file)
    put_share(store, 15)
    store.close()
    assert len(file.read_bytes()) == 2 * 2 * SLOT_SIZE  # each with a slot for its mark


def test_the_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    put_share(store)
    assert (tmp_path / "store.sqlite.keys").stat().st_mode & 0o777 == 0o600
    store.close()
