"""Gives up a collection whose leader may never answer again, and tells the leader if possible.

Giving up decides nothing about the batch, which only the aggregators know. A later collection of
the same batch makes the same request, byte for byte, and gets what the leader has for it: the same
answer while the leader keeps the job, and a refusal once the batch is closed. No aggregator draws
its noise for a batch twice.

Source: DAP, "Collection Job Deletion".
"""

import json
from http import HTTPStatus

from aggregator.collector import store
from aggregator.collector.collect import Collection, TaskCollector
from aggregator.collector.store import StoredCollection
from aggregator.dap.problems import InvalidMessage, UnrecognizedCollectionJob, UnrecognizedTask
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.transport.interpretation import PeerRefused

MEANING = (
    "the aggregators may have released the batch and charged its cost; whoever asks for it again "
    "gets the same answer or is refused"
)
"""What readers are told about a batch whose collection was given up."""

_PROBLEM = json.dumps(
    {"title": "The collection was abandoned", "detail": f"given up here: {MEANING}"}
)


async def abandon(database: Database, collection_id: bytes) -> StoredCollection:
    """Give up a pending collection; one that was given up before stays so.

    Raises `UnrecognizedCollectionJob`, or `InvalidMessage` if it has finished or failed.
    """

    def give_up(tx: Transaction) -> StoredCollection:
        store.abandon_collection(tx, collection_id, _PROBLEM)
        stored = store.get_collection(tx, collection_id)
        if stored is None:
            raise UnrecognizedCollectionJob("there is no such collection")
        if stored.state is not CollectionState.ABANDONED:
            raise InvalidMessage(f"the collection is not pending: it has {stored.state}")
        return stored

    return await database.run("abandon collection", give_up)


async def tell_leader(
    database: Database, collector: TaskCollector, abandoned: StoredCollection
) -> bool:
    """Have the leader delete the job of an abandoned collection.

    Returns whether the leader has no such job now. It keeps the job if the batch was asked for
    again, since the new collection goes on with it. Raises `PeerError` if it cannot be told now.
    """
    untold = await database.read("list untold collections", store.list_untold_collections)
    if abandoned.collection_id not in {each.collection_id for each in untold}:
        return False
    assert abandoned.location is not None  # noqa: S101  or it would not be untold
    try:
        await collector.forget(Collection(abandoned.request, abandoned.location))
    except PeerRefused as error:
        if not _is_gone(error):
            raise
    await database.run(
        "note that the leader was told", lambda tx: store.note_told(tx, abandoned.collection_id)
    )
    return True


def _is_gone(error: PeerRefused) -> bool:
    is_missing = error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
    return is_missing and not isinstance(error.problem, UnrecognizedTask)
