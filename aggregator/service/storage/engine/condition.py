"""The condition of any party's store: its size, and the free space on its disk."""

from collections.abc import Sequence

import aggregator
from aggregator.errors import StoreError
from aggregator.service.storage.engine.backends import damaged
from aggregator.service.storage.engine.presence import Duty, Present
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.telemetry.health import Metric

SHOWN_JOBS = 20
LEAST_FREE_BYTES = 16 * 2**20
"""With less free space on its disk a service is not ready: it could not store what it accepts."""


def disk_faults(tx: Transaction) -> list[str]:
    """Return what we can see to be wrong with a store's file or the disk under it, if anything."""
    found, free = tx.backend.damage(), tx.backend.free_bytes()
    faults = [] if found is None else [str(damaged(tx.backend, found))]
    if free is not None and free < LEAST_FREE_BYTES:
        faults.append(
            f"the disk of {tx.backend.name} is full: {free:,} of {LEAST_FREE_BYTES:,} bytes are "
            "free"
        )
    return faults


def who_is_present(tx: Transaction) -> Present:
    """Return what a party's services do now, wherever their processes run."""
    return tx.backend.present(tx.connection)


def try_who_is_present(tx: Transaction) -> tuple[Present | None, list[str]]:
    """Return what a party's services do now; or None, and why nobody can tell.

    What lies in the place of a lock's file keeps nobody from working.
    """
    try:
        return who_is_present(tx), []
    except StoreError as error:
        return None, [f"nobody can tell who runs: {error}"]


def running_details(present: Present | None, duties: Sequence[Duty]) -> dict[str, bool] | None:
    """Return whether somebody does each of the duties that a party has; None if nobody can tell."""
    return None if present is None else {str(duty): duty in present for duty in duties}


def no_worker(role: str) -> str:
    """Return what to say where nobody drives an aggregator's jobs."""
    return f"no worker runs; `prio {role} work`, or `prio {role} serve --work`, must run"


def common_details(tx: Transaction, role: str) -> dict[str, object]:
    """Return the members that the document of every party has."""
    return {
        "role": role,
        "prio": aggregator.__version__,
        "store": tx.backend.name,
        "store_bytes": tx.backend.stored_bytes(tx.connection),
        "free_bytes": tx.backend.free_bytes(),
    }


def common_metrics(tx: Transaction) -> list[Metric]:
    """Return the metrics of every party."""
    stored, free = tx.backend.stored_bytes(tx.connection), tx.backend.free_bytes()
    return [
        Metric("prio_store_bytes", "The store and its log.", "gauge", [({}, stored)]),
        Metric(
            "prio_store_free_bytes",
            "Room on the store's disk.",
            "gauge",
            [] if free is None else [({}, free)],
        ),
    ]
