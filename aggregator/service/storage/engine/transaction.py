"""What the verbs work in: an open transaction, which `database` begins, commits and repeats."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy
from sqlalchemy import Connection, Table, bindparam, select
from sqlalchemy.sql.expression import Executable

from aggregator.dap.ids import encode_base64url
from aggregator.entropy import Entropy
from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Backend, Insert, KeySlots
from aggregator.service.storage.secrets.crypter import Crypter

if TYPE_CHECKING:
    from aggregator.service.storage.engine.objects import Objects

S = TypeVar("S")
E = TypeVar("E", bound=StoreError)

_TASK_KEY = select(tables.tasks.c.id).where(
    tables.tasks.c.task_id == bindparam("task_id"), tables.tasks.c.forgotten_at.is_(None)
)
_KEPT_TASK_KEY = _TASK_KEY.with_for_update(read=True, key_share=True)

_PREPARED: dict[tuple[type, object], Any] = {}
"""Statements, by the kind of database and the function that builds them."""

_ID_SIZE = 16


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
    # Known to all transactions: whether buckets have ample room, by task, and whether stored
    # reports that are not aggregated take up room too (`capacity`).
    is_ample: dict[tuple[int, bytes, bool], bool] = dataclasses.field(default_factory=dict)
    taken: dict[bytes, dict[str, bool]] = dataclasses.field(default_factory=dict)  # by task
    failure: StoreError | None = None  # set by `refuse`: the transaction is not committed
    _task_keys: dict[bytes, int] = dataclasses.field(default_factory=dict)
    _addition: bytes | None = None

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
        """Run a statement that was made once in the quickest way.

        Args:
            statement: One of `prepared`, or a constant.
            *each: Its values, by name; it is run for each. A list may stand for the values of `IN`,
                and then it is run once.

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

    @property
    def addition(self) -> bytes:
        """By which the tasks that this transaction stores are known to have come together."""
        if self._addition is None:
            self._addition = self.random_id()
        return self._addition

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
