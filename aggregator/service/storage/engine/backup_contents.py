"""What is read from a backup to tell what it holds."""

import dataclasses
from collections.abc import Sequence

from aggregator.errors import StoreError


class NoBackup(StoreError):
    """The file is not a backup of a store, or is damaged."""


@dataclasses.dataclass(frozen=True, slots=True)
class BackupContents:
    """What a backup holds.

    Attributes:
        version: The version of its schema.
        roles: The roles of its tasks.
        secrets: All ciphertexts under the store key.
        has_bucket_keys: Whether it holds keys of un-noised sums.
    """

    version: str
    roles: frozenset[str]
    secrets: Sequence[bytes] = dataclasses.field(repr=False)
    has_bucket_keys: bool
