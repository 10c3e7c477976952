"""The state of a collector's work, from its store."""

from aggregator.collector.store import list_collections, list_untold_collections
from aggregator.dap.ids import TaskId
from aggregator.service.storage.engine.condition import (
    SHOWN_JOBS,
    common_details,
    common_metrics,
    disk_faults,
    running_details,
    try_who_is_present,
)
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.telemetry.health import Health, Metric


def examine_collector(database: Database) -> Health:
    """Return the health of a collector, from its store."""
    return database.read_sync("health", read_collector_health)


def read_collector_health(tx: Transaction) -> Health:
    """Return the health of a collector; a pending collection is no fault, as its leader ends it."""
    pending = list_collections(tx, state=CollectionState.PENDING)
    count, oldest_at = len(pending), pending[0].created_at if pending else None
    present, untold = try_who_is_present(tx)
    faults = [*disk_faults(tx), *untold]
    seconds = None if oldest_at is None else tx.now - oldest_at
    document = {
        **common_details(tx, "collector"),
        "running": running_details(present, [Duty.SERVE]),
        "pending_collections": count,
        "oldest_collection_seconds": seconds,
        "untold_collections": len(list_untold_collections(tx)),
        "waiting_collections": [
            {
                "collection": each.collection_id.hex(),
                "task_id": str(TaskId(each.task_id)),
                "seconds": tx.now - each.created_at,
                "reason": each.reason,
            }
            for each in pending[:SHOWN_JOBS]
        ],
    }
    metrics = [
        *common_metrics(tx),
        Metric(
            "prio_pending_collections",
            "Collections that the leader has not finished.",
            "gauge",
            [({}, count)],
        ),
        Metric(
            "prio_oldest_collection_seconds",
            "Age of the oldest collection that the leader has not finished.",
            "gauge",
            [({}, seconds or 0)],
        ),
    ]
    return Health(faults, document, metrics, untold)
