"""A party's own HPKE key pairs: advertised, then retired, then destroyed.

A retired key is no longer advertised, but still opens what was sealed to it. Destroying it deletes
and overwrites the private key, and empties the log as soon as no reader needs its older contents.
From then on nobody can open what was sealed to the key; until then it takes the log and the store
key.
"""

import dataclasses

from sqlalchemy import Select, delete, insert, or_, select, update

from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.secret_columns import prove_store_key
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.leases import LATE_SECONDS
from aggregator.service.storage.tasks.version import settings_changed

CONFIG_IDS = 256
"""How many configuration ids the protocol has."""


@dataclasses.dataclass(frozen=True, slots=True)
class HpkeKey:
    """An HPKE key pair to be stored: its id, its encoded HpkeConfig and its private key."""

    config_id: int
    config: bytes
    private_key: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class StoredConfig:
    """The public half of a stored key pair.

    Attributes:
        config_id: Its id.
        config: The encoded HpkeConfig.
        created_at: Seconds.
        retired_at: Seconds; None while the key is advertised.
    """

    config_id: int
    config: bytes
    created_at: int
    retired_at: int | None


def put_hpke_key(tx: Transaction, key: HpkeKey) -> None:
    """Store a fresh key pair.

    Raises:
        Conflict: The config id is in use, perhaps by a retired key that reports still need.
        CrypterError: See `prove_store_key`.
    """
    prove_store_key(tx)
    if key.config_id in {stored.config_id for stored in list_hpke_configs(tx)}:
        raise tx.refuse(Conflict(f"the HPKE config id {key.config_id} is taken"))
    row = bytes([key.config_id])
    settings_changed(tx)
    tx.connection.execute(
        insert(tables.hpke_keys).values(
            config_id=key.config_id,
            config=key.config,
            private_key=tx.crypter.encrypt("hpke_keys", row, "private_key", key.private_key),
            created_at=tx.now,
        )
    )


def next_config_id(tx: Transaction) -> int:
    """Draw the id of the next key pair among those that are free and were not used lately.

    A store that was put back may have forgotten keys that clients still seal to. Under an id that
    no key has, their uploads are answered `outdated_config`, and they seal again. Under an id that
    a new key was given, their reports would be accepted, and could never be opened. If ids followed
    one another, the first key after a restore would surely have the id of the first lost one. So
    they are drawn: a new key has a given lost id with a probability of one in half the free ids,
    usually 1/127 (1/256 in an empty store). Ids of one byte allow little less, unless something
    outside the store remembers them: the journal knows of releases alone.

    A destroyed key's id is not in the store either, and a client may have it from long ago. So the
    draw is among the nearer half of the free ids that follow the newest one: with a single suite,
    neither of the next two keys has the id of the one before them.

    Raises:
        Conflict: All are in use.
    """
    stored = [each.config_id for each in list_hpke_configs(tx)]
    first = stored[0] + 1 if stored else 0
    following = ((first + step) % CONFIG_IDS for step in range(CONFIG_IDS))
    free = [config_id for config_id in following if config_id not in stored]
    if not free:
        raise tx.refuse(Conflict(f"all {CONFIG_IDS} HPKE configuration ids are taken"))
    near = free[: max(1, len(free) // 2)] if stored else free
    drawn = int.from_bytes(tx.entropy.bytes(8), "big")  # so many bits that all are as probable
    return near[drawn % len(near)]


def list_hpke_configs(tx: Transaction) -> list[StoredConfig]:
    """Return the public halves of all key pairs, newest first; no private key is decrypted.

    From here on, no transaction but this one can change keys, if it writes.
    """
    locks.change_keys(tx)
    key = tables.hpke_keys.c
    query = select(key.config_id, key.config, key.created_at, key.retired_at)
    newest_first = (key.retired_at.is_not(None), key.created_at.desc(), key.config_id.desc())
    return [StoredConfig(*row) for row in tx.connection.execute(query.order_by(*newest_first))]


def dated_ahead(tx: Transaction, *, retired: bool | None = None) -> list[int]:
    """Return the keys that were made or retired in the future; `retired` selects one of the two.

    Either the clock was ahead then, or it is behind now.
    """
    key, latest = tables.hpke_keys.c, tx.now + LATE_SECONDS
    ahead = {False: key.created_at > latest, True: key.retired_at > latest}
    condition = or_(*ahead.values()) if retired is None else ahead[retired]
    query = select(key.config_id).where(condition).order_by(key.config_id)
    return list(tx.connection.execute(query).scalars())


def date_back(tx: Transaction, *, retired: bool) -> list[int]:
    """Set times of making, or of retirement, that lie in the future to now; return which keys'."""
    locks.change_keys(tx)
    ahead, key = dated_ahead(tx, retired=retired), tables.hpke_keys.c
    if ahead:
        settings_changed(tx)
        date = key.retired_at if retired else key.created_at
        tx.connection.execute(
            update(tables.hpke_keys).where(key.config_id.in_(ahead)).values({date: tx.now})
        )
    return ahead


def list_hpke_keys(tx: Transaction) -> list[HpkeKey]:
    """Return all key pairs with their private keys."""
    return _keys(tx, _ALL)


def find_advertised_key(tx: Transaction) -> HpkeKey | None:
    """Return an advertised key pair, if any."""
    found = _keys(tx, _ALL.where(tables.hpke_keys.c.retired_at.is_(None)))
    return found[0] if found else None


def retire_hpke_key(tx: Transaction, config_id: int) -> None:
    """Stop advertising the key; it is kept to open the reports that were made for it."""
    columns = tables.hpke_keys.c
    settings_changed(tx)
    tx.connection.execute(
        update(tables.hpke_keys)
        .where(columns.config_id == config_id, columns.retired_at.is_(None))
        .values(retired_at=tx.now)
    )


def destroy_hpke_key(tx: Transaction, config_id: int) -> None:
    """Delete a retired key pair, and scrub what is left of it in the log."""
    columns = tables.hpke_keys.c
    settings_changed(tx)
    tx.connection.execute(
        delete(tables.hpke_keys).where(
            columns.config_id == config_id, columns.retired_at.is_not(None)
        )
    )
    tx.scrub_log = True


_ALL = select(
    tables.hpke_keys.c.config_id, tables.hpke_keys.c.config, tables.hpke_keys.c.private_key
)


def _keys(tx: Transaction, query: Select[tuple[int, bytes, bytes]]) -> list[HpkeKey]:
    locks.change_keys(tx)
    return [
        HpkeKey(
            config_id,
            config,
            tx.crypter.decrypt("hpke_keys", bytes([config_id]), "private_key", private_key),
        )
        for config_id, config, private_key in tx.run(query)
    ]
