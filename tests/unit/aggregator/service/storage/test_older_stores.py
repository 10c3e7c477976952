"""An older copy of a database beside its newest keys destroys none, and does not open.

What a process left in the key file when it died is told apart from that, at every step.
"""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from aggregator.service.storage.backup.backup import back_up
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.sums import Addition, accumulate, buckets_without_key
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.tables import bucket_keys
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets import key_file
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.secrets.key_file import SLOT_SIZE, KeyFile, KeysAhead
from tests.support.engines import ON_SQLITE
from tests.support.raw_bytes import keys_in
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    add_to_bucket,
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
Step = Callable[[Database], None]


class Crash(BaseException):
    """The process is gone."""


def put_share(store: Database, *times: int) -> None:
    added = [Addition(unit(at), lambda _: SHARE, totals([report_id(at)], at)) for at in times]
    store.run_sync("share", lambda tx: accumulate(tx, TASK_ID, added))


def putting(*times: int) -> Step:
    return lambda store: put_share(store, *times)


def releasing(time: int) -> Step:
    batch = units(time, time + 1)
    return lambda store: store.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, batch))


def failing(time: int) -> Step:
    def fail(tx: Transaction) -> None:
        add_to_bucket(tx, TASK_ID, unit(time), lambda _: SHARE, totals([report_id(time)], time))
        raise ValueError("on purpose")

    def step(store: Database) -> None:
        with pytest.raises(ValueError, match="on purpose"):
            store.run_sync("fail", fail)

    return step


def opened(folder: Path, *, may_destroy: bool = True, may_be_older: bool = False) -> Database:
    return Database.open(
        store_url(folder),
        Crypter([STORE_KEY]),
        may_destroy=may_destroy,
        may_be_older=may_be_older,
    )


def database_in(folder: Path) -> Path:
    return folder / "store.sqlite"


def keys_of(folder: Path) -> Path:
    return folder / "store.sqlite.keys"


def held_in(folder: Path) -> set[int]:
    return {*KeyFile(keys_of(folder)).held().slots}


def named_in(store: Database) -> set[int]:
    query = select(bucket_keys.c.slot)
    return store.read_sync("slots", lambda tx: {*tx.connection.execute(query).scalars()})


def put_back(file: Path, folder: Path) -> None:
    """Put a database in place as docs/operations/backups.md says."""
    for each in folder.glob("store.sqlite*"):
        if each.name != "store.sqlite.keys":
            each.unlink()
    shutil.copy(file, database_in(folder))


@pytest.mark.parametrize("may_destroy", [True, False], ids=["a service", "a look"])
def test_a_backup_that_is_put_beside_newer_keys_by_mistake_costs_nothing(
    tmp_path: Path, *, may_destroy: bool
) -> None:
    store = make_store(tmp_path)
    put_share(store, 1)
    back_up(store_url(tmp_path), tmp_path / "backup")
    for time in (2, 3, 4):
        put_share(store, time)
    store.close()
    newest, keys = database_in(tmp_path).rename(tmp_path / "newest"), keys_of(tmp_path).read_bytes()
    put_back(tmp_path / "backup", tmp_path)
    for _ in range(2):
        with pytest.raises(KeysAhead, match=r"store\.sqlite\.keys has those of 3 sums that came"):
            opened(tmp_path, may_destroy=may_destroy)
    assert keys_of(tmp_path).read_bytes() == keys
    put_back(newest, tmp_path)
    store = opened(tmp_path)
    assert store.read_sync("lost", buckets_without_key).lost == []
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 9))) == [SHARE] * 4
    store.close()


def test_a_database_that_is_opened_without_its_log_costs_nothing(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    store = make_store(before)
    put_share(store, 1)
    store.close()  # which copies the log into the file
    store = opened(before)
    for time in (2, 3):
        put_share(store, time)
    shutil.copytree(before, after)  # as it is when the process is killed
    store.close()
    log = (after / "store.sqlite-wal").rename(after / "away")
    assert log.stat().st_size > 0
    (after / "store.sqlite-shm").unlink()
    with pytest.raises(KeysAhead, match="put the newest database back, with its -wal"):
        opened(after)
    for each in after.glob("store.sqlite-*"):
        each.unlink()
    log.rename(after / "store.sqlite-wal")
    store = opened(after)
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 9))) == [SHARE] * 3
    store.close()


HISTORY: list[Step] = [
    putting(1),
    putting(2, 3),
    releasing(2),
    failing(4),
    putting(4),
    releasing(4),
    releasing(3),
    putting(5, 6, 7),
    failing(8),
    releasing(1),
    releasing(7),
    putting(8),
]


def test_no_copy_of_any_moment_destroys_what_a_later_one_names(tmp_path: Path) -> None:
    """Whether it opens or not, and whoever opens it after it."""
    copies = tmp_path / "copies"
    copies.mkdir()
    store = make_store(tmp_path)
    for number, step in enumerate(HISTORY):
        back_up(store_url(tmp_path), copies / str(number))
        step(store)
    sums = store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 9)))
    assert len(sums) == 3
    store.close()
    newest = shutil.copy(database_in(tmp_path), tmp_path / "newest")
    keys, refused = keys_of(tmp_path).read_bytes(), 0
    for copy in copies.iterdir():
        put_back(copy, tmp_path)
        try:
            opened(tmp_path).close()
        except KeysAhead:
            refused += 1
        assert keys_of(tmp_path).read_bytes() == keys
    assert refused == len(HISTORY)
    put_back(newest, tmp_path)
    store = opened(tmp_path)
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 9))) == sums
    store.close()


def test_a_copy_from_before_sums_that_are_all_released_opens(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    put_share(store, 1)
    back_up(store_url(tmp_path), tmp_path / "backup")
    put_share(store, 2)
    releasing(2)(store)
    store.close()
    put_back(tmp_path / "backup", tmp_path)
    store = opened(tmp_path)
    put_share(store, 3)  # in no slot that had another key
    assert store.read_sync("read", lambda tx: read_shares(tx, TASK_ID, units(0, 9))) == [SHARE] * 2
    assert held_in(tmp_path) == named_in(store) == {1, 5}
    store.close()


def crashing_at(number: int, torn: int, steps: list[str]) -> dict[str, Callable[..., None]]:
    """Return writes and syncs of the key file that crash at this one; `torn` bytes are written."""

    def write_at(descriptor: int, place: int, content: bytes) -> None:
        steps.append("write")
        if len(steps) > number:
            os.pwrite(descriptor, content[:torn], place)
            raise Crash
        os.pwrite(descriptor, content, place)

    def fsync(_: int) -> None:
        steps.append("sync")
        if len(steps) > number:
            raise Crash

    return {"write_at": write_at, "fsync": fsync}


GOING_ON = {"the same is put": putting(2, 3), "a batch is released": releasing(1)}


@pytest.mark.parametrize("next_step", GOING_ON.values(), ids=GOING_ON)
@pytest.mark.parametrize("torn", [0, 1, SLOT_SIZE, SLOT_SIZE + 1])
def test_a_death_at_any_step_of_putting_keys_is_no_older_copy_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: int, next_step: Step
) -> None:
    for number in itertools.count():
        folder, steps = tmp_path / str(number), list[str]()
        folder.mkdir()
        store = make_store(folder)
        put_share(store, 1)
        with monkeypatch.context() as patched:
            crashing = crashing_at(number, torn, steps)
            patched.setattr(key_file, "write_at", crashing["write_at"])
            patched.setattr(os, "fsync", crashing["fsync"])
            try:
                put_share(store, 2, 3)
            except Crash:
                is_whole = False
            else:
                is_whole = True
        store.close()
        if is_whole:
            break
        successor = opened(folder)
        next_step(successor)
        assert held_in(folder) == named_in(successor)
        lost = successor.read_sync("lost", buckets_without_key).lost
        assert lost == []
        successor.close()
    # The mark, the keys and, after the commit, the end of the mark: written and synced.
    assert steps == ["write", "sync"] * 3


DYING = """
    import os, sys
    from pathlib import Path
    from tests.support.store import *

    moment, folder = sys.argv[1], Path(sys.argv[2])

    def die(name, reached):
        if (name, reached) == ("share", moment):
            os.kill(os.getpid(), 9)

    store = make_store(folder, on_transaction=die)
    ids = totals([report_id(2)], 2)
    store.run_sync(
        "share", lambda tx: add_to_bucket(tx, TASK_ID, unit(2), lambda _: bytes(range(48)), ids)
    )
"""


@pytest.mark.parametrize("moment", ["before commit", "committed"])
def test_new_keys_of_a_killed_process_are_destroyed_when_the_store_goes_on(
    tmp_path: Path, moment: str
) -> None:
    store = make_store(tmp_path)
    put_share(store, 1)
    store.close()
    died = subprocess.run(  # noqa: S603  our own program
        [sys.executable, "-c", textwrap.dedent(DYING), moment, str(tmp_path)], check=False
    )
    assert died.returncode == -signal.SIGKILL

    def keys_left() -> int:
        return len(keys_in(tmp_path.iterdir(), STORE_KEY, TASK_ID + unit(2)))

    assert keys_left() == 1
    store = opened(tmp_path)
    assert keys_left() == 1  # it may be what a newer copy names
    assert len(named_in(store)) == (1 if moment == "before commit" else 2)
    releasing(1)(store)
    assert keys_left() == (0 if moment == "before commit" else 1)
    assert held_in(tmp_path) == named_in(store)
    store.close()


def test_who_opens_a_store_while_keys_are_put_sees_no_older_copy(tmp_path: Path) -> None:
    make_store(tmp_path).close()
    seen: list[int] = []

    def look(name: str, moment: str) -> None:
        if name == "share" and moment != "begin":
            opened(tmp_path, may_destroy=False).close()
            seen.append(len(held_in(tmp_path)))

    store = make_store(tmp_path, on_transaction=look)
    put_share(store, 1, 2)
    assert seen == [3, 3]  # with their mark, until they are known to be committed
    assert held_in(tmp_path) == named_in(store) == {1, 2}
    store.close()


def test_who_only_looks_leaves_what_a_killed_process_left_to_the_next(tmp_path: Path) -> None:
    def die(name: str, moment: str) -> None:
        if (name, moment) == ("destroy", "committed"):
            raise Crash

    store = make_store(tmp_path, on_transaction=die)
    put_share(store, 1)
    with pytest.raises(Crash):
        releasing(1)(store)
    store.close()
    opened(tmp_path, may_destroy=False).close()
    assert held_in(tmp_path) == {1}
    opened(tmp_path).close()
    assert held_in(tmp_path) == set()


def test_slots_are_not_used_again_after_the_file_was_lost(tmp_path: Path) -> None:
    """Else a file that comes back would have the keys of something else."""
    store = make_store(tmp_path)
    put_share(store, 1, 2)
    releasing(1)(store)
    releasing(2)(store)
    store.close()
    keys_of(tmp_path).unlink()
    store = opened(tmp_path)
    put_share(store, 3)
    assert named_in(store) == {4}
    store.close()
