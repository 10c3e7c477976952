"""What can be read in the raw bytes of a store's files by somebody who also has its key."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from aggregator.service.storage.engine.postgresql import Postgresql
from aggregator.service.storage.secrets.crypter import KEY_SIZE, Crypter, CrypterError

_OVERHEAD = 4 + 12 + 16
"""Of a sealed value: a fingerprint of the key, a nonce and a tag."""


def files_of(database: Path) -> list[Path]:
    """Return the database's file, its log, its index of the log and its key file."""
    return sorted(database.parent.glob(f"{database.name}*"))


def keys_in(files: Iterable[Path], store_key: bytes, row: bytes) -> set[bytes]:
    """Return the keys of all a bucket's shards that open with the store's key, wherever they lie.

    Args:
        files: Where to look.
        store_key: The store's.
        row: The task's id and the bucket's key.
    """
    return {key for _, key in _keys_in(files, store_key, row)}


def shares_in(files: Iterable[Path], store_key: bytes, row: bytes, size: int) -> set[bytes]:
    """Return the un-noised shares of all a bucket's shards that open with one of these keys.

    Args:
        files: Where to look.
        store_key: The store's.
        row: The task's id and the bucket's key.
        size: Of the share in bytes.
    """
    files = list(files)
    return {
        share
        for of_shard, key in _keys_in(files, store_key, row)
        for share in _opened(files, Crypter([key]), "bucket_shares", of_shard, "share", size)
    }


@contextlib.contextmanager
def reading(database: Path) -> Iterator[None]:
    """Read the store as a backup does: what is there now stays for this reader."""
    with closing(sqlite3.connect(database, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM tasks").fetchall()
        yield


def _keys_in(files: Iterable[Path], store_key: bytes, row: bytes) -> set[tuple[bytes, bytes]]:
    """Return what each key that is found is bound to, and the key."""
    files = list(files)
    return {
        (of_shard, key)
        for of_shard in (row + bytes([shard]) for shard in range(Postgresql.shards))
        for key in _opened(files, Crypter([store_key]), "bucket_keys", of_shard, "key", KEY_SIZE)
    }


def _opened(
    files: Iterable[Path], crypter: Crypter, table: str, row: bytes, column: str, size: int
) -> Iterator[bytes]:
    """Yield what opens at any position of any file as that column of the row."""
    fingerprint = crypter.encrypt(table, row, column, b"")[:4]
    for file in files:
        content = file.read_bytes()
        at = content.find(fingerprint)
        while at >= 0:
            with contextlib.suppress(CrypterError):
                yield crypter.decrypt(table, row, column, content[at : at + size + _OVERHEAD])
            at = content.find(fingerprint, at + 1)
