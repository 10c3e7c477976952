"""What is read of a backup to tell what it is."""

import dataclasses
from collections.abc import Sequence

from aggregator.errors import StoreError


class NoBackup(StoreError):
    """A file is no backup of a store, or damaged."""


@dataclasses.dataclass(frozen=True, slots=True)
class BackupContents:
    """What a backup holds.

    Attributes:
        version: Of its schema.
        roles: Of its tasks.
        secrets: All ciphertexts under the store key.
        has_bucket_keys: Whether it holds keys of un-noised sums.
    """

    version: str
    roles: frozenset[str]
    secrets: Sequence[bytes] = dataclasses.field(repr=False)
    has_bucket_keys: bool
