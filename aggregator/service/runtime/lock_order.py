"""The order in which transactions lock tasks, if they write for several.

Two transactions that took them in different orders could wait for each other for ever.
"""

from typing import TypeAlias

from aggregator.protocol.task import Task

LockOrder: TypeAlias = tuple[bytes, bool, bytes]


def lock_order(task: Task) -> LockOrder:
    """Return where a task comes: by its domain of permits, if it has one, and by its id.

    Tasks of one domain come together, since their permits are spent together.
    """
    task_id, permits = task.task_id.value, task.permits
    return (task_id, False, task_id) if permits is None else (permits.domain, True, task_id)
