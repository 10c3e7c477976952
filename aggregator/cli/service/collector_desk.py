"""A collector's store as its operator uses it: tasks, collections, its key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aggregator.cli.service.parties import no_task
from aggregator.collector import store as collector_store
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import stored_task
from aggregator.service.storage.engine.states import CollectionState
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.collector.documents import Document
    from aggregator.dap.hpke import HpkeKeypair
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.task import Task
    from aggregator.service.config import CollectorSettings
    from aggregator.service.storage.engine.database import Database
    from aggregator.service.storage.engine.transaction import Transaction


@dataclass(frozen=True, slots=True)
class CollectorDesk:
    """The collector's store."""

    settings: CollectorSettings
    database: Database

    def add_tasks(self, text: str) -> list[Task]:
        """Take part in the tasks of the collector's file, all of them or none.

        Raises `ParameterError` if the file is not the collector's, or a task's results are sealed
        to another key than ours; `Conflict` if we take part in one with other contents.
        """
        from aggregator.dap.profile import Role
        from aggregator.protocol.clear_text import check_endpoints
        from aggregator.protocol.provisioning import read_provisions

        provisions = read_provisions(text, Role.COLLECTOR)
        records, ours = [], self.keypair().config
        for given in provisions:
            check_endpoints(given.task, insecure_http=self.settings.insecure_http)
            if given.task.collector_hpke_config != ours:
                raise ParameterError(
                    "collector_hpke_config: the task's results are sealed to another key than this "
                    "collector's; `prio collector config` prints ours"
                )
            token = given.secrets.collector_token
            if token is None:
                raise ParameterError(
                    "secrets.collector_token: missing; give the task's collector.toml"
                )
            task_id = given.task.task_id.value
            records.append(collector_store.CollectorTask(task_id, given.definition, token))

        def put(tx: Transaction) -> None:
            for record in records:
                collector_store.put_collector_task(tx, record)

        self.database.run_sync("put task", put)
        return [each.task for each in provisions]

    def tasks(self) -> list[Task]:
        """Return the tasks that we collect, oldest first."""
        definitions = self.database.read_sync("list tasks", collector_store.list_definitions)
        return [stored_task(each) for each in definitions]

    def task_states(self) -> list[tuple[Task, Sequence[str]]]:
        """Return the tasks of `tasks`, each with its states for a list."""

        def read(tx: Transaction) -> list[tuple[Task, Sequence[str]]]:
            tasks = [stored_task(each) for each in collector_store.list_definitions(tx)]
            return [
                (task, _collected(collector_store.list_collections(tx, task.task_id.value)))
                for task in tasks
            ]

        return self.database.read_sync("list tasks", read)

    def end_task(self, task_id: TaskId) -> None:
        """Refuse: only the leader ends a task."""
        raise ParameterError(f"task {task_id}: the leader ends it, not the collector")

    def forget_task(self, task_id: TaskId) -> None:
        """Refuse: a collector's store holds the results."""
        raise ParameterError(f"task {task_id}: an aggregator forgets it, not the collector")

    def document(self, task_id: TaskId) -> Document:
        """Return a task."""
        from aggregator.collector.documents import task_document

        return {**task_document(self.task(task_id)), "role": "collector"}

    def task(self, task_id: TaskId) -> Task:
        """Return the task with this id, or raise `ParameterError`."""
        definition = self.database.read_sync(
            "get task", lambda tx: collector_store.get_definition(tx, task_id.value)
        )
        if definition is None:
            raise no_task(task_id)
        return stored_task(definition)

    def collections(self, task_id: TaskId) -> list[Document]:
        """Return the task's collections with their results, oldest first.

        Raises `ParameterError` if we do not collect the task.
        """
        from aggregator.collector.documents import collection_document

        task = self.task(task_id)
        stored = self.database.read_sync(
            "list collections", lambda tx: collector_store.list_collections(tx, task_id.value)
        )
        return [collection_document(task, each) for each in stored]

    def keypair(self) -> HpkeKeypair:
        """Return the key pair to which results are sealed; make it on first use."""
        from aggregator.collector.keys import keypair_of

        return keypair_of(self.database)


def _collected(collections: Sequence[collector_store.StoredCollection]) -> Sequence[str]:
    counts = Counter(each.state for each in collections)
    ended = [each.ended_at for each in collections if each.ended_at is not None]
    return (
        f"{counts[CollectionState.FINISHED]:,} collected",
        f"{counts[CollectionState.PENDING]:,} wait",
        f"last {utc_text(max(ended))}" if ended else "none yet",
    )
