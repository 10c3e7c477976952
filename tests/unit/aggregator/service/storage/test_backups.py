"""A backup is one moment of a store in use, says what it is, and brings no key back to life."""

import shutil
import subprocess
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from aggregator.errors import ConfigurationError, ParameterError, StoreError
from aggregator.service.storage.backup.backup import back_up, check_backup
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.batches.sums import buckets_without_key, open_buckets
from aggregator.service.storage.engine.backup_contents import NoBackup
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.schema import head
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.secrets.key_file import KeyGone
from aggregator.service.storage.tasks.tasks import get_task
from tests.support.empty_store import new_place
from tests.support.raw_bytes import keys_in
from tests.support.store import (
    STORE_KEY,
    TASK_ID,
    add_to_bucket,
    adding,
    leader_task,
    read_shares,
    report_id,
    store_url,
    stored_in,
    totals,
    unit,
    units,
)

KEYS = Crypter([STORE_KEY])
ANOTHER = Crypter([b"\x01" * 32])
BATCH = units(0, 10)


def put_share(store: Database, time: int) -> None:
    ids = totals([report_id(time)], time)
    store.run_sync("add", lambda tx: add_to_bucket(tx, TASK_ID, unit(time), adding(time), ids))


def restored(file: Path, url: str, folder: Path, *, may_be_older: bool = False) -> Database:
    """Restore a backup to a place of its own, with the keys that the store at `url` has now."""
    place = new_place(stored_in(folder))
    if place.startswith("sqlite"):
        folder.mkdir()
        shutil.copy(file, stored_in(folder))
        keys = Path(make_url(url).database or "").with_name("store.sqlite.keys")
        if keys.exists():
            shutil.copy(keys, folder)
    else:
        subprocess.run(["pg_restore", f"--dbname={place}", file], check=True)  # noqa: S603, S607  the server's own program
    return Database.open(place, KEYS, may_be_older=may_be_older)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return store_url(tmp_path)


def test_a_backup_of_a_store_in_use_has_all_that_was_committed(
    store: Database, url: str, tmp_path: Path
) -> None:
    put_share(store, 5)
    back_up(url, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    put_share(store, 6)
    found = check_backup(url, tmp_path / "backup", "leader", KEYS)
    assert (found.version, found.roles, found.secrets) == (head(), {"leader"}, 2)
    assert found.faults == []
    again = restored(tmp_path / "backup", url, tmp_path / "restored", may_be_older=True)
    stored = again.read_sync("task", lambda tx: get_task(tx, TASK_ID))
    assert stored is not None
    assert stored.record == leader_task()
    assert again.read_sync("open", lambda tx: open_buckets(tx, TASK_ID)) == [(unit(5), 1)]
    again.close()


def test_a_restored_backup_does_not_bring_a_destroyed_sum_back(
    store: Database, url: str, tmp_path: Path
) -> None:
    put_share(store, 5)
    back_up(url, tmp_path / "backup")
    assert keys_in([tmp_path / "backup"], STORE_KEY, TASK_ID + unit(5)) == set()
    store.run_sync("destroy", lambda tx: mark_collected(tx, TASK_ID, BATCH))
    again = restored(tmp_path / "backup", url, tmp_path / "restored")
    assert again.read_sync("lost", buckets_without_key).lost == [(TASK_ID, unit(5))]
    with pytest.raises(KeyGone):
        again.read_sync("sums", lambda tx: read_shares(tx, TASK_ID, BATCH))
    again.close()


def test_the_sums_of_open_batches_come_back_with_a_key_file_that_was_not_lost(
    store: Database, url: str, tmp_path: Path, engine: str
) -> None:
    put_share(store, 5)
    back_up(url, tmp_path / "backup")
    again = restored(tmp_path / "backup", url, tmp_path / "restored")
    lost = again.read_sync("lost", buckets_without_key)
    assert lost.lost == ([] if engine == "sqlite" else [(TASK_ID, unit(5))])
    again.close()


def test_what_keeps_a_backup_from_being_used_is_said(
    store: Database, url: str, tmp_path: Path
) -> None:
    assert store.read_sync("task", lambda tx: get_task(tx, TASK_ID)) is not None
    file = tmp_path / "backup"
    back_up(url, file)
    found = check_backup(url, file, "helper", ANOTHER)
    (fingerprint,) = KEYS.fingerprints
    assert found.faults == [
        "it has tasks of a leader, and this party is a helper",
        f"its secrets are under the store key {fingerprint.hex()}, which is not given",
    ]


def test_a_file_that_is_no_whole_backup_is_refused(
    store: Database, url: str, tmp_path: Path
) -> None:
    put_share(store, 5)
    file = tmp_path / "backup"
    with pytest.raises(NoBackup, match="there is no file"):
        check_backup(url, file, "leader", KEYS)
    back_up(url, file)
    with pytest.raises(ParameterError, match="exists"):
        back_up(url, file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(NoBackup, match="damaged"):
        check_backup(url, file, "leader", KEYS)
    file.write_text("something else")
    with pytest.raises(NoBackup, match="damaged"):
        check_backup(url, file, "leader", KEYS)


def test_without_the_servers_programs_the_command_to_call_is_named(
    store: Database, url: str, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_share(store, 5)
    monkeypatch.setenv("PATH", str(tmp_path))
    if engine == "sqlite":  # which needs none
        back_up(url, tmp_path / "backup")
        assert check_backup(url, tmp_path / "backup", "leader", KEYS).faults == []
        return
    with pytest.raises(ConfigurationError, match="pg_dump --format=custom --exclude-table-data"):
        back_up(url, tmp_path / "backup")
    assert list(tmp_path.glob("backup*")) == []


def test_a_store_that_is_not_there_has_no_backup(tmp_path: Path, engine: str) -> None:
    nowhere = (
        f"sqlite:///{tmp_path}/nowhere"
        if engine == "sqlite"
        else "postgresql://nobody@/nothing?host=/nowhere"
    )
    with pytest.raises(StoreError, match="backup: "):
        back_up(nowhere, tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []
