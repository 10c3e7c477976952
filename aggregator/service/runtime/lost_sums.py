"""Which sums nobody can read, by task and unit of time: told before their batch is asked for."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from aggregator.dap.ids import TaskId
from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.storage.batches.lost_keys import (
    when_locked,
    when_lost,
    without_key_for_good,
)
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.tasks.tasks import list_all_tasks
from aggregator.written_times import utc_text

SHOWN_TASKS = 3
"""Of how many tasks the units of time are named; the others are counted."""


def sum_faults(database: Database) -> list[str]:
    """Return which sums have lost their key, or are under a store key that we do not have.

    It looks at every sum that is not collected: for once in a while, not for each look at a store.
    """
    found = without_key_for_good(database)
    if not (found.lost or found.locked):
        return []
    tasks = database.read_sync("name tasks", list_all_tasks)
    definitions = {each.task_id: each.definition for each in tasks}
    faults = []
    if found.lost:
        faults.append(
            f"the keys of {len(found.lost):,} sums are lost or damaged "
            f"({_places(found.lost, definitions)}): {when_lost(found.place)}"
        )
    if found.locked:
        which, way = when_locked(found)
        locked = [each for sums in found.locked.values() for each in sums]
        faults.append(f"{len(locked):,} sums are {which} ({_places(locked, definitions)}): {way}")
    return faults


def _places(buckets: Sequence[tuple[bytes, bytes]], definitions: Mapping[bytes, str]) -> str:
    """Return the tasks of buckets, each with the time that these are of."""
    by_task: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for task_id, bucket in buckets:
        by_task[task_id].append(bucket)
    shown = [
        f"task {TaskId(task_id)}{_span(definitions[task_id], min(found), max(found))}"
        for task_id, found in list(by_task.items())[:SHOWN_TASKS]
    ]
    left = len(by_task) - len(shown)
    return "; ".join([*shown, f"{left:,} tasks more"] if left else shown)


def _span(definition: str, first: bytes, last: bytes) -> str:
    """Return from when to when the buckets of a task are, where they are of a time."""
    try:
        task = task_from_toml(definition)
    except ParameterError:
        return ""  # what is wrong with its file is said elsewhere
    if task.batching.has_ids:
        return ""
    bounds = task.batching.described(Batch(first, last), task.time_precision)
    start, end = (utc_text(int(bounds[name])) for name in ("start", "end"))
    return f" from {start} to {end}"
