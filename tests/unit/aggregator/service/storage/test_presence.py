"""What a store knows of the services that run on it, on each database."""

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import InternalError

from aggregator.errors import StoreError
from aggregator.service.storage.engine.condition import who_is_present
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.postgresql_presence import PresenceLocks
from aggregator.service.storage.engine.presence import Duty, PresenceFiles, Present, present_beside
from tests.support import postgresql
from tests.support.empty_store import url_of
from tests.support.patience import wait_until


@pytest.fixture
def look(store: Database) -> Callable[[], Present]:
    return lambda: store.read_sync("look", who_is_present)


def test_nobody_is_present_in_a_store_that_is_only_open(look: Callable[[], Present]) -> None:
    assert look() == {}


def test_a_duty_is_done_as_long_as_one_of_several_does_it(
    store: Database, look: Callable[[], Present]
) -> None:
    first, second = store.presence([Duty.SERVE, Duty.WORK]), store.presence([Duty.SERVE])
    assert look() == {}
    for each in (first, second, first):
        each.keep()
    assert set(look()) == {Duty.SERVE, Duty.WORK}
    first.close()
    wait_until(lambda: set(look()) == {Duty.SERVE})
    second.close()
    wait_until(lambda: look() == {})
    second.close()


def test_a_duty_is_as_old_as_the_first_of_those_who_do_it(
    store: Database, look: Callable[[], Present]
) -> None:
    began = time.monotonic()
    first, second = store.presence([Duty.WORK]), store.presence([Duty.WORK])
    first.keep()
    before = look()[Duty.WORK]
    assert 0 <= before <= time.monotonic() - began
    second.keep()
    assert look()[Duty.WORK] >= before
    for each in (first, second):
        each.close()


def test_who_was_lost_from_sight_is_seen_again(
    store: Database, look: Callable[[], Present], tmp_path: Path, engine: str, server: str | None
) -> None:
    here = store.presence([Duty.SERVE])
    here.keep()
    if engine == "sqlite":
        (tmp_path / "store.sqlite.serve").unlink()
        assert look() == {}
    else:
        assert server is not None
        postgresql.execute(
            server,
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'",
        )
        wait_until(lambda: look() == {})
    here.keep()
    assert set(look()) == {Duty.SERVE}
    here.close()


def test_to_be_present_and_to_look_write_nothing_into_files(tmp_path: Path) -> None:
    store = tmp_path / "beside.sqlite"
    here = PresenceFiles(store, list(Duty))

    def written() -> object:
        return {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("beside.*")}

    here.keep()
    before = written()
    for _ in range(10):
        here.keep()
        assert len(present_beside(store)) == len(Duty)
    assert written() == before
    here.close()


@pytest.mark.usefixtures("store")
def test_to_be_present_can_write_nothing_on_a_server(server: str | None) -> None:
    if server is None:
        return  # it is files, as above
    here = PresenceLocks(make_url(server).set(drivername="postgresql+psycopg"), list(Duty))
    here.keep()
    assert here._held is not None
    with pytest.raises(InternalError, match="read-only transaction"):
        here._held.exec_driver_sql("CREATE TABLE one (two integer)")
    here.close()


@pytest.fixture
def server(tmp_path: Path, engine: str) -> str | None:
    """Return the URL of the store's database, if it is on a server."""
    return url_of(tmp_path / "store.sqlite") if engine == "postgresql" else None


def test_many_who_look_at_once_are_not_taken_for_who_runs(tmp_path: Path) -> None:
    store = tmp_path / "beside.sqlite"
    once = PresenceFiles(store, list(Duty))
    once.keep()
    once.close()
    with ThreadPoolExecutor(2) as threads:
        seen = list(threads.map(lambda _: present_beside(store), range(500)))
    assert all(each == {} for each in seen)


def test_a_moment_that_cannot_be_read_or_is_yet_to_come_is_of_no_use(tmp_path: Path) -> None:
    store = tmp_path / "beside.sqlite"
    here = PresenceFiles(store, [Duty.WORK])
    here.keep()
    for text in ("", "?", f"{time.monotonic() + 1000}"):
        (tmp_path / "beside.sqlite.work").write_text(text)
        assert present_beside(store) == {Duty.WORK: math.inf}
    here.close()


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = tmp_path / "file" / "store.sqlite"
    with pytest.raises(StoreError, match=r"look cannot be locked: Not a directory"):
        PresenceFiles(store, [Duty.SERVE]).keep()
    with pytest.raises(StoreError, match=r"look cannot be read: Not a directory"):
        present_beside(store)


@pytest.mark.parametrize("name", ["look", "serve"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: os.mkfifo(path, 0o600), "is a FIFO"),
        (Path.mkdir, "is a directory"),
        (lambda path: path.symlink_to("other"), "is a link"),
    ],
    ids=["FIFO", "directory", "link"],
)
def test_what_lies_in_the_place_of_a_lock_is_said_and_never_waited_for_or_written(
    tmp_path: Path, name: str, make: Callable[[Path], object], said: str
) -> None:
    store, other = tmp_path / "beside.sqlite", tmp_path / "other"
    here = PresenceFiles(store, [Duty.SERVE])
    here.keep()
    here.close()
    other.write_text("somebody's")
    place = tmp_path / f"beside.sqlite.{name}"
    place.unlink()
    make(place)
    for use in (here.keep, lambda: present_beside(store)):
        with pytest.raises(StoreError, match=f"{place} cannot be .*{said}"):
            use()
    assert other.read_text() == "somebody's"
