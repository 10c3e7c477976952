"""Everything particular to SQLite, behind `backends.Backend`.

There is one writer at a time (a lock within the process, `BEGIN IMMEDIATE` between processes), with
readers alongside (WAL). `synchronous=FULL` makes a commit survive a power cut. `secure_delete=ON`
overwrites deleted bytes, except those that are deleted in `unscrubbed`.
"""

import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Column, Connection, Engine, Integer, Table, cast, delete, event, func, select
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.expression import Executable

from aggregator.errors import ConfigurationError, StoreError
from aggregator.service.config import NotPlain, check_plain, read_plain
from aggregator.service.storage.engine import sqlite_backup
from aggregator.service.storage.engine.backup_contents import BackupContents
from aggregator.service.storage.engine.driver_statements import run, run_text
from aggregator.service.storage.engine.key_slots import BucketKeyFile
from aggregator.service.storage.engine.presence import Duty, PresenceFiles, Present, present_beside
from aggregator.service.storage.engine.sqlite_check import DAMAGED, PageCheck
from aggregator.service.storage.secrets.files import create_private

BUSY_TIMEOUT_SECONDS = 5
STEP_BYTES = 8 << 20
"""The most bytes that `empty` deletes at once, unless a single row has more."""
STEP_ROWS = 5000
_LOG_PAGES = 4000
"""How far the log grows before it is copied into the file, 16 MiB. Ids are random, so nearly each
changes a page of its own, and those that several transactions change are copied once."""
_NOW = select(cast(func.strftime("%s", "now"), Integer))
_KEEPERS: dict[Path, sqlite3.Connection] = {}
"""For each damaged store a connection that is open until this process ends, and writes nothing."""
_BUSY = 5
_LOCKED = 6
_FULL = 13


class Moved(sqlite3.OperationalError):
    """The path no longer names the file that we opened: what we write would be lost."""


class FoundDamaged(sqlite3.DatabaseError):
    """Somebody has found the file damaged: what is written now could make it worse."""

    def __init__(self, said: str) -> None:
        """Repeat what was said of the file then."""
        super().__init__(said)
        self.sqlite_errorcode = DAMAGED[0]


class Sqlite:
    """A store in one SQLite file."""

    writers = 1
    shards = 1

    def __init__(self, url: URL) -> None:
        """Keep the store in the file that `url` names.

        Raises:
            ConfigurationError: It names no file on disk, or has options.
        """
        if url.database in (None, "", ":memory:"):
            raise ConfigurationError("the store's URL must name a file that lasts")
        if url.query:
            raise ConfigurationError("the store's URL must end with the file: it takes no options")
        self._url = url
        self._path = Path(url.database)
        # The file beside the store that says that the store is damaged.
        self._mark = self._path.with_name(f"{self._path.name}.damaged")
        self._opened: tuple[int, int] | None = None  # the file's device and inode

    def engine(self, readers: int = 0) -> Engine:
        """Return an engine for one writer, or for `readers` readers, with our settings."""
        made = sqlalchemy.create_engine(
            self._url,
            # A statement's values may be secrets: keep them out of error messages.
            hide_parameters=True,
            pool_size=readers or 1,
            max_overflow=0,
            poolclass=sqlalchemy.QueuePool,
            connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
        )

        def configure(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
            connection.isolation_level = None  # we say BEGIN ourselves, below
            for pragma in (
                "journal_mode=WAL",
                "synchronous=FULL",
                "secure_delete=ON",
                "foreign_keys=ON",
                "trusted_schema=OFF",
                "temp_store=MEMORY",
                f"wal_autocheckpoint={_LOG_PAGES}",
                f"query_only={'ON' if readers else 'OFF'}",
            ):
                connection.execute(f"PRAGMA {pragma}")

            if self._opened is None:
                self._opened = self._file()

        def begin(connection: Connection) -> None:
            self._check_place()
            if not readers:
                self._refuse_damaged()
            # A writer takes its lock at once: taking it later could fail after work was done.
            run_text(connection, "BEGIN" if readers else "BEGIN IMMEDIATE")

        # SQLite would make a new file where there is none.
        event.listen(made, "do_connect", lambda *_: self._check_place())
        event.listen(made, "connect", configure)
        event.listen(made, "close", lambda *_: self._keep_damaged_log())
        event.listen(made, "begin", begin)
        return made

    def _file(self) -> tuple[int, int] | None:
        """Return the device and inode of the file at the path, None if there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _check_place(self) -> None:
        """Check that the file is still where it was opened.

        Raises:
            Moved: It is not. The next program to open the path would not find what we write now,
                and two files at one path share a log, which damages both.
        """
        if self._opened is not None and self._file() != self._opened:
            raise OperationalError(
                None,
                None,
                Moved(
                    "the file was moved, removed or replaced while it was in use: put it back; "
                    "if you meant the change, start this process again"
                ),
            )

    def _refuse_damaged(self) -> None:
        """Refuse to write, as `FoundDamaged`, to a file that was found damaged."""
        said = self.damage()
        if said is not None:
            raise DatabaseError(None, None, FoundDamaged(said))

    def _keep_damaged_log(self) -> None:
        """Let the log of a damaged store be, which the last connection to close would delete."""
        if self._path not in _KEEPERS and self.damage() is not None:
            with suppress(sqlite3.Error):
                keeper = sqlite_backup.read_only(self._path, any_thread=True)
                _KEEPERS[self._path] = keeper
                keeper.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # locks the file

    def damage(self) -> str | None:
        """Return what any process has found wrong with the file, until a check finds nothing."""
        try:
            # That asks for no descriptor: without one, a whole file would be called damaged.
            self._mark.lstat()
            return read_plain(self._mark).decode("utf-8").strip() or "no more is known"
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            return f"{self._mark} says so"  # that it is there says enough

    def note_damage(self, found: str | None) -> None:
        """Tell every process of this store what was found wrong with it; None for nothing any more.

        It does what it can: on a disk that takes no file, each process finds the damage by itself.
        """
        with suppress(OSError):
            if found is None:
                self._mark.unlink(missing_ok=True)
            elif not self._mark.exists():
                create_private(self._mark, f"{found}\n")

    def page_check(self) -> PageCheck:
        """Return a check of the file's pages."""
        return PageCheck(self._path)

    @property
    def name(self) -> str:
        """What messages call the store: its file."""
        return str(self._path)

    def stored_bytes(self, connection: Connection) -> int:  # noqa: ARG002  the files say it
        """Return how many bytes the file and its log have."""
        return self.page_check().file_bytes()

    def free_bytes(self) -> int | None:
        """Return the free bytes on the disk under the file."""
        return shutil.disk_usage(self._path.parent).free

    def exists(self) -> bool:
        """Return whether there is a store; connecting would create an empty one.

        Raises:
            ConfigurationError: In the place of one of its files is something else.
        """
        try:
            for suffix in ("-wal", "-shm"):
                beside = self._path.with_name(f"{self._path.name}{suffix}")
                if check_plain(beside) and beside.is_symlink():  # SQLite follows none
                    raise ConfigurationError(
                        f"database: {beside} is a link, and a file of its own is needed: put the "
                        "file itself there"
                    )
            return check_plain(self._path)
        except NotPlain as error:
            raise ConfigurationError(f"database: {error.filename}: {error.strerror}") from None
        except OSError as error:
            raise StoreError(f"the store's file {self._path}: {error.strerror}") from error

    def create(self) -> None:
        """Create the file if it is missing, readable by its owner only; the log inherits the mode.

        An existing file is left alone. By POSIX, closing any descriptor of it would drop the locks
        that SQLite holds on it in this process, and another process could then empty the log of a
        store in use.

        Raises:
            StoreError: The file cannot be created; the message names it.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(
                f"the store's file {self._path} cannot be made: {error.strerror}"
            ) from error

    def prove_locks(self, setting: str) -> None:
        """Do nothing: SQLite runs in this process, and the kernel locks its file."""

    def now(self, connection: Connection) -> int:
        """Return the seconds since the Unix epoch by the database's clock."""
        ((seconds,),) = run(connection, _NOW, [{}])
        return int(seconds)

    def insert(self, table: Table) -> Insert:
        """Return an insert that knows `on_conflict_…`."""
        return sqlite_insert(table)

    def insert_many(
        self,
        connection: Connection,
        statement: sqlalchemy.Insert,
        rows: Sequence[Mapping[str, Any]],
    ) -> Sequence[Sequence[Any]]:
        """Insert rows one by one."""
        return run(connection, statement, rows)

    def run(
        self, connection: Connection, statement: Executable, each: Sequence[Mapping[str, Any]]
    ) -> Sequence[Sequence[Any]]:
        """Run a prepared statement, without SQLAlchemy."""
        return run(connection, statement, each)

    def lock(self, connection: Connection, names: set[bytes], *, shared: bool) -> None:
        """Do nothing: the only writer has held the whole store from the beginning."""

    def lock_one_of(self, connection: Connection, names: Sequence[bytes]) -> int:  # noqa: ARG002  as above
        """Return 0: nobody else holds any lock."""
        return 0

    def lock_alone(self, connection: Connection, table: Table) -> bool:  # noqa: ARG002  as above
        """Return True: nobody else writes, and readers have their snapshots."""
        return True

    def empty(self, connection: Connection, content: Column[bytes]) -> None:
        """Delete the first rows of the table, up to `STEP_BYTES` of `content`."""
        (key,) = content.table.primary_key.columns
        size = func.length(content)
        first = select(key.label("key"), size.label("size")).order_by(key).limit(STEP_ROWS)
        row = first.subquery().c
        up_to = func.sum(row.size).over(order_by=row.key)
        rows = select(row.key, row.size, up_to.label("up_to")).subquery().c
        step = select(func.max(rows.key)).where(
            (rows.up_to <= STEP_BYTES) | (rows.up_to == rows.size)  # equal only for the first row
        )
        with self.unscrubbed(connection):
            connection.execute(delete(content.table).where(key <= step.scalar_subquery()))

    @contextmanager
    def unscrubbed(self, connection: Connection) -> Iterator[None]:
        """Do not overwrite whole pages that become free inside."""
        run_text(connection, "PRAGMA secure_delete=FAST")
        try:
            yield
        finally:
            run_text(connection, "PRAGMA secure_delete=ON")

    def bucket_keys(self) -> BucketKeyFile:
        """Return the file of short-lived keys: the database's path and `.keys`."""
        return BucketKeyFile(self._path.with_name(f"{self._path.name}.keys"))

    def presence(self, duties: Collection[Duty]) -> PresenceFiles:
        """Return what shows others that this process does these duties."""
        return PresenceFiles(self._path, duties)

    def present(self, connection: Connection) -> Present:  # noqa: ARG002  files say it
        """Return the duties that somebody does now."""
        return present_beside(self._path)

    def empty_log(self) -> bool:
        """Empty the write-ahead log, where destroyed secrets may still lie; wait for nobody.

        It uses a connection of its own. The log is first copied into the database without the
        writers' lock, so that emptying it holds the lock only for a moment.

        Returns:
            Whether the log is empty now; a writer, or a reader that still needs it, prevents that.
            So does damage, since the log may have the only whole copy of a page.
        """
        if self._file() != self._opened or self.damage() is not None:
            return False
        try:
            with closing(sqlite3.connect(self._path, timeout=0)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.DatabaseError:  # mostly locked; nothing that was committed is lost
            return False
        return not busy

    def back_up(self, file: Path) -> None:
        """Write one moment of the database to an empty file.

        Raises:
            StoreError: It cannot be read.
        """
        if not self.exists():
            raise StoreError(f"backup: there is no store {self.name}: is its disk there?")
        try:
            sqlite_backup.copy(self._path, file)
        except sqlite3.Error as error:
            # SQLite does not say which of the two files failed.
            way = f"the store {self.name} to {file.parent}"
            raise StoreError(f"backup: {way}: {error}") from error

    def read_backup(self, file: Path, secrets: Sequence[tuple[str, str]]) -> BackupContents:
        """Read such a file to its end; see `sqlite_backup`."""
        return sqlite_backup.contents(file, secrets)

    def is_busy(self, error: OperationalError) -> bool:
        """Return whether other transactions held the database for too long."""
        return _code(error) in (_BUSY, _LOCKED)

    def is_unreachable(self, error: DBAPIError) -> bool:
        """Return whether the path no longer names the file that we opened."""
        return isinstance(error.orig, Moved)

    def is_lost_race(self, error: DBAPIError) -> bool:  # noqa: ARG002  one writer: no race
        """Return False: nobody else writes between a verb's look and its insert."""
        return False

    def is_full(self, error: OperationalError) -> bool:
        """Return whether the disk has no room."""
        return _code(error) == _FULL

    def is_damaged(self, error: DBAPIError) -> bool:
        """Return whether the file is damaged, or no database at all."""
        return _code(error) in DAMAGED

    def reason(self, error: DBAPIError) -> str:
        """Return what SQLite says is wrong."""
        return str(error.orig)


def _code(error: DBAPIError) -> int:
    return int(getattr(error.orig, "sqlite_errorcode", 0)) & 0xFF
