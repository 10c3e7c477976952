"""The columns that hold secrets, as ciphertexts that `crypter` binds to their place."""

import dataclasses
from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, Table, func, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import FINGERPRINT_SIZE


@dataclasses.dataclass(frozen=True, slots=True)
class SecretColumn:
    """A column of ciphertexts.

    Attributes:
        column: The column.
        key: The column that identifies a row.
        row: Returns, from the value in `key`, the row that a ciphertext is bound to.
    """

    column: Column[bytes]
    key: Column[Any]
    row: Callable[[Any], bytes] = bytes

    @property
    def table(self) -> Table:
        """Its table."""
        return self.column.table


SECRETS = (
    SecretColumn(tables.tasks.c.verify_key, tables.tasks.c.task_id),
    SecretColumn(tables.tasks.c.peer_token, tables.tasks.c.task_id),
    SecretColumn(
        tables.hpke_keys.c.private_key,
        tables.hpke_keys.c.config_id,
        lambda config_id: bytes([config_id]),
    ),
    SecretColumn(tables.collector_tasks.c.token, tables.collector_tasks.c.task_id),
)
"""All except the keys of buckets, which lie outside the database or in a table of their own."""


def prove_store_key(tx: Transaction) -> None:
    """Raise `CrypterError` if the store has secrets, and none is under a store key of ours.

    A new secret would then need a key that the others do not, so no key alone would open the store.
    """
    found = []
    for secret in SECRETS:
        start = func.substr(secret.column, 1, FINGERPRINT_SIZE)
        # The first row is nearly always ours, however many there are.
        ours = select(secret.key).where(start.in_(tx.crypter.fingerprints)).limit(1)
        if tx.connection.execute(ours).first() is not None:
            return
        one = select(secret.key, secret.column).where(secret.column.is_not(None)).limit(1)
        found += [(secret, *row) for row in tx.connection.execute(one)]
    for secret, key, stored in found:
        tx.crypter.decrypt(secret.table.name, secret.row(key), secret.column.name, stored)
