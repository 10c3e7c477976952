"""Closes what an aggregator may have released since the backup that its store is restored from.

This is for a store whose journal of releases is lost, or as old as the backup. Nobody knows any
more what was released, so everything that may have been is closed for ever and charged: `_presume`
says what that is. What the journal does know is exact, and was entered before
(`backup.reconciliation`).
"""

import dataclasses
import itertools
from collections.abc import Iterator

from aggregator.dap.ids import BatchId
from aggregator.dap.profile import Role
from aggregator.dap.times import Interval
from aggregator.dp.window import Window
from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch
from aggregator.protocol.budget import horizon
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import stored_task
from aggregator.protocol.time_interval import batch_of_interval
from aggregator.service.runtime.spending import charge_of, releases_left
from aggregator.service.storage.backup.reconciliation import close, close_selected
from aggregator.service.storage.batches.closed import closed_batches
from aggregator.service.storage.batches.sums import buckets_without_key, open_buckets
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger import charges as ledger
from aggregator.service.storage.operator.progress import newest_entry_at
from aggregator.service.storage.reports.waiting import waiting_buckets
from aggregator.service.storage.tasks.tasks import list_tasks
from aggregator.written_times import utc_text

MOST_CHARGES = 10_000
"""The most releases that a task is charged for at once: no budget pays for more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Presumed:
    """What was closed and charged of a task.

    Attributes:
        task: The task.
        closed: The range of buckets that is now closed; None if none can have been released.
        charges: How many releases were charged.
    """

    task: Task
    closed: Batch | None
    charges: int


def presume_released(
    tx: Transaction, role: Role, backup_time: int, skew_seconds: int
) -> list[Presumed]:
    """Close and charge, for each task, what may have been released since the backup.

    Args:
        tx: The transaction.
        role: Which aggregator we are.
        backup_time: When the backup was begun, in seconds, or any time before.
        skew_seconds: How far ahead of our clock a batch may reach.

    Raises:
        ParameterError: The time is in the future, or the store has entries from after it.
    """
    newest = newest_entry_at(tx)
    if not newest <= backup_time <= tx.now:
        raise ParameterError(
            f"backup-time: must be from {utc_text(newest)}, when the store's newest entry was "
            f"made, to now, {utc_text(tx.now)}, not {utc_text(backup_time)}"
        )
    tasks = [stored_task(each.definition) for each in list_tasks(tx)]
    return [_presume(tx, task, role, backup_time, tx.now + skew_seconds) for task in tasks]


def destroy_newer_keys(tx: Transaction) -> int:
    """Destroy the keys of sums that came after the backup; return how many on commit.

    The database has no sums that they open, and it does not open beside them.
    """
    newer = tx.keys.newer()
    tx.destroyed_slots += newer
    return len(newer)


def close_without_keys(tx: Transaction, gone: bytes | None = None) -> tuple[int, dict[bytes, int]]:
    """Close the buckets whose keys were not restored with the store.

    Their sums cannot be read any more, so they are never released, and nothing is charged.

    Args:
        tx: The transaction.
        gone: The fingerprint of a store key that is lost for good, with everything encrypted by it.

    Returns:
        How many buckets were closed, and how many are encrypted by store keys that we do not have
        but that may come back, by the keys' fingerprints.

    Raises:
        ParameterError: No bucket is encrypted by the store key `gone`.
    """
    found = buckets_without_key(tx)
    if gone is not None and gone not in found.locked:
        raise ParameterError(
            f"lost-store-key: no sum that is not collected is under the store key {gone.hex()}"
        )
    lost = [*found.lost, *(found.locked.pop(gone) if gone is not None else [])]
    for task_id, bucket in lost:
        close(tx, task_id, Batch(bucket, bucket))
    return len(lost), {name: len(each) for name, each in found.locked.items()}


def _presume(tx: Transaction, task: Task, role: Role, backup_time: int, latest: int) -> Presumed:
    """Close all windows that are over, and charge for those that may have been released."""
    task_id = task.task_id.value
    stored = [*open_buckets(tx, task_id), *waiting_buckets(tx, task_id)]
    if task.batching.has_ids:
        close_selected(tx, task_id)
        return Presumed(task, None, _charge(tx, task, _selected(tx, task, stored)))
    window = task.policy.window or Window(1)
    end = window.first_unit(task.time(latest).units + 1)
    if role is Role.HELPER and task.policy.window is not None:
        end += window.length  # only the leader checks that a window is over
    if end <= 0:
        return Presumed(task, None, 0)
    closed = batch_of_interval(Interval.of(0, end))
    units = [int.from_bytes(bucket, "big") for bucket, _ in stored]
    # The first window that was not over when the backup was made, or that held reports then.
    first = window.first_unit(min([task.time(backup_time).units, *units]))
    # Their collection was under way, whatever their windows.
    begun = [each for each in ledger.list_reserved(tx, task_id) if each.first <= closed.last]
    before, length = closed_batches(tx, task_id, closed), window.length
    since = _since(task, [first, *(int.from_bytes(each, "big") for each in before.firsts)])
    # All reports of a window before `first` may have come late. Earlier ones than `since` are
    # closed, but not charged.
    oldest = max(since, first - MOST_CHARGES * length)
    starts = itertools.chain(
        range(first, end, length), range(first - length, oldest - length, -length)
    )
    windows = (
        batch_of_interval(Interval.of(max(0, start), min(start, 0) + length)) for start in starts
    )
    close(tx, task_id, closed)
    untouched = (each for each in windows if not before.overlaps(each))
    return Presumed(task, closed, _charge(tx, task, itertools.chain(begun, untouched)))


def _since(task: Task, known: list[int]) -> int:
    """Return the first unit of the task's interval, or else the first that is known."""
    return min(known) if task.interval is None else task.interval.start.units


def _selected(tx: Transaction, task: Task, stored: list[tuple[bytes, int]]) -> Iterator[Batch]:
    """Yield batches that the leader may have selected, under made-up ids where none is known.

    A task without a limit may have as many as its population's budget pays for.
    """
    known = {bucket for bucket, _ in stored} - {b""}
    for bucket in sorted(known):
        yield Batch(bucket, bucket)
    unplaced = sum(count for bucket, count in stored if not bucket)
    more = MOST_CHARGES
    if horizon(task) is None:
        more = max(unplaced // task.min_batch_size, releases_left(tx, task, MOST_CHARGES))
    for number in range(more):
        # No leader of ours makes such an id: their serial numbers begin with 1.
        bucket = number.to_bytes(BatchId.size, "big")
        yield Batch(bucket, bucket)


def _charge(tx: Transaction, task: Task, batches: Iterator[Batch]) -> int:
    """Charge for the batches, within the task's limits and ours; return how many were charged."""
    task_id, most = task.task_id.value, horizon(task)
    left = MOST_CHARGES if most is None else most - ledger.releases_made(tx, task_id)
    charge, charged = charge_of(task), 0
    for batch in batches:
        if charged >= min(left, MOST_CHARGES):
            break
        ledger.presume(tx, task_id, batch, charge)
        charged += 1
    return charged
