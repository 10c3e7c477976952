"""The short-lived keys of buckets in a table, where the database is on a server.

Deleting a key is part of the transaction that releases its batch, so nothing is left to do after
the commit. This is weaker than `key_file`: the server keeps deleted rows for a while
(docs/operations/postgresql.md).
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import (
    BigInteger,
    Connection,
    any_,
    bindparam,
    delete,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from aggregator.service.storage.engine.key_slots import NewSlots, Unnamed
from aggregator.service.storage.engine.tables import bucket_key_slots
from aggregator.service.storage.secrets.key_file import Held, KeyGone


class KeyTable:
    """Sealed keys by slot number, all of them inside the database."""

    name = "the database"

    def within(self, connection: Connection) -> "SlotRows":
        """Return the keys for a transaction on `connection`."""
        return SlotRows(connection)

    def held(self) -> Held:
        """Return nothing: no key lies outside the database."""
        return Held()

    def destroy(self, slots: Iterable[int]) -> None:
        """Do nothing: `SlotRows.delete` leaves nothing to destroy."""

    def close(self) -> None:
        """Do nothing: only transactions have connections."""


_PUTTING = insert(bucket_key_slots).returning(bucket_key_slots.c.slot, sort_by_parameter_order=True)
_GETTING = select(bucket_key_slots.c.key).where(bucket_key_slots.c.slot == bindparam("of_slot"))


class SlotRows:
    """The keys as one transaction sees them."""

    def __init__(self, connection: Connection) -> None:
        """Use the transaction on `connection`."""
        self._connection = connection

    @property
    def name(self) -> str:
        """What messages call these keys: their table."""
        return f"the table {bucket_key_slots.name}"

    def put(self, keys: Sequence[bytes]) -> NewSlots:
        """Store keys; the server numbers no two rows alike."""
        rows = [{"key": key} for key in keys]
        return NewSlots(list(self._connection.execute(_PUTTING, rows).scalars()))

    def get(self, slot: int) -> bytes:
        """Return a key.

        Raises:
            KeyGone: The slot holds none.
        """
        key: bytes | None = self._connection.execute(_GETTING, {"of_slot": slot}).scalar()
        if key is None:
            raise KeyGone(f"the store has no key in slot {slot}")
        return key

    def replace(self, slot: int, key: bytes) -> None:
        """Replace a slot's ciphertext by another of the same key."""
        statement = update(bucket_key_slots).where(bucket_key_slots.c.slot == slot)
        self._connection.execute(statement.values(key=key))

    def delete(self, slots: Sequence[int]) -> Sequence[int]:
        """Delete keys in the transaction; nothing is left to destroy after it commits."""
        if slots:  # in one statement: a large batch has tens of thousands of keys
            given = any_(literal(list(slots), ARRAY(BigInteger)))
            statement = delete(bucket_key_slots).where(bucket_key_slots.c.slot == given)
            self._connection.execute(statement)
        return ()

    def unnamed(self, held: Held) -> Unnamed:  # noqa: ARG002  there are none
        """Return nothing: a slot is stored in the transaction that names it."""
        return Unnamed()

    def newer(self) -> Sequence[int]:
        """Return nothing, for the same reason."""
        return ()
