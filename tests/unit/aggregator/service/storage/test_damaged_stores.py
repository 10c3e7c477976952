"""A store's file is not what SQLite wrote: found when its service starts, or by a command.

Nothing more is written to it by any process, until a check finds nothing.
"""

import functools
import gc
import os
import random
import resource
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from sqlalchemy.exc import DatabaseError
from structlog.testing import capture_logs

from aggregator.cli.service import health_checks
from aggregator.cli.service.health_checks import checking, doubting
from aggregator.errors import StoreError
from aggregator.service.storage.engine import sqlite_check, store_check
from aggregator.service.storage.engine.backends import Damaged
from aggregator.service.storage.engine.condition import disk_faults
from aggregator.service.storage.engine.sqlite import FoundDamaged
from aggregator.service.storage.engine.sqlite_check import CheckStopped, PageCheck
from aggregator.service.storage.engine.store_check import StoreCheck
from aggregator.service.storage.engine.transaction import Transaction
from tests.support.commands import run_here, service_file
from tests.support.engines import ON_SQLITE
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.store import body_of, make_store, store_url, stored, upload

pytestmark = ON_SQLITE

PAGE = 4096
SOME = range(40)


@functools.cache
def page_of_tasks() -> int:
    """Return where the root page of the tasks begins in every new store."""
    with tempfile.TemporaryDirectory() as folder:
        make_store(Path(folder)).close()
        with closing(sqlite3.connect(Path(folder) / "store.sqlite")) as connection:
            query = "SELECT rootpage FROM sqlite_schema WHERE name = 'tasks'"
            ((number,),) = connection.execute(query)
    return int((number - 1) * PAGE)


def with_bytes(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def noise(size: int) -> bytes:
    return random.Random(0).randbytes(size)  # noqa: S311  the same each time


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "the reserved bytes of the header": lambda was: with_bytes(was, 20, b"\x40"),
    "the page size of the header": lambda was: with_bytes(was, 16, b"\x08"),
    "the first words": lambda was: with_bytes(was, 0, b"?"),
    "the size in the header": lambda was: with_bytes(was, 28, b"\x01"),
    "the kind of a page": lambda was: with_bytes(was, page_of_tasks(), b"\x00"),
    "how many rows a page has": lambda was: with_bytes(was, page_of_tasks() + 3, b"\xff"),
    "a page of zeros": lambda was: with_bytes(was, page_of_tasks(), bytes(PAGE)),
    "a page of noise": lambda was: with_bytes(was, page_of_tasks(), noise(PAGE)),
    "half a file": lambda was: was[: len(was) // 2 // PAGE * PAGE],
    "a page too few": lambda was: was[:-PAGE],
    "noise": lambda was: noise(len(was)),
}


def break_page(file: Path) -> None:
    file.write_bytes(BROKEN["the kind of a page"](file.read_bytes()))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a store with reports, which nobody has open."""
    store = make_store(tmp_path)
    upload(store, SOME)
    store.close()
    (path,) = tmp_path.glob("*.sqlite")
    return path


def config_of(file: Path, role: str = "leader") -> Path:
    key = file.parent / f"{role}.key"
    key.write_text("A" * 43)
    key.chmod(0o600)
    config = service_file(file.parent, role)
    config.write_text(config.read_text().replace(f"{role}.sqlite", file.name))
    return config


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_service_does_not_start_over_pages_that_do_not_fit(
    file: Path, change: Callable[[bytes], bytes]
) -> None:
    file.write_bytes(change(file.read_bytes()))
    started = run_here("leader", "serve", "--processes=1", "--config", config_of(file))
    assert (started.returncode, started.stderr.count("\n")) == (2, 1), started
    assert f"the store {file} is damaged: " in started.stderr
    assert "go back to a backup" in started.stderr
    checked = run_here("store", "check", "--config", config_of(file))
    assert (checked.returncode, checked.stderr.count("\n")) == (2, 1), checked
    assert f"the store {file} is damaged: " in checked.stderr


@pytest.mark.parametrize(
    ("role", "command"),
    [
        ("leader", ("leader", "work")),
        ("helper", ("helper", "serve")),
        ("helper", ("helper", "work")),
        ("collector", ("collector", "serve")),
    ],
)
def test_no_service_of_any_party_does(file: Path, role: str, command: tuple[str, ...]) -> None:
    break_page(file)
    one = () if role == "collector" else ("--processes=1",)
    started = run_here(*command, *one, "--config", config_of(file, role))
    assert (started.returncode, "is damaged: " in started.stderr) == (2, True), started


def test_a_byte_that_changed_within_a_value_fits_as_well_as_any_other(file: Path) -> None:
    """What docs/operations/backups.md says of the check: it knows no value."""
    content = file.read_bytes()
    file.write_bytes(content.replace(body_of(3), body_of(4)))
    assert file.read_bytes() != content
    StoreCheck(store_url(file.parent)).run(thorough=True)


@pytest.mark.parametrize(
    ("code", "kind"), [(sqlite3.SQLITE_IOERR_READ, Damaged), (sqlite3.SQLITE_BUSY, StoreError)]
)
def test_a_page_that_the_disk_does_not_give_is_damage_and_a_lock_is_none(
    file: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StoreError]
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code

    def fail(*_: object, **__: object) -> Sequence[str]:
        raise error

    monkeypatch.setattr(PageCheck, "_findings", fail)
    check = StoreCheck(store_url(file.parent))
    with pytest.raises(StoreError, match=f"{file}.* disk I/O error") as caught:
        check.before_serving()
    assert type(caught.value) is kind
    assert check.state == ("damage found" if kind is Damaged else "failed")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_NOMEM, StoreError),
        (sqlite3.SQLITE_BUSY, StoreError),
        (sqlite3.SQLITE_CORRUPT, Damaged),
        (sqlite3.SQLITE_IOERR_READ, Damaged),
    ],
)
def test_a_page_for_which_there_is_no_memory_is_no_damage(
    file: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StoreError]
) -> None:
    said = f"*** in database main ***\nPage 52: unable to get the page. error code={code}"

    class Short:
        close = staticmethod(lambda: None)

        def execute(self, _: str) -> "Short":
            return self

        def fetchall(self) -> list[tuple[str]]:
            return [(said,)]

    monkeypatch.setattr(sqlite_check, "read_only", lambda *_, **__: Short())
    check = StoreCheck(store_url(file.parent))
    with pytest.raises(StoreError, match="Page 52: unable to get the page") as caught:
        check.run()
    assert type(caught.value) is kind
    assert (check._backend.damage() is not None) == (kind is Damaged)


def test_rows_that_do_not_fit_together_are_found_on_demand(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("DELETE FROM tasks")
    StoreCheck(store_url(file.parent)).run()
    with pytest.raises(Damaged, match=r"a row of .* names one of tasks that is not there"):
        StoreCheck(store_url(file.parent)).run(thorough=True)


def test_a_store_in_use_is_checked_on_demand(file: Path) -> None:
    store = make_store(file.parent)
    upload(store, range(50, 60))  # in the log alone
    done = run_here("store", "check", "--config", config_of(file))
    assert (done.returncode, done.stdout.endswith("no damage found\n")) == (0, True), done
    upload(store, range(60, 70))
    store.close()
    file.unlink()
    gone = run_here("store", "check", "--config", config_of(file))
    assert (gone.returncode, "there is no store" in gone.stderr) == (2, True)


def test_a_server_is_checked_by_its_own_operator(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(
        'service.role = "helper"\nservice.database = "postgresql://nobody.invalid/helper"\n'
    )
    done = run_here("store", "check", "--config", config)
    assert (done.returncode, "pg_amcheck" in done.stderr) == (2, True)
    server = StoreCheck("postgresql://nobody.invalid/helper")
    server.before_serving()
    assert server.state == "by its server"


FOUND = "Page 9: never used"


def test_what_one_process_finds_keeps_all_others_from_writing_but_not_from_saying_so(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(file.parent)
    with monkeypatch.context() as patch:
        patch.setattr(PageCheck, "find", lambda *_, **__: [FOUND])
        other = StoreCheck(store_url(file.parent))
        with pytest.raises(Damaged, match=FOUND):
            other.run()
        assert other.state == "damage found"
    with pytest.raises(Damaged, match=f"{FOUND}.*`prio store check` looks again"):
        upload(store, range(50, 60))
    assert stored(store) == len(SOME)
    backup = run_here("backup", file.with_name("backup"), "--config", config_of(file))
    assert (backup.returncode, FOUND in backup.stderr) == (2, True)
    assert not file.with_name("backup").exists()
    (fault,) = store.read_sync("look", disk_faults)
    assert fault.startswith(f"the store {file} is damaged: {FOUND}: nothing more is written to it")
    assert run_here("store", "check", "--config", config_of(file)).returncode == 0
    upload(store, range(50, 60))
    assert (stored(store), store.read_sync("look", disk_faults)) == (len(SOME) + 10, [])
    store.close()


def test_a_transaction_that_meets_damage_is_the_last_that_writes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = make_store(file.parent), make_store(file.parent)

    def meet_damage(_: Transaction) -> None:
        raise DatabaseError(None, None, FoundDamaged(FOUND))

    with pytest.raises(Damaged, match=FOUND):
        store.read_sync("look", meet_damage)
    for each in (store, other):
        with pytest.raises(Damaged, match=FOUND):
            upload(each, range(50, 60))
        each.close()
    started = StoreCheck(store_url(file.parent))
    monkeypatch.setattr(store_check, "AT_START_BYTES", 0)  # it is looked at whatever its size
    started.before_serving()
    assert started.state == "nothing found"
    store = make_store(file.parent)
    upload(store, range(50, 60))
    store.close()


@contextmanager
def without_descriptors() -> Iterator[None]:
    """Leave this process no file descriptor to open a file by."""
    gc.collect()  # what other tests left open must not be closed in between
    gc.disable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    opened: list[int] = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.enable()


def test_a_process_without_descriptors_calls_no_store_damaged_that_nobody_found_so(
    file: Path,
) -> None:
    store = make_store(file.parent)
    upload(store, range(50, 60))
    with without_descriptors():
        upload(store, range(60, 70))
    assert (stored(store), store.read_sync("look", disk_faults)) == (len(SOME) + 20, [])
    file.with_name(f"{file.name}.damaged").write_text(FOUND)
    with without_descriptors(), pytest.raises(Damaged, match=r"\.damaged says so"):
        upload(store, range(70, 80))


def test_what_the_disk_fails_to_give_once_is_no_damage(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite calls a file malformed if it could not read a page of the schema."""
    store, failures = (
        make_store(file.parent),
        iter([DatabaseError(None, None, FoundDamaged(FOUND))]),
    )

    def fail_once(tx: Transaction) -> int:
        for failure in failures:
            raise failure
        return tx.now

    assert store.run_sync("look", fail_once) > 0
    findings, given = PageCheck._findings, iter([[FOUND]])
    monkeypatch.setattr(
        PageCheck, "_findings", lambda *args, **named: next(given, None) or findings(*args, **named)
    )
    StoreCheck(store_url(file.parent)).run()
    assert next(given, None) is None
    upload(store, range(50, 60))
    assert store.read_sync("look", disk_faults) == []
    store.close()


def test_a_check_that_sees_less_does_not_clear_what_another_has_found(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("DELETE FROM tasks")
    for _ in range(2):
        done = run_here("store", "check", "--config", config_of(file))
        assert (done.returncode, "names one of tasks" in done.stderr) == (2, True), done
        with pytest.raises(Damaged, match="names one of tasks"):
            StoreCheck(store_url(file.parent)).before_serving()


def test_damage_that_a_transaction_meets_during_a_check_outlasts_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = StoreCheck(store_url(file.parent))

    def meet_damage(*_: object, **__: object) -> Sequence[str]:
        check._backend.note_damage(FOUND)
        return []

    monkeypatch.setattr(PageCheck, "find", meet_damage)
    check.run()
    assert check._backend.damage() == FOUND


def test_a_mark_that_cannot_be_removed_is_said(file: Path) -> None:
    mark = file.with_name(f"{file.name}.damaged")
    mark.mkdir()
    done = run_here("store", "check", "--config", config_of(file))
    assert (done.returncode, done.stdout, str(mark) in done.stderr) == (1, "", True), done


@pytest.mark.usefixtures("file")
def test_neither_a_command_nor_a_service_that_ends_deletes_the_log_of_a_damaged_store(
    tmp_path: Path,
) -> None:
    file, log = tmp_path / "store.sqlite", tmp_path / "store.sqlite-wal"
    store = make_store(tmp_path)
    store._scrubber.close()
    upload(store, range(50, 60))
    store._backend.note_damage(FOUND)
    kept = log.stat().st_size
    assert kept
    store.close()
    assert log.stat().st_size == kept
    for command in ("status", "status"):
        done = run_here(command, "--config", config_of(file))
        assert (done.returncode, FOUND in done.stdout + done.stderr) != (0, True), done
        assert log.stat().st_size == kept


def test_the_log_of_a_damaged_store_is_left_as_it_is(file: Path) -> None:
    store = make_store(file.parent)
    store._scrubber.close()  # else it empties the log at some moment
    upload(store, range(50, 60))
    files = [file, file.with_name(f"{file.name}-wal")]

    def written() -> list[tuple[int, int]]:
        return [(each.stat().st_size, each.stat().st_mtime_ns) for each in files]

    before = written()
    store._backend.note_damage(FOUND)
    assert not store._backend.empty_log()
    assert written() == before
    store._backend.note_damage(None)
    assert store._backend.empty_log()
    assert written() != before
    store.close()


def test_a_log_that_cannot_be_emptied_for_any_reason_is_tried_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(file.parent)
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> sqlite3.Connection:
            raise sqlite3.DatabaseError("database disk image is malformed")

        patch.setattr(sqlite3, "connect", fail)
        assert not store._backend.empty_log()
    assert store._backend.empty_log()
    store.close()


def test_a_backup_in_the_place_of_a_damaged_store_is_looked_at_before_it_is_put_right(
    file: Path,
) -> None:
    config, whole = config_of(file), file.read_bytes()
    command = ("store", "after-restore", "--trust-journal", "--config", config)
    file.write_bytes(BROKEN["the kind of a page"](whole))
    assert run_here("store", "check", "--config", config).returncode == 2
    damaged = run_here(*command)
    assert (damaged.returncode, "is damaged: " in damaged.stderr) == (2, True), damaged
    file.write_bytes(whole)
    assert run_here(*command).returncode == 0


@pytest.fixture
def large(file: Path, monkeypatch: pytest.MonkeyPatch) -> StoreCheck:
    """Return the check of a store that its service does not wait for."""
    monkeypatch.setattr(store_check, "AT_START_BYTES", 0)
    found = StoreCheck(store_url(file.parent))
    found.before_serving()
    assert found.state == "due"
    return found


async def test_a_large_store_is_checked_while_its_service_serves(
    large: StoreCheck, file: Path
) -> None:
    with capture_logs() as lines:
        await checking(large)(anyio.Event())
    assert large.state == "nothing found"
    assert [each["event"] for each in lines] == [
        "the store is being checked",
        "the store was checked",
    ]
    with capture_logs() as lines:
        await checking(large)(anyio.Event())  # after a SIGHUP
    assert lines == []
    again = StoreCheck(store_url(file.parent))
    break_page(file)
    with capture_logs() as lines:
        await checking(again)(anyio.Event())
    assert again.state == "damage found"
    assert [each["log_level"] for each in lines] == ["info", "error"]
    assert f"the store {file} is damaged: " in lines[-1]["reason"]


async def test_a_service_looks_again_at_a_store_that_was_found_damaged(
    large: StoreCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "WATCH_SECONDS", 0)
    large._backend.note_damage(FOUND)
    large.state, stop = "damage found", anyio.Event()
    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(doubting(large), stop)
            await to_thread.run_sync(wait_until, lambda: large.state == "nothing found")
            stop.set()
    assert large._backend.damage() is None
    told = [(each["event"], each["before"]) for each in lines if each["log_level"] == "warning"]
    assert told == [("no damage is found any more", FOUND)]


async def test_a_service_that_ends_stops_its_check_and_the_next_one_begins_it_anew(
    large: StoreCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Semaphore(0), threading.Event()
    find, stop = PageCheck.find, PageCheck.stop

    def wait(pages: PageCheck, **named: Any) -> Sequence[str]:  # noqa: ANN401  passed on
        begun.release()
        assert stopped.wait(PATIENCE_SECONDS)
        return find(pages, **named)

    def note(pages: PageCheck) -> None:
        stop(pages)
        stopped.set()

    monkeypatch.setattr(PageCheck, "find", wait)
    monkeypatch.setattr(PageCheck, "stop", note)
    first, second = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(checking(large), first)
        await to_thread.run_sync(begun.acquire)
        group.start_soon(checking(large), second)
        first.set()
        await to_thread.run_sync(begun.acquire)
    assert large.state == "nothing found"


def test_a_check_is_stopped_in_the_middle_of_a_page(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID")
    pages = PageCheck(file)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    class Endless(PageCheck):
        def _findings(self, connection: sqlite3.Connection, *_: Any, **__: Any) -> Sequence[str]:  # noqa: ANN401  not used
            begun.set()
            return [str(each) for each in connection.execute(endless)]

    begun = threading.Event()
    running = Endless(file)

    def stop() -> None:
        assert begun.wait(PATIENCE_SECONDS)
        running.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(CheckStopped):
        running.find()
    thread.join()
    pages.stop()
    with pytest.raises(CheckStopped):
        pages.find()
