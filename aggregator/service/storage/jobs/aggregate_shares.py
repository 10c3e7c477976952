"""The Helper's released aggregate shares: a batch is released once, then only repeated."""

import dataclasses
import hashlib

from sqlalchemy import ColumnElement, insert, select, update

from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches import closed as closed_batches
from aggregator.service.storage.engine import locks, tables
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.states import AGGREGATE_SHARE, ResourceState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger import charges as ledger
from aggregator.service.storage.ledger.charges import Charge


@dataclasses.dataclass(frozen=True, slots=True)
class NewAggregateShare:
    """A release about to be stored.

    Attributes:
        selector: The encoded BatchSelector, which identifies the batch.
        body_sha256: SHA-256 of the exact AggregateShareReq.
        response: The exact AggregateShare, our noised share sealed to the Collector.
        batch: The batch.
        report_count: Reports in it.
        share_id: The id in its URL, if the Leader chose it; random by default.
    """

    selector: bytes
    body_sha256: bytes
    response: bytes = dataclasses.field(repr=False)
    batch: Batch
    report_count: int
    share_id: bytes | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class StoredAggregateShare:
    """A release as it is stored; `response` is None once the Leader deleted it."""

    share_id: bytes
    selector: bytes
    body_sha256: bytes
    response: bytes | None = dataclasses.field(repr=False)


def find_aggregate_share(
    tx: Transaction, task_id: bytes, selector: bytes
) -> StoredAggregateShare | None:
    """Return the release of exactly this selector, deleted or not; compare its `body_sha256`."""
    return _find(tx, task_id, tables.aggregate_shares.c.selector == selector)


def get_aggregate_share(
    tx: Transaction, task_id: bytes, share_id: bytes
) -> StoredAggregateShare | None:
    """Return the release with the id of its URL, deleted or not."""
    return _find(tx, task_id, tables.aggregate_shares.c.share_id == share_id)


def is_share_named(tx: Transaction, share_id: bytes) -> bool:
    """Return whether a share of any task has this id."""
    share = tables.aggregate_shares.c
    query = select(share.share_id).where(share.share_id == share_id)
    return tx.connection.execute(query).first() is not None


def put_aggregate_share(
    tx: Transaction, task_id: bytes, share: NewAggregateShare, charge: Charge
) -> StoredAggregateShare:
    """Release a batch: store the sealed share, charge it, mark it collected, destroy the rest.

    Before that, in the same transaction, check the Leader's count and checksum and draw the noise.

    Raises:
        BatchClosed: A part of the batch was released.
        Conflict: This selector was released.
    """
    locks.change_batches(tx, task_id)
    if find_aggregate_share(tx, task_id, share.selector) is not None:
        raise tx.refuse(Conflict("the batch was released already"))
    closed_batches.mark_collected(tx, task_id, share.batch)
    ledger.charge(tx, task_id, share.batch, charge, hashlib.sha256(share.response).digest())
    share_id = tx.random_id() if share.share_id is None else share.share_id
    stored = StoredAggregateShare(share_id, share.selector, share.body_sha256, share.response)
    tx.connection.execute(
        insert(tables.aggregate_shares).values(
            task=tx.task_key(task_id),
            share_id=stored.share_id,
            selector=share.selector,
            body_sha256=share.body_sha256,
            state=ResourceState.LIVE,
            response=share.response,
            report_count=share.report_count,
            created_at=tx.now,
        )
    )
    return stored


def delete_aggregate_share(tx: Transaction, task_id: bytes, share_id: bytes) -> bool:
    """Forget the sealed share; its batch stays collected, so the same request is refused.

    Returns:
        Whether there was such a live share.
    """
    share = tables.aggregate_shares
    transition = AGGREGATE_SHARE.transition("delete_aggregate_share")
    statement = (
        update(share)
        .where(
            share.c.task == tx.task_key(task_id),
            share.c.share_id == share_id,
            share.c.state.in_(transition.sources),
        )
        .values(state=transition.target, response=None)
    )
    return tx.connection.execute(statement).rowcount == 1


def _find(
    tx: Transaction, task_id: bytes, condition: ColumnElement[bool]
) -> StoredAggregateShare | None:
    share = tables.aggregate_shares.c
    query = select(share.share_id, share.selector, share.body_sha256, share.response).where(
        share.task == tx.task_key(task_id), condition
    )
    row = tx.connection.execute(query).one_or_none()
    return None if row is None else StoredAggregateShare(*row)
