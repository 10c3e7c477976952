"""Which sums have lost their keys for good, and not only beside a release that ends just now.

A release overwrites the keys of its batch as soon as it is committed. A snapshot from before still
has their rows, so to it they look lost. The next one has them no more.
"""

from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.sums import WithoutKey, buckets_without_key
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction

SHOWN_NAMES = 3
"""How many store keys are named that we do not have; the others are counted."""


async def lost_for_good(
    database: Database, task_id: bytes | None = None, batch: Batch | None = None
) -> list[tuple[bytes, bytes]]:
    """Return the tasks and keys of buckets that lack a share in two snapshots, one after the other.

    Args:
        database: The store.
        task_id: Only this task's.
        batch: Only those of this batch of it.
    """
    # Imported here, since a command that looks runs no loop.
    from aggregator.failures import in_thread

    found = await in_thread(without_key_for_good, database, task_id, batch)
    return found.lost


def without_key_for_good(
    database: Database, task_id: bytes | None = None, batch: Batch | None = None
) -> WithoutKey:
    """Return the same with those that are under store keys that we do not have, blocking."""

    def look(tx: Transaction) -> WithoutKey:
        return buckets_without_key(tx, task_id, batch)

    found = database.read_sync("look for lost keys", look)
    if not found.lost:
        return found
    still = set(database.read_sync("look for lost keys again", look).lost)
    return WithoutKey([each for each in found.lost if each in still], found.locked, found.place)


def why_unreadable(found: WithoutKey) -> str | None:
    """Return why sums of a batch cannot be read, and what a person can do; None if all can."""
    if found.lost:
        return (
            f"the keys of {len(found.lost):,} of the batch's sums are lost or damaged: "
            f"{when_lost(found.place)}"
        )
    if found.locked:
        return (
            f"{sum(map(len, found.locked.values())):,} of the batch's sums are "
            f"{when_locked(found)[0]}: {when_locked(found)[1]}"
        )
    return None


def when_lost(place: str) -> str:
    """Return what to do about keys that are lost from a place, or damaged there."""
    return (
        f"bring {place} back; if it is gone, `prio store after-restore --trust-journal` closes "
        "those units of time"
    )


def when_locked(found: WithoutKey) -> tuple[str, str]:
    """Return under which store keys sums are that we do not have, and what to do about it."""
    names = [name.hex() for name in found.locked]
    if len(names) == 1:
        which = f"under the store key {names[0]}, which store_key does not have"
        way = (
            "add it behind the first; if no store key ever had that name, it was read from "
            f"{found.place}, which is damaged: bring that back"
        )
        return which, way
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    named = f"{', '.join(names[:SHOWN_NAMES])}{more}"
    way = (
        f"no store has so many, so {found.place} is damaged: bring it back; if it is lost, remove "
        "it, and `prio store after-restore --trust-journal` closes those units of time"
    )
    return f"under {len(names):,} store keys ({named}) which store_key does not have", way
