"""Re-encrypts all secrets of a store under the first of its keys, so that older keys can go.

Each step is a short transaction over secrets that are still under another key. So the work may be
stopped, killed and resumed, while services that have all the keys use the store.
"""

from functools import partial

from sqlalchemy import func, select, update

from aggregator.service.storage.batches.sums import shard_row
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.secret_columns import SECRETS, SecretColumn
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.key_file import KeyGone

SECRETS_PER_STEP = 100


def rewrap(database: Database) -> int:
    """Re-encrypt every secret under the first key; return how many were under another one.

    Raises:
        CrypterError: A secret is under a key that is not in the list, or was changed. The message
            names it; the secrets after it are left as they were.
    """
    rewrapped = 0
    for secret in SECRETS:
        while done := database.run_sync("rewrap secrets", partial(_columns, secret=secret)):
            rewrapped += done
    after: int | None = -1
    while after is not None:
        done, after = database.run_sync("rewrap bucket keys", partial(_buckets, after=after))
        rewrapped += done
    return rewrapped


def _columns(tx: Transaction, secret: SecretColumn) -> int:
    """Rewrap some values of a column; return how many."""
    column, key, crypter = secret.column, secret.key, tx.crypter
    is_old = func.substr(column, 1, len(crypter.first)) != crypter.first
    query = select(key, column).where(column.is_not(None), is_old).limit(SECRETS_PER_STEP)
    rows = tx.connection.execute(query).all()
    for name, stored in rows:
        place = secret.table.name, secret.row(name), column.name
        again = crypter.encrypt(*place, crypter.decrypt(*place, stored))
        # If another transaction has changed it meanwhile, it did so under the first key.
        statement = update(secret.table).where(key == name, column == stored)
        tx.connection.execute(statement.values({column.name: again}))
        tx.scrub_log = True
    return len(rows)


def _buckets(tx: Transaction, after: int) -> tuple[int, int | None]:
    """Rewrap the keys of some buckets' shards; return how many, and the last slot looked at.

    None of these keys is destroyed before this transaction ends: on SQLite no other transaction
    commits meanwhile, and on PostgreSQL the keys' rows are locked.
    """
    key, task = tables.bucket_keys.c, tables.tasks.c
    query = (
        select(task.task_id, key.bucket, key.shard, key.slot)
        .join(tables.tasks, task.id == key.task)
        .where(key.slot > after)
        .order_by(key.slot)
        .limit(SECRETS_PER_STEP)
        .with_for_update(of=tables.bucket_keys)
    )
    rows, done = tx.connection.execute(query).all(), 0
    for task_id, bucket, shard, slot in rows:
        try:
            stored = tx.keys.get(slot)
        except KeyGone:  # the store was restored without this key
            continue
        if stored.startswith(tx.crypter.first):
            continue
        place = "bucket_keys", shard_row(task_id, bucket, shard), "key"
        tx.keys.replace(slot, tx.crypter.encrypt(*place, tx.crypter.decrypt(*place, stored)))
        done += 1
    return done, rows[-1].slot if rows else None
