"""What a party's store says of its tasks, for the commands that show them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from aggregator.cli.service.parties import AggregatorParty, CollectorParty, Party, no_task
from aggregator.collector import store as collector_store
from aggregator.dap.profile import Role
from aggregator.protocol.task_file import stored_task
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.tasks.tasks import get_public_task, list_tasks
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.collector.documents import Document
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.task import Task
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.operator.progress import TaskProgress

_States: TypeAlias = "list[tuple[Task, Sequence[str]]]"


def tasks_of(party: Party) -> list[Task]:
    """Return the tasks that a party takes part in, oldest first."""

    def read(tx: Transaction) -> list[str]:
        if isinstance(party, CollectorParty):
            return [*collector_store.list_definitions(tx)]
        return [each.definition for each in list_tasks(tx)]

    return [stored_task(each) for each in party.database.read_sync("list tasks", read)]


def task_of(party: Party, task_id: TaskId) -> Task:
    """Return the task with this id, or raise `ParameterError`."""

    def read(tx: Transaction) -> str | None:
        if isinstance(party, CollectorParty):
            return collector_store.get_definition(tx, task_id.value)
        stored = get_public_task(tx, task_id.value)
        return None if stored is None else stored.definition

    definition = party.database.read_sync("get task", read)
    if definition is None:
        raise no_task(task_id)
    return stored_task(definition)


def document_of(party: Party, task_id: TaskId) -> Document:
    """Return a task; at an aggregator with the counts of its reports, by stage and reason."""
    from aggregator.service.storage.reports.counters import Stage, report_counts

    if isinstance(party, CollectorParty):
        return {**_document(task_of(party, task_id)), "role": "collector"}

    def read(tx: Transaction) -> Document:
        stored = get_public_task(tx, task_id.value)
        if stored is None:
            raise no_task(task_id)
        own = stored.retention_seconds
        counts = {str(stage): report_counts(tx, task_id.value, stage) for stage in Stage}
        return {
            **_document(stored_task(stored.definition)),
            "role": party.role.name.lower(),
            "created_at": stored.created_at,
            "ended_at": stored.ended_at,
            "retention_seconds": party.settings.retention_seconds if own is None else own,
            "retention_is_own": own is not None,
            "reports": counts,
        }

    return party.database.read_sync("show task", read)


def _document(task: Task) -> Document:
    from aggregator.collector.documents import task_document

    attribution = task.attribution
    hosts = {} if attribution is None else {"attribution": dataclasses.asdict(attribution)}
    return {**task_document(task), **hosts}


def states_of(party: Party) -> _States:
    """Return the tasks of `tasks_of`, each with what a list says of it."""
    from aggregator.service.storage.operator.progress import task_progress

    def read(tx: Transaction) -> _States:
        if isinstance(party, CollectorParty):
            tasks = [stored_task(each) for each in collector_store.list_definitions(tx)]
            return [
                (task, _collected(collector_store.list_collections(tx, task.task_id.value)))
                for task in tasks
            ]
        return [
            (stored_task(each.definition), _aggregated(party, progress))
            for each, progress in zip(list_tasks(tx), task_progress(tx), strict=True)
        ]

    return party.database.read_sync("list tasks", read)


def _aggregated(party: AggregatorParty, progress: TaskProgress) -> Sequence[str]:
    from aggregator.dap.times import DAY

    released, own = progress.last_release_at, progress.retention_seconds
    return (
        "open" if progress.ended_at is None else f"ended {utc_text(progress.ended_at)}",
        *([f"{progress.waiting:,} wait"] if party.role is Role.LEADER else []),
        f"{progress.aggregated:,} aggregated",
        "not released" if released is None else f"released {utc_text(released)}",
        *([] if own is None else [f"kept {own // DAY} days"]),
    )


def _collected(collections: Sequence[collector_store.StoredCollection]) -> Sequence[str]:
    counts = Counter(each.state for each in collections)
    ended = [each.ended_at for each in collections if each.ended_at is not None]
    return (
        f"{counts[CollectionState.FINISHED]:,} collected",
        f"{counts[CollectionState.PENDING]:,} wait",
        f"last {utc_text(max(ended))}" if ended else "none yet",
    )
