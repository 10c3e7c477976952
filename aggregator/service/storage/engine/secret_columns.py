"""The columns that hold secrets, as ciphertexts that `crypter` binds to their place."""

import dataclasses
from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, Table

from aggregator.service.storage.engine import tables


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
