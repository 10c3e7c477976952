"""Batches and their un-noised aggregate shares, which are destroyed on collection.

A bucket is the sum of its shards, rows that concurrent transactions add to separately
(`locks.own_shard`). Readers add them up, counts and shares alike. Only buckets that hold reports
have rows; `closed` knows which buckets are closed.

A shard's share is encrypted by a random key of its own. That key is itself encrypted (`crypter`)
and lies outside the database (`key_file`), unless the database is on a server (`key_table`).
Releasing a batch overwrites its keys before anybody is told of the release. That destroys the
shares, wherever copies of them may be left.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    func,
    insert,
    select,
    tuple_,
)

from aggregator.dap.times import Time
from aggregator.errors import StoreError
from aggregator.protocol.batches import Batch, BatchTotals
from aggregator.service.storage.batches.closed import BatchClosed, closed_among
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Insert
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import (
    KEY_SIZE,
    Crypter,
    CrypterError,
    OtherStoreKey,
)
from aggregator.service.storage.secrets.key_file import KeyGone

_BUCKETS_PER_QUERY = 500
_TOTALS = tuple(
    tables.buckets.c[name]
    for name in ("report_count", "checksum", "first_time", "last_time", "least_budget")
)


class BatchChanged(StoreError):
    """The batch no longer holds the reports that were read: some joined, or a bucket is damaged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Addition:
    """What some reports add to a bucket.

    Attributes:
        bucket: The bucket's key.
        merge: Takes the encoded aggregate share so far, None at first, and returns the new one.
        totals: The totals of the reports.
    """

    bucket: bytes
    merge: Callable[[bytes | None], bytes]
    totals: BatchTotals


@dataclasses.dataclass(frozen=True, slots=True)
class StoredShard:
    """A shard of a bucket, with its un-noised aggregate share.

    Attributes:
        bucket: The bucket's key.
        shard: The number of the shard.
        share: What the shard's reports add up to, encoded.
        totals: The totals of those reports.
    """

    bucket: bytes
    shard: int
    share: bytes = dataclasses.field(repr=False)
    totals: BatchTotals


def accumulate(
    tx: Transaction, task_id: bytes, additions: Sequence[Addition]
) -> dict[bytes, Crypter]:
    """Merge out shares into buckets, in the transaction in which `admit` let their reports in.

    Args:
        tx: The transaction.
        task_id: The task.
        additions: At most one addition for each bucket.

    Returns:
        Crypters with the own keys of the shards that were added to, by bucket.

    Raises:
        BatchClosed: A bucket is frozen or collected; the transaction must not go on.
    """
    if not additions:
        return {}
    buckets = [addition.bucket for addition in additions]
    locks.keep_batches(tx, task_id)
    closed = closed_among(tx, task_id, buckets)
    for state in map(closed.state, buckets):
        if state is not None:
            raise tx.refuse(BatchClosed(state))
    task = tx.task_key(task_id)
    shard = locks.own_shard(tx, task)  # what we read from here on must not change until we write
    stored = _stored_shards(tx, task_id, buckets, shard)
    sealed: list[bytes] = []
    keys, shares, counts = [], [], []
    ciphers: dict[bytes, Crypter] = {}
    for addition in additions:
        place = {"task": task, "bucket": addition.bucket, "shard": shard}
        row = shard_row(task_id, addition.bucket, shard)
        found = stored.get(addition.bucket)
        if found is None:
            key, old, totals = tx.entropy.bytes(KEY_SIZE), None, addition.totals
            keys.append(place)
            sealed.append(tx.crypter.encrypt("bucket_keys", row, "key", key))
            cipher = _cipher_of(tx, key)
        else:
            *held, sealed_share, slot = found
            cipher = _stored_cipher(tx, row, slot)
            old = cipher.decrypt("bucket_shares", row, "share", sealed_share)
            totals = _totals(*held) + addition.totals
        ciphers[addition.bucket] = cipher
        share = cipher.encrypt("bucket_shares", row, "share", addition.merge(old))
        shares.append({**place, "share": share})
        counts.append({**place, **totals_columns(totals)})
    if keys:
        put = tx.keys.put(sealed)
        tx.made_slots += put.slots
        tx.destroyed_slots += put.destroyed
        rows = [{**place, "slot": slot} for place, slot in zip(keys, put.slots, strict=True)]
        tx.run(_PUTTING_KEYS, *rows)
    _put(tx, tables.bucket_shares, shares)
    _put(tx, tables.buckets, counts)
    return ciphers


def summarize_batch(tx: Transaction, task_id: bytes, batch: Batch) -> BatchTotals:
    """Return the totals of the reports that the batch holds."""
    query = select(*_TOTALS).where(*_in_batch(tx, tables.buckets.c.bucket, task_id, batch))
    return sum((totals_of(row) for row in tx.connection.execute(query)), BatchTotals())


def report_count(tx: Transaction, task_id: bytes, batch: Batch) -> int:
    """Return how many reports the batch holds."""
    buckets = tables.buckets.c
    query = select(func.coalesce(func.sum(buckets.report_count), 0)).where(
        *_in_batch(tx, buckets.bucket, task_id, batch)
    )
    return int(tx.connection.execute(query).scalar_one())


def check_unchanged(tx: Transaction, task_id: bytes, batch: Batch, totals: BatchTotals) -> None:
    """Check that the batch holds exactly the reports that were read.

    Buckets only grow, so comparing the counts is enough.

    Raises:
        BatchChanged: It does not.
    """
    if report_count(tx, task_id, batch) != totals.report_count:
        raise tx.refuse(BatchChanged("the batch holds other reports than were read"))


def read_shards(
    tx: Transaction, task_id: bytes, batch: Batch, limit: int, after: StoredShard | None = None
) -> list[StoredShard]:
    """Return the first shards of the batch's buckets that are not destroyed, in order.

    Args:
        tx: The transaction.
        task_id: The task.
        batch: The batch.
        limit: The most shards to return.
        after: The last shard returned before; None to begin.

    Raises:
        CrypterError: A share was changed.
    """
    bucket, shard = tables.buckets.c.bucket, tables.buckets.c.shard
    left = batch if after is None else Batch(after.bucket, batch.last)
    query = _stored().where(*_in_batch(tx, bucket, task_id, left)).order_by(bucket, shard)
    if after is not None:
        query = query.where(tuple_(bucket, shard) > (after.bucket, after.shard))
    stored = []
    for row in tx.connection.execute(query.limit(limit)):
        name = shard_row(task_id, row.bucket, row.shard)
        cipher = _stored_cipher(tx, name, row.slot)
        share = cipher.decrypt("bucket_shares", name, "share", row.share)
        stored.append(StoredShard(row.bucket, row.shard, share, totals_of(row)))
    return stored


def is_window_open(tx: Transaction, task_id: bytes, first: Time, last: Time) -> bool:
    """Return whether a bucket that is not collected may have reports from `first` to `last`."""
    bucket = tables.buckets.c
    query = (
        select(bucket.bucket)
        .join(tables.bucket_keys, has_share())
        .where(
            bucket.task == tx.task_key(task_id),
            bucket.first_time <= last.units,
            bucket.last_time >= first.units,
        )
    )
    return tx.connection.execute(query.limit(1)).scalar() is not None


def open_buckets(tx: Transaction, task_id: bytes) -> list[tuple[bytes, int]]:
    """Return the buckets of a task that are not collected, each with its number of reports."""
    bucket = tables.buckets.c
    query = (
        select(bucket.bucket, func.sum(bucket.report_count))
        .join(tables.bucket_keys, has_share())
        .where(bucket.task == tx.task_key(task_id))
        .group_by(bucket.bucket)
    )
    return [(key, int(reports)) for key, reports in tx.connection.execute(query)]


@dataclasses.dataclass(frozen=True, slots=True)
class WithoutKey:
    """Buckets, by task and key, that are not collected but have an unreadable share.

    Attributes:
        lost: Buckets with a share key that is missing or damaged in the place where the store has
            put it: the store was restored without it, or the key file was lost or damaged.
        locked: Buckets with a share key under a store key that we do not have, by the store key's
            fingerprint. Nothing is missing once somebody brings that store key back; or there never
            was one, and the place of the keys is damaged there.
        place: What messages call the place of the keys.
    """

    lost: list[tuple[bytes, bytes]]
    locked: dict[bytes, list[tuple[bytes, bytes]]]
    place: str


def buckets_without_key(
    tx: Transaction, task_id: bytes | None = None, batch: Batch | None = None
) -> WithoutKey:
    """Return the buckets that are not collected but have an unreadable share.

    Args:
        tx: The transaction.
        task_id: The task whose batch to look at; None, as for `batch`, for all buckets.
        batch: The batch to look at.
    """
    key, task = tables.bucket_keys.c, tables.tasks.c
    query = select(task.task_id, key.bucket, key.shard, key.slot).join(
        tables.tasks, task.id == key.task
    )
    if task_id is not None and batch is not None:
        query = query.where(*_in_batch(tx, key.bucket, task_id, batch))
    lost: dict[tuple[bytes, bytes], bool] = {}  # a dict, to keep the order in which they are found
    locked: defaultdict[bytes, dict[tuple[bytes, bytes], bool]] = defaultdict(dict)
    for found_id, bucket, shard, slot in tx.connection.execute(query).all():
        row = shard_row(found_id, bucket, shard)
        try:
            tx.crypter.decrypt("bucket_keys", row, "key", tx.keys.get(slot))
        except OtherStoreKey as error:
            locked[error.fingerprint][found_id, bucket] = True
        except (KeyGone, CrypterError):
            lost[found_id, bucket] = True
    names = {name: [*each] for name, each in sorted(locked.items())}
    return WithoutKey([*lost], names, tx.keys.name)


def _in_batch(
    tx: Transaction, bucket: Column[bytes], task_id: bytes, batch: Batch
) -> tuple[ColumnElement[bool], ...]:
    """Return the condition that a row belongs to the batch, by its column `bucket`."""
    return (
        bucket.table.c.task == tx.task_key(task_id),
        bucket.between(batch.first, batch.last),
    )


def totals_columns(totals: BatchTotals) -> dict[str, object]:
    """Return the columns in which totals are stored."""
    first, last = totals.times or (None, None)
    return {
        "report_count": totals.report_count,
        "checksum": totals.checksum,
        "first_time": None if first is None else first.units,
        "last_time": None if last is None else last.units,
        "least_budget": totals.least_budget,
    }


def totals_of(row: Row[tuple[object, ...]]) -> BatchTotals:
    """Return the totals that a row holds."""
    columns = row._mapping  # noqa: SLF001  SQLAlchemy's public name, underscored against clashes
    return _totals(*(columns[each.name] for each in _TOTALS))


def _totals(
    reports: int, checksum: bytes, first: int | None, last: int | None, least: int | None
) -> BatchTotals:
    times = None if first is None or last is None else (Time(first), Time(last))
    return BatchTotals(reports, checksum, times, least)


def shard_row(task_id: bytes, bucket: bytes, shard: int) -> bytes:
    """Return the row that a shard's secrets are bound to, in addition to table and column."""
    return task_id + bucket + bytes([shard])


def shard_cipher(tx: Transaction, task_id: bytes, bucket: bytes, shard: int) -> Crypter:
    """Return a crypter with a shard's own key; its share must not be destroyed."""
    place = {"task": tx.task_key(task_id), "bucket": bucket, "shard": shard}
    ((slot,),) = tx.run(_SLOT, place)
    return _stored_cipher(tx, shard_row(task_id, bucket, shard), slot)


_KEY = tables.bucket_keys.c
_PUTTING_KEYS = insert(tables.bucket_keys)
_SLOT = select(_KEY.slot).where(
    _KEY.task == bindparam("task"),
    _KEY.bucket == bindparam("bucket"),
    _KEY.shard == bindparam("shard"),
)


def replace_share(tx: Transaction, task_id: bytes, stored: StoredShard) -> None:
    """Replace the encoded un-noised share of a shard, and the totals of its reports."""
    place = {"task": tx.task_key(task_id), "bucket": stored.bucket, "shard": stored.shard}
    cipher = shard_cipher(tx, task_id, stored.bucket, stored.shard)
    row = shard_row(task_id, stored.bucket, stored.shard)
    share = cipher.encrypt("bucket_shares", row, "share", stored.share)
    _put(tx, tables.bucket_shares, [{**place, "share": share}])
    _put(tx, tables.buckets, [{**place, **totals_columns(stored.totals)}])


def _stored_shards(
    tx: Transaction, task_id: bytes, buckets: Sequence[bytes], shard: int
) -> dict[bytes, Sequence[Any]]:
    """Return, by bucket, the totals, the sealed share and the key's slot of a shard."""
    found: dict[bytes, Sequence[Any]] = {}
    place = {"task": tx.task_key(task_id), "shard": shard}
    for start in range(0, len(buckets), _BUCKETS_PER_QUERY):
        some = [*buckets[start : start + _BUCKETS_PER_QUERY]]
        for bucket, _, *rest in tx.run(_STORED_OF_SHARD, {**place, "some": some}):
            found[bucket] = rest
    return found


def _put(tx: Transaction, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert the rows of shards, or replace existing ones."""
    tx.run(tx.prepared(_REPLACING[table.name]), *rows)


def _replacing(table: Table) -> Callable[[Callable[[Table], Insert]], Insert]:
    def replacing(insert_: Callable[[Table], Insert]) -> Insert:
        statement = insert_(table)
        replaced = [column.name for column in table.c if not column.primary_key]
        return statement.on_conflict_do_update(
            index_elements=["task", "bucket", "shard"],
            set_={name: statement.excluded[name] for name in replaced},
        )

    return replacing


_REPLACING = {table.name: _replacing(table) for table in (tables.bucket_shares, tables.buckets)}


def has_share() -> ColumnElement[bool]:
    """Return the join of `buckets` with `bucket_keys`: a share exists as long as its key does."""
    bucket, key = tables.buckets.c, tables.bucket_keys.c
    return and_(key.task == bucket.task, key.bucket == bucket.bucket, key.shard == bucket.shard)


def _stored() -> Select[tuple[object, ...]]:
    """Select the shards whose shares are not destroyed."""
    bucket, share = tables.buckets.c, tables.bucket_shares.c
    of_bucket = and_(
        share.task == bucket.task, share.bucket == bucket.bucket, share.shard == bucket.shard
    )
    return (
        select(bucket.bucket, bucket.shard, *_TOTALS, share.share, tables.bucket_keys.c.slot)
        .join(tables.bucket_keys, has_share())
        .join(tables.bucket_shares, of_bucket)
    )


_STORED_OF_SHARD = _stored().where(
    tables.buckets.c.task == bindparam("task"),
    tables.buckets.c.bucket.in_(bindparam("some", expanding=True)),
    tables.buckets.c.shard == bindparam("shard"),
)


def _stored_cipher(tx: Transaction, row: bytes, slot: int) -> Crypter:
    """Return a crypter with the shard key in a slot."""
    return _cipher_of(tx, tx.crypter.decrypt("bucket_keys", row, "key", tx.keys.get(slot)))


def _cipher_of(tx: Transaction, key: bytes) -> Crypter:
    return Crypter((key,), tx.entropy)
