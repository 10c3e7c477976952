"""The slots of the key file as one transaction on an SQLite database sees them.

The database knows how far its own slots go: `PRAGMA user_version` is the first slot that it has
never named. It is a part of the database, so each copy says how far the keys went when it was made:
what lies from there on was left by a process that died, or is newer than the copy. (Its 31 bits
are enough for a file of 128 GiB.)

What lies before and is not named was released or never committed, and no newer copy names it: it is
destroyed when the store is opened. What a process that died left from there on is destroyed by the
next transaction that puts or releases keys, since only then has the store provably gone on.
"""

import dataclasses
from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.driver_statements import run, run_text
from aggregator.service.storage.secrets.key_file import Held, KeyFile, KeysAhead

_SLOT = tables.bucket_keys.c.slot
_LAST = select(func.max(_SLOT))


@dataclasses.dataclass(frozen=True, slots=True)
class NewSlots:
    """Where keys were put.

    Attributes:
        slots: Their slots, one for each.
        destroyed: The slots to be destroyed when the transaction is committed.
    """

    slots: Sequence[int]
    destroyed: Sequence[int] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Unnamed:
    """The slots that are not destroyed and that the database does not name.

    Attributes:
        dead: Those of sums that were released or never committed: no newer copy names them.
        newer: Those of sums that came after this copy of the database.
    """

    dead: Sequence[int] = ()
    newer: Sequence[int] = ()


class FileSlots:
    """The keys of a key file, for one transaction."""

    def __init__(self, file: KeyFile, connection: Connection) -> None:
        """Use a key file in the transaction on `connection`."""
        self._file = file
        self._connection = connection

    @property
    def name(self) -> str:
        """What messages call these keys: their file."""
        return self._file.name

    def put(self, keys: Sequence[bytes]) -> NewSlots:
        """Store keys; destroy on commit what processes that died have left behind the known slots.

        Raises:
            KeysMissing: The file is gone, was replaced, or lacks slots that the database names.
            KeysAhead: The file has newer keys than the database.
        """
        known = self._known()
        self._refuse_newer(known)
        slots = self._file.put(keys, self._named(), known)
        self._know(slots.stop)
        return NewSlots(slots, range(known, slots.start))  # the last of these is their own mark

    def get(self, slot: int) -> bytes:
        """Return a key.

        Raises:
            KeyGone: The slot holds none.
        """
        return self._file.get(slot)

    def replace(self, slot: int, key: bytes) -> None:
        """Replace a slot's ciphertext by another of the same key; see `KeyFile.replace`."""
        self._file.replace(slot, key)

    def delete(self, slots: Sequence[int]) -> Sequence[int]:
        """Return what is to be destroyed when the transaction is committed.

        That is `slots`, and what processes that died have left behind the known ones: it may be
        sums of the same batch.
        """
        known, end = self._known(), self._file.end()
        if not slots or end <= known or self._newer(known, self._file.held(known)):
            return slots
        self._know(end)
        return [*slots, *range(known, end)]

    def unnamed(self, held: Held) -> Unnamed:
        """Return which of the `held` slots are not used; only a writer can tell for certain."""
        known = self._known()
        used = set(self._connection.execute(select(_SLOT)).scalars())
        dead = [slot for slot in held.slots if slot < known and slot not in used]
        return Unnamed(dead, self._newer(known, held))

    def newer(self) -> Sequence[int]:
        """Return the slots of sums that came after this copy of the database."""
        known = self._known()
        return self._newer(known, self._file.held(known))

    def _refuse_newer(self, known: int) -> None:
        newer = self._newer(known, self._file.held(known))
        if newer:
            raise ahead(self._file.name, newer)

    def _newer(self, known: int, held: Held) -> list[int]:
        return [slot for slot in held.slots if slot >= known and slot not in held.uncommitted]

    def _named(self) -> int:
        """Return the first slot behind those of all buckets."""
        ((last,),) = run(self._connection, _LAST, [{}])
        return 0 if last is None else int(last) + 1

    def _known(self) -> int:
        """Return the first slot that the database has never named."""
        ((known,),) = run_text(self._connection, "PRAGMA user_version")
        return int(known)

    def _know(self, end: int) -> None:
        run_text(self._connection, f"PRAGMA user_version = {end}")


class BucketKeyFile(KeyFile):
    """The key file beside an SQLite database."""

    def within(self, connection: Connection) -> FileSlots:
        """Return the keys for a transaction on `connection`."""
        return FileSlots(self, connection)


def ahead(name: str, newer: Sequence[int]) -> KeysAhead:
    """Return the error that says that the file called `name` has newer keys than the database."""
    return KeysAhead(
        f"the database is older than its keys: {name} has those of {len(newer):,} sums that came "
        "later. Nothing is destroyed until you decide: put the newest database back, with its "
        "-wal. Only if it is lost, `prio store after-restore` destroys these keys, and with them "
        "the sums (docs/operations/backups.md, Go back to a backup)"
    )
