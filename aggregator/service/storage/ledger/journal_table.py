"""The journal of releases in a table of another database, for processes on several machines.

That database must not be backed up and restored together with the store. A unique constraint keeps
a batch from being released twice; durability is that of the database's commits.
"""

import dataclasses
import threading
from collections.abc import Iterable, Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
)

from aggregator.protocol.batches import Batch
from aggregator.service.storage.engine.backends import backend, translated
from aggregator.service.storage.ledger.charges import Charge, cost_columns, cost_of
from aggregator.service.storage.ledger.journal import (
    Choice,
    DamagedJournal,
    ForeignJournal,
    JournalError,
    Owner,
    Release,
    Released,
)

_METADATA = MetaData()
_RELEASES = Table(
    "release_journal",
    _METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("task_id", LargeBinary(32), nullable=False),
    Column("first_bucket", LargeBinary, nullable=False),
    Column("last_bucket", LargeBinary, nullable=False),
    Column("share_sha256", LargeBinary(32)),
    Column("mechanism", Text, nullable=False),
    Column("epsilon", Text),
    Column("delta", Text),
    Column("rho", Text),
    Column("population", Text, nullable=False),
    Column("charged_at", BigInteger().with_variant(Integer, "sqlite"), nullable=False),
    UniqueConstraint("task_id", "first_bucket", "last_bucket"),
)
_ORDER = _RELEASES.c.id
_OWNER = Table(
    "release_journal_owner",
    _METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),  # 1: there is at most one row
    Column("role", Text, nullable=False),
    Column("store", BigInteger, nullable=False),
)


class JournalTable:
    """A journal in the database at a URL.

    Each of its methods raises ConfigurationError first if that database only pretends to lock, or
    is behind a pooler that does not keep sessions.
    """

    def __init__(self, url: str) -> None:
        """Keep the journal in the database at `url` (see `backends.backend`)."""
        self._backend = backend(url)
        self._engine: Engine | None = None
        self._lock = threading.Lock()
        self._shares: set[tuple[bytes, bytes]] = set()
        self._owner: Owner | None = None

    @property
    def name(self) -> str:
        """Its name in messages: the database."""
        return self._backend.name

    def exists(self) -> bool:
        """Return whether the tables exist."""
        with translated(self._backend, "look for the journal"):
            return inspect(self._opened()).has_table(_OWNER.name)

    def create(self, owner: Owner) -> None:
        """Create the tables unless they exist."""
        self._backend.create()
        with translated(self._backend, "make the journal"), self._opened().begin() as connection:
            self._backend.lock(connection, {b"journal"}, shared=False)
            _METADATA.create_all(connection)
            if connection.execute(select(_OWNER)).first() is None:
                connection.execute(_OWNER.insert().values(id=1, role=owner.role, store=owner.store))

    def owner(self) -> Owner:
        """Return whose the tables say that they are.

        Raises:
            DamagedJournal: They do not say it any more.
        """
        with translated(self._backend, "read the journal"), self._opened().connect() as connection:
            row = connection.execute(select(_OWNER.c.role, _OWNER.c.store)).first()
        if row is None:
            raise DamagedJournal(
                f"the journal of releases {self.name} does not say whose it is: `prio store "
                "after-restore --journal-damaged` mends it"
            )
        return Owner(row.role, row.store)

    def belongs_to(self, owner: Owner) -> None:
        """From now on, take only the tables of this store for ours."""
        self._owner = owner

    def releases(self) -> Sequence[Release]:
        """Return all releases, oldest first.

        Raises:
            DamagedJournal: See `owner`; `ForeignJournal` if they are those of another store.
        """
        self._check_owner()
        with translated(self._backend, "read the journal"), self._opened().connect() as connection:
            rows = connection.execute(select(_RELEASES).order_by(_ORDER)).all()
        found = [
            Release(
                task_id=row.task_id,
                batch=Batch(row.first_bucket, row.last_bucket),
                share_sha256=row.share_sha256,
                charge=Charge(
                    row.mechanism, cost_of(row.epsilon, row.delta, row.rho), row.population
                ),
                charged_at=row.charged_at,
            )
            for row in rows
        ]
        self._remember(found)
        return found

    def holds(self, task_id: bytes, share_sha256: bytes) -> bool:
        """Return whether we have seen the release of this share in the table."""
        return (task_id, share_sha256) in self._shares

    def append(self, releases: Iterable[Release]) -> None:
        """Write the releases that are missing; return once they are committed.

        Raises:
            Contradiction: One of them contradicts another.
            StoreError: The database failed; nothing was written.
        """
        for release in releases:
            with (
                translated(self._backend, "write the journal"),
                self._opened().begin() as connection,
            ):
                self._backend.lock(connection, {b"journal" + release.task_id}, shared=False)
                columns = _RELEASES.c
                query = select(columns.first_bucket, columns.last_bucket, columns.share_sha256)
                rows = connection.execute(query.where(columns.task_id == release.task_id))
                known = Released()
                for first, last, share in rows:
                    stored = Batch(first, last)
                    known.add(dataclasses.replace(release, batch=stored, share_sha256=share))
                if known.add(release):
                    connection.execute(_RELEASES.insert().values(**_row(release)))
            self._remember([release])

    def rebuild(self, owner: Owner, choose: Choice) -> None:
        """Add what `choose` returns; unlike a file, a table does not lose rows by itself."""
        self.create(owner)
        self.append(choose(self.releases(), []))

    def check(self) -> None:
        """Check that the table can be reached.

        Raises:
            StoreError: It cannot, or does not exist.
        """
        if not self.exists():
            raise JournalError(f"the journal of releases {self.name} does not exist")
        self._check_owner()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                # A pooler that shares sessions could lose the settings that make commits last.
                self._backend.prove_locks("release_journal")
                self._engine = self._backend.engine()
            return self._engine

    def _check_owner(self) -> None:
        found = self.owner()
        if self._owner is not None and found != self._owner:
            raise ForeignJournal(self.name, found, self._owner)

    def _remember(self, releases: Iterable[Release]) -> None:
        self._shares.update(
            (each.task_id, each.share_sha256) for each in releases if each.share_sha256 is not None
        )


def _row(release: Release) -> dict[str, object]:
    return {
        "task_id": release.task_id,
        "first_bucket": release.batch.first,
        "last_bucket": release.batch.last,
        "share_sha256": release.share_sha256,
        "mechanism": release.charge.mechanism,
        **cost_columns(release.charge.cost),
        "population": release.charge.population,
        "charged_at": release.charged_at,
    }
