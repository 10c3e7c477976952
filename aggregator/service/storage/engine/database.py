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

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sqlalchemy import Engine

from aggregator.clock import Clock
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import StoreError
from aggregator.service.storage.engine.backends import (
    Backend,
    BodyGone,
    Busy,
    Damaged,
    Disconnected,
    LostRace,
    backend,
    translated,
)
from aggregator.service.storage.engine.key_slots import Unnamed, ahead
from aggregator.service.storage.engine.presence import Duty, Presence
from aggregator.service.storage.engine.schema import check
from aggregator.service.storage.engine.scrubber import Scrubber
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.secrets.key_file import KeyGone

if TYPE_CHECKING:
    from anyio import CapacityLimiter
    from anyio.lowlevel import RunVar

    from aggregator.service.storage.engine.objects import Objects

P = ParamSpec("P")
T = TypeVar("T")
OnTransaction = Callable[[str, str], None]

_ATTEMPTS = 6
_READERS = 8


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
        self._is_ample: dict[tuple[int, bytes, bool], bool] = {}
        self._is_closed = False
        self._scrubber = Scrubber(backend.empty_log)
        self._writing, self._reading = _Threads(backend.writers), _Threads(_READERS)

    @staticmethod
    def open(
        url: str,
        crypter: Crypter,
        clock: Clock | None = None,
        on_transaction: OnTransaction | None = None,
        entropy: Entropy | None = None,
        objects: "Objects | None" = None,
        *,
        may_destroy: bool = True,
        may_be_older: bool = False,
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
            may_destroy: Whether to destroy keys that a killed process left; commands that only
                look do not.
            may_be_older: Whether to open it although its keys say that it is a copy from before
                some of its sums.

        Raises:
            KeysAhead: It is such a copy; nothing was changed.
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
        try:
            database._settle_keys(may_destroy=may_destroy, may_be_older=may_be_older)
        except BaseException:
            database.close()
            raise
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
        return await self._writing.run(partial(_timed("write", self.run_sync), name, work))

    async def read(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Return `work(transaction)` over one snapshot; writing fails."""
        return await self._reading.run(partial(_timed("read", self.read_sync), name, work))

    def run_sync(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Do what `run` does, in the calling thread."""
        with self._writer:
            return self._persist(self._writers, name, work)

    def read_sync(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Do what `read` does, in the calling thread."""
        with self._reader:
            return self._persist(self._readers, name, work)

    def presence(self, duties: Collection[Duty]) -> Presence:
        """Return what shows others that this process does these duties; it is the caller's."""
        return self._backend.presence(duties)

    @property
    def has_objects(self) -> bool:
        """Whether large bodies of reports lie in an object storage."""
        return self._objects is not None

    def prove_objects(self) -> None:
        """Try the object storage, if there is one.

        Raises:
            ConfigurationError: It does not keep what is put there.
        """
        if self._objects is not None:
            self._objects.prove()

    def know_objects(self) -> None:
        """Keep an object in the object storage, if there is one, to know the place by.

        Raises:
            Unreachable: It could not be stored.
        """
        if self._objects is not None:
            self._objects.know_place()

    def wrong_objects(
        self, right: Mapping[bytes, Callable[[bytes], bool]], most: int
    ) -> set[bytes]:
        """Return those of the named objects that are not what they should be (`Objects.wrong`).

        With many it takes long, and a server ends a transaction that is idle meanwhile.

        Raises:
            StoreError: We cannot tell, or there is no object storage.
        """
        if self._objects is None:
            raise StoreError("report_bodies: is not set")
        return self._objects.wrong(right, most)

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
        with ExitStack() as held:
            for access, count in ((self._reader, _READERS), (self._writer, self._backend.writers)):
                for _ in range(count):
                    held.enter_context(access)
            self._is_closed = True
            self._readers.dispose()
            self._writers.dispose()
            self._keys.close()
            if self._objects is not None:
                self._objects.close()

    def _settle_keys(self, *, may_destroy: bool, may_be_older: bool) -> None:
        """Destroy keys that processes which died have left and no newer database can name.

        Raises:
            KeysAhead: Other keys are newer than the database.
        """

        def is_settled(found: Unnamed) -> bool:
            return not (may_destroy and found.dead) and (may_be_older or not found.newer)

        def settle(tx: Transaction) -> None:
            found = tx.keys.unnamed(self._keys.held())
            if found.newer and not may_be_older:
                raise tx.refuse(ahead(self._keys.name, found.newer))
            if may_destroy:
                tx.destroyed_slots += found.dead

        held = self._keys.held()
        # Another process may be about to commit new keys, so only a writer can tell.
        if held.slots and not is_settled(
            self.read_sync("look for keys", lambda tx: tx.keys.unnamed(held))
        ):
            self.run_sync("destroy keys", settle)

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
            transaction.failure = None  # whose frames have the transaction: it would keep them
            raise

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        """Let no process write any more once a transaction has met a page that does not fit."""
        try:
            yield
        except Damaged as error:
            if self._backend.damage() is None:
                self._backend.note_damage(error.found)
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
                except Damaged:
                    # SQLite says so, too, if the disk fails once while it reads the schema. New
                    # connections read everything anew.
                    if self._backend.damage() is not None:
                        raise
                    engine.dispose()
            with self._noting_damage():
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
                    is_ample=self._is_ample,
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


class _Threads:
    """Up to `count` worker threads of each event loop; callers wait in the loop, and hold none."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def run(self, work: Callable[[], T]) -> T:
        """Return `work()`, called in one of the threads once it is free."""
        # Imported here, since a command that opens a store runs no loop.
        from aggregator.failures import in_thread

        return await in_thread(work, limiter=self._of_this_loop())

    @cached_property
    def _limiters(self) -> "RunVar[CapacityLimiter]":
        from anyio.lowlevel import RunVar

        return RunVar(f"threads {id(self)}")

    def _of_this_loop(self) -> "CapacityLimiter":
        """Return this event loop's limiter; a limiter cannot be shared between loops."""
        from anyio import CapacityLimiter

        try:
            return self._limiters.get()
        except LookupError:
            limiter = CapacityLimiter(self._count)
            self._limiters.set(limiter)
            return limiter


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
