"""The database: one transaction is one synchronous function, run whole in a worker thread.

`Database.run(name, work)` opens a write transaction, calls `work(transaction)` and commits: either
all that `work` wrote is stored or none of it, whenever the process is killed. `Database.read` does
the same over one snapshot, without writing. If the database was busy, the connection broke, or
another transaction stored the same row first, `work` is called again, a few times at most, so it
must have no effects outside the transaction. If the connection breaks during the commit, we do not
retry: as after a crash, nobody knows whether the transaction was committed, and the caller has to
cope. Once a verb refuses (`Transaction.refuse`), its transaction is rolled back even if `work`
catches the error: half a verb is never committed.

A transaction is not cancelled half-way: a cancelled caller waits until its thread has committed or
rolled back.
"""

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import sqlalchemy
from sqlalchemy import Connection, Engine, Table, bindparam, select
from sqlalchemy.sql.expression import Executable

from aggregator.clock import Clock
from aggregator.dap.ids import encode_base64url
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import (
    Backend,
    BodyGone,
    Busy,
    Disconnected,
    Insert,
    KeySlots,
    LostRace,
    backend,
    translated,
)
from aggregator.service.storage.engine.schema import check
from aggregator.service.storage.engine.scrubber import Scrubber
from aggregator.service.storage.engine.turns import Turns
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.secrets.key_file import KeyGone

if TYPE_CHECKING:
    from aggregator.service.storage.engine.objects import Objects

__all__ = ["Database", "OnTransaction", "Transaction", "UnknownTask"]

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=StoreError)
OnTransaction = Callable[[str, str], None]

S = TypeVar("S")

_TASK_KEY = select(tables.tasks.c.id).where(
    tables.tasks.c.task_id == bindparam("task_id"), tables.tasks.c.forgotten_at.is_(None)
)
_KEPT_TASK_KEY = _TASK_KEY.with_for_update(read=True, key_share=True)

_PREPARED: dict[tuple[type, object], Any] = {}
"""Statements, by the kind of database and the function that builds them."""

_ATTEMPTS = 6
_ID_SIZE = 16
_READERS = 8


class UnknownTask(StoreError):
    """There is no task with this id."""


@dataclasses.dataclass(slots=True)
class Transaction:
    """An open transaction, and everything else that the verbs need."""

    connection: Connection
    backend: Backend
    crypter: Crypter
    entropy: Entropy
    keys: KeySlots
    is_writing: bool
    now: int  # seconds since the Unix epoch by the database's clock, fixed for the transaction
    objects: "Objects | None" = None  # where large bodies lie, if not in the database
    new_objects: dict[bytes, bytes] = dataclasses.field(default_factory=dict)  # put at the commit
    has_put_objects: bool = False
    made_slots: list[int] = dataclasses.field(default_factory=list)  # of `keys`, used if committed
    destroyed_slots: list[int] = dataclasses.field(default_factory=list)  # of `keys`, at the commit
    scrub_log: bool = False  # set by a verb that destroyed secrets: empty the log after the commit
    shards: dict[int, int] = dataclasses.field(default_factory=dict)  # by task, set by `locks`
    taken: dict[bytes, list[str]] = dataclasses.field(default_factory=dict)  # by task, as above
    failure: StoreError | None = None  # set by `refuse`: the transaction is not committed
    _task_keys: dict[bytes, int] = dataclasses.field(default_factory=dict)

    def insert(self, table: Table) -> Insert:
        """Return an insert that knows `on_conflict_…`."""
        return self.backend.insert(table)

    def prepared(self, make: Callable[[Callable[[Table], Insert]], S]) -> S:
        """Return the statement that `make` builds, built once for each kind of database.

        Building a statement takes longer than running it.

        Args:
            make: Builds it from the database's `insert`, with `bindparam` for its values.
        """
        key = (type(self.backend), make)
        if key not in _PREPARED:
            _PREPARED[key] = make(self.backend.insert)
        statement: S = _PREPARED[key]
        return statement

    def run(self, statement: Executable, *each: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """Run a statement that was made once, and has no lists, in the quickest way.

        Args:
            statement: One of `prepared`, or a constant.
            *each: Its values, by name; it is run for each.

        Returns:
            Its rows, if it was run once.
        """
        return self.backend.run(self.connection, statement, each or ({},))

    def insert_many(
        self, statement: sqlalchemy.Insert, rows: Sequence[Mapping[str, object]]
    ) -> Sequence[Sequence[Any]]:
        """Insert one or more rows of the same columns; return what `statement` returns, if any."""
        return self.backend.insert_many(self.connection, statement, rows)

    def lock(self, names: set[bytes], *, shared: bool = False) -> None:
        """Hold the locks `names` until the transaction ends; readers need none."""
        if self.is_writing:
            self.backend.lock(self.connection, names, shared=shared)

    def lock_one_of(self, names: Sequence[bytes]) -> int:
        """Hold one of the locks `names` until the transaction ends, if it writes; return which."""
        return self.backend.lock_one_of(self.connection, names) if self.is_writing else 0

    def random_id(self) -> bytes:
        """Return a fresh id for a resource of ours, 16 bytes."""
        return self.entropy.bytes(_ID_SIZE)

    def refuse(self, error: E) -> E:
        """Return `error` for the caller to raise; the transaction can no longer be committed."""
        self.failure = error
        return error

    def task_key(self, task_id: bytes) -> int:
        """Return the key by which other tables name the task.

        A writing transaction locks the task's row until it ends. Otherwise the task could be
        forgotten meanwhile and leave behind the rows that are being stored.

        Raises:
            UnknownTask: There is no such task.
        """
        key = self._task_keys.get(task_id)
        if key is None:
            query = _KEPT_TASK_KEY if self.is_writing else _TASK_KEY
            rows = self.run(query, {"task_id": task_id})
            if not rows:
                raise UnknownTask(f"no task {encode_base64url(task_id)} in the store")
            key = self._task_keys[task_id] = int(rows[0][0])
        return key


class Database:
    """An open store with the schema that this program was written for."""

    def __init__(
        self,
        backend: Backend,
        crypter: Crypter,
        clock: Clock | None,
        entropy: Entropy,
        on_transaction: OnTransaction,
        objects: "Objects | None" = None,
    ) -> None:
        """Do not call this; use `open`, which also checks the schema."""
        self._backend = backend
        self._objects = objects
        self._writers = backend.engine()
        self._readers = backend.engine(readers=_READERS)
        self._crypter = crypter
        self._clock = clock
        self._entropy = entropy
        self._on_transaction = on_transaction
        self._writer = threading.BoundedSemaphore(backend.writers)
        self._reader = threading.BoundedSemaphore(_READERS)
        self._keys = backend.bucket_keys()
        self._undestroyed: set[int] = set()
        self._is_closed = False
        self._scrubber = Scrubber(backend.empty_log)
        self._writing, self._reading = Turns(backend.writers), Turns(_READERS)

    @staticmethod
    def open(
        url: str,
        crypter: Crypter,
        clock: Clock | None = None,
        on_transaction: OnTransaction | None = None,
        entropy: Entropy | None = None,
        objects: "Objects | None" = None,
    ) -> "Database":
        """Open the store at `url`, for example `sqlite:////var/lib/prio/leader.sqlite`.

        Args:
            url: As `backends.backend` takes it.
            crypter: The keys of the secret columns.
            clock: Gives `Transaction.now`; the database's own clock by default.
            on_transaction: Called with the transaction's name and `begin`, `before commit` or
                `committed` at those moments, in the transaction's thread. If it raises, the
                transaction ends there.
            entropy: Where keys, tokens and resource ids come from.
            objects: Where large bodies of reports lie; in the database if None.

        Raises:
            SchemaMismatch: The schema is not the one of this program; both are named.
        """
        check(url)
        database = Database(
            backend(url),
            crypter,
            clock,
            SystemEntropy() if entropy is None else entropy,
            _ignore if on_transaction is None else on_transaction,
            objects,
        )
        database._destroy_what_a_killed_process_left()
        database._scrubber.request()  # a killed process may have left secrets in the log
        return database

    async def run(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Return `work(transaction)` for one committed write transaction, run in a worker thread.

        Raises:
            Busy: Other transactions held the database during every attempt.
            Unreachable: There is no connection to the database. If it broke during the commit, the
                transaction may have been committed all the same.
            StoreError: The database failed, or is closed; nothing was written.
        """
        return await self._writing.take(partial(_timed("write", self.run_sync), name, work))

    async def read(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Return `work(transaction)` over one snapshot; writing fails."""
        return await self._reading.take(partial(_timed("read", self.read_sync), name, work))

    def run_sync(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Do what `run` does, in the calling thread."""
        with self._writer:
            return self._persist(self._writers, name, work)

    def read_sync(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Do what `read` does, in the calling thread."""
        with self._reader:
            return self._persist(self._readers, name, work)

    def prove_objects(self) -> None:
        """Try the object storage, if there is one.

        Raises:
            ConfigurationError: It does not keep what is put there.
        """
        if self._objects is not None:
            self._objects.prove()

    def missing_objects(self, names: Iterable[bytes]) -> set[bytes]:
        """Return those of the named objects that are not in the object storage.

        With many it takes long, and a server ends a transaction that is idle meanwhile.

        Raises:
            StoreError: We cannot tell, or there is no object storage.
        """
        if self._objects is None:
            raise StoreError("report_bodies: is not set")
        return self._objects.missing(names)

    def object_faults(self) -> list[str]:
        """Return why this process cannot use the object storage, if so, and begin to try again."""
        fault = None if self._objects is None else self._objects.fault
        if self._objects is None or fault is None:
            return []
        self._objects.try_again()
        return [f"uploads are refused and jobs wait: {fault}"]

    def close(self) -> None:
        """Close every connection as soon as nobody uses it; later calls are refused."""
        self._scrubber.close()
        with ExitStack() as turns:
            for turn, count in ((self._reader, _READERS), (self._writer, self._backend.writers)):
                for _ in range(count):
                    turns.enter_context(turn)
            self._is_closed = True
            self._readers.dispose()
            self._writers.dispose()
            self._keys.close()
            if self._objects is not None:
                self._objects.close()

    def _destroy_what_a_killed_process_left(self) -> None:
        """Destroy keys that are no longer in use but that a process left behind when it died."""
        held = self._keys.held()
        # Another process may be about to commit new keys, so only a writer can tell.
        if held and _unused(held, self.read_sync("look for keys", _used_slots)):
            self.run_sync("destroy keys", self._destroy_unused)

    def _destroy_unused(self, tx: Transaction) -> None:
        tx.destroyed_slots += _unused(self._keys.held(), _used_slots(tx))

    def _destroy(self, slots: Iterable[int]) -> None:
        """Destroy keys before the caller hears of the commit, with any that failed earlier."""
        self._undestroyed.update(slots)
        pending = list(self._undestroyed)
        if pending:
            self._keys.destroy(pending)
            self._undestroyed.difference_update(pending)

    @contextmanager
    def _undoing_if_it_fails(self, transaction: Transaction) -> Iterator[None]:
        """Undo what a failed transaction did outside the database.

        Its new keys are destroyed, since what they encrypt may lie in the log all the same.
        """
        try:
            yield
        except BaseException:
            self._undestroyed.update(transaction.made_slots)
            if self._objects is not None and transaction.has_put_objects:
                self._objects.try_delete(transaction.new_objects)
            raise

    def _persist(self, engine: Engine, name: str, work: Callable[[Transaction], T]) -> T:
        metrics = _metrics()
        with nullcontext() if metrics is None else metrics.TRANSACTION_SECONDS.labels(name).time():
            for _ in range(_ATTEMPTS - 1):
                try:
                    return self._transact(engine, name, work)
                except (Busy, Disconnected, LostRace, KeyGone, BodyGone):
                    # We retry at once. A busy database has made us wait already, a broken
                    # connection is made anew or refused, and the next snapshot knows that the
                    # batch was collected or the body moved.
                    if metrics is not None:
                        metrics.TRANSACTION_RETRIES.labels(name).inc()
            return self._transact(engine, name, work)

    def _transact(self, engine: Engine, name: str, work: Callable[[Transaction], T]) -> T:
        if self._is_closed:  # a connection made now would never be closed
            raise StoreError(f"transaction {name!r}: the store is closed")
        self._destroy(())
        with translated(self._backend, name), engine.connect() as connection:
            with connection.begin():
                self._on_transaction(name, "begin")
                clock = self._clock
                now = self._backend.now(connection) if clock is None else clock.now()
                transaction = Transaction(
                    connection,
                    self._backend,
                    self._crypter,
                    self._entropy,
                    self._keys.within(connection),
                    engine is self._writers,
                    now,
                    self._objects,
                )
                with self._undoing_if_it_fails(transaction):
                    with translated(self._backend, name, Disconnected):
                        result = work(transaction)
                    if transaction.failure is not None:
                        raise transaction.failure
                    if self._objects is not None and transaction.new_objects:
                        self._objects.put(transaction.new_objects)  # all, or it deletes what is
                        transaction.has_put_objects = True
                    self._on_transaction(name, "before commit")
            self._on_transaction(name, "committed")
            self._destroy(transaction.destroyed_slots)
            if transaction.scrub_log:
                self._scrubber.request()
            return result


def _used_slots(tx: Transaction) -> set[int]:
    return set(tx.connection.execute(select(tables.bucket_keys.c.slot)).scalars())


def _unused(held: Iterable[int], used: set[int]) -> list[int]:
    return [slot for slot in held if slot not in used]


def _timed(access: str, run: Callable[P, T]) -> Callable[P, T]:
    """Return `run`, timed, with its wait for a thread counted from now."""
    asked = time.perf_counter()

    def begin(*args: P.args, **kwargs: P.kwargs) -> T:
        metrics = _metrics()
        if metrics is not None:
            metrics.TRANSACTION_WAIT_SECONDS.labels(access).observe(time.perf_counter() - asked)
        return run(*args, **kwargs)

    return begin


def _metrics() -> Any:  # noqa: ANN401  a module
    """Return the process's metrics; None in a command, which shows them to nobody.

    A service has loaded the module. In a command, loading it would take longer than a transaction.
    """
    return sys.modules.get("aggregator.service.telemetry.metrics")


def _ignore(_name: str, _moment: str) -> None:
    """Do nothing; used if nobody listens."""
