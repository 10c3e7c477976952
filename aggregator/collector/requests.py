"""Puts a collection into the collector's store; `driver` then asks the leader for it."""

from collections.abc import Mapping

from aggregator.codec import decode, encode
from aggregator.collector import store
from aggregator.collector.early_collection import loss_in_words
from aggregator.collector.results.result import collection_request
from aggregator.dap.messages import CollectionJobReq
from aggregator.dap.problems import BatchInvalid, BatchNotOver
from aggregator.dap.times import Time
from aggregator.entropy import Entropy
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction

COLLECTION_ID_SIZE = 16


async def begin_collection(
    database: Database, task: Task, named: Mapping[str, int], entropy: Entropy, *, now: bool
) -> store.StoredCollection:
    """Start the collection of the named batch, or return the collection that it already has.

    With `now` a batch may be collected that is not over, which shuts out its later reports.
    Otherwise, or if there is no such batch, it raises `BatchInvalid`.
    """
    new = new_collection(task, collection_request(task, named), entropy)
    return await database.run("put collection", lambda tx: start_collection(tx, task, new, now=now))


def start_collection(
    tx: Transaction, task: Task, new: store.NewCollection, *, now: bool
) -> store.StoredCollection:
    """Do what `begin_collection` does, within a transaction."""
    asked = decode(CollectionJobReq, new.request)
    named = task.batching.named(asked.query, task.time_precision)
    if named.get("start", 0) > tx.now:
        raise BatchInvalid(
            f"start: {named['start']} is in the future, where nobody has uploaded", task.task_id
        )
    if store.find_collection(tx, new) is None and not now:
        last_over = Time(max(0, task.time(tx.now).units - 1))
        try:
            task.batching.asked(asked.query, last_over, task.time_precision)
        except BatchNotOver as error:
            lost = loss_in_words(tx, task, **named)
            raise BatchInvalid(
                f"{error.detail}; {lost}, and reports that come after their batch was collected "
                "are refused: to collect it now, say so (--now)",
                task.task_id,
            ) from None
    return store.put_collection(tx, new)


def new_collection(task: Task, request: CollectionJobReq, entropy: Entropy) -> store.NewCollection:
    """Return the collection that a request asks for, under a fresh id."""
    return store.NewCollection(
        collection_id=entropy.bytes(COLLECTION_ID_SIZE),
        task_id=task.task_id.value,
        request=encode(request),
        asks_for_next=task.batching.has_ids,
    )
