"""What a collector's store says of its work."""

from pathlib import Path

from aggregator.runtime.status import common_details, common_metrics, disk_faults
from aggregator.storage.database import Transaction
from aggregator.storage.progress import pending_collections
from aggregator.telemetry.health import Health, Metric


def read_collector_health(tx: Transaction, store: Path) -> Health:
    """Return the state of a collector: what it waits for is the leader's to finish.

    Args:
        tx: A transaction on its store.
        store: The store's file.
    """
    count, oldest_at = pending_collections(tx)
    faults = disk_faults(store)
    seconds = None if oldest_at is None else tx.now - oldest_at
    document = {
        **common_details("collector", store),
        "pending_collections": count,
        "oldest_collection_seconds": seconds,
    }
    metrics = [
        *common_metrics(store, faults),
        Metric(
            "prio_pending_collections",
            "Collections that the leader has not finished.",
            "gauge",
            [({}, count)],
        ),
        Metric(
            "prio_oldest_collection_seconds",
            "Age of the oldest of them.",
            "gauge",
            [({}, seconds or 0)],
        ),
    ]
    return Health(faults, document, metrics)
