"""A leader's or a helper's store as its operator uses it: tasks, report counts, privacy spent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aggregator.cli.service.parties import no_task
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import stored_task
from aggregator.service.storage.tasks import tasks as task_store
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.collector.documents import Document
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.provisioning import Provision
    from aggregator.protocol.task import Task
    from aggregator.service.config import AggregatorSettings
    from aggregator.service.storage.engine.database import Database
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.ledger.charges import LedgerEntry
    from aggregator.service.storage.ledger.journal import Journal
    from aggregator.service.storage.ledger.populations import Population
    from aggregator.service.storage.operator.progress import TaskProgress
    from aggregator.service.storage.tasks.hpke_keys import StoredConfig


@dataclass(frozen=True, slots=True)
class AggregatorDesk:
    """The leader's or the helper's store."""

    role: Role
    settings: AggregatorSettings
    database: Database
    journal: Journal

    def add_tasks(self, text: str) -> list[Task]:
        """Take part in the tasks of this party's file, all of them or none.

        Raises `ParameterError` if the file is not ours, a task protects people less than we
        require, or its population has no budget left for it; `Conflict` if we take part in one with
        other contents, or its population is closed.
        """
        from aggregator.dap.auth import hash_token
        from aggregator.protocol.clear_text import check_endpoints
        from aggregator.protocol.provisioning import read_provisions
        from aggregator.protocol.requirements import check_floor
        from aggregator.service.runtime.spending import check_new_task
        from aggregator.service.storage.backup.reconciliation import enter_releases
        from aggregator.service.storage.engine import locks
        from aggregator.service.storage.tasks.caller_tokens import put_caller_token

        provisions = read_provisions(text, self.role)
        for each in provisions:
            check_endpoints(each.task, insecure_http=self.settings.insecure_http)
            check_floor(each.task, self.settings.floor)
        records = [(each, _task_record(each, self.role)) for each in provisions]
        released = self.journal.releases()

        def put(tx: Transaction) -> None:
            locks.add_tasks(tx)  # before the locks of each task
            for given, record in records:
                if task_store.get_task(tx, record.task_id) is None:
                    check_new_task(tx, given.task)
                task_store.put_task(tx, record)
                # If the task was lost with its store, the journal knows its releases.
                enter_releases(tx, released, record.task_id)
                shown_to_us = (
                    given.secrets.collector_token
                    if self.role is Role.LEADER
                    else given.secrets.leader_token
                )
                if shown_to_us is not None:
                    put_caller_token(tx, record.task_id, hash_token(shown_to_us))

        self.database.run_sync("put task", put)
        return [each.task for each in provisions]

    def tasks(self) -> list[Task]:
        """Return the tasks that we take part in, oldest first."""
        stored = self.database.read_sync("list tasks", task_store.list_tasks)
        return [stored_task(each.definition) for each in stored]

    def tasks_ever(self) -> list[Task]:
        """Return the tasks of `tasks` and those that were forgotten, whose releases count too."""
        stored = self.database.read_sync("list all tasks", task_store.list_all_tasks)
        return [stored_task(each.definition) for each in stored]

    def titles(self) -> dict[str, str]:
        """Return the titles of all tasks that can be read, by their ids."""
        from aggregator.dap.ids import TaskId

        found = {}
        for each in self.database.read_sync("list all tasks", task_store.list_all_tasks):
            with suppress(ParameterError):
                found[str(TaskId(each.task_id))] = stored_task(each.definition).title
        return found

    def task_states(self) -> list[tuple[Task, Sequence[str]]]:
        """Return the tasks of `tasks`, each with its states for a list."""
        from aggregator.service.storage.operator.progress import task_progress

        def read(tx: Transaction) -> list[tuple[Task, Sequence[str]]]:
            stored = task_store.list_tasks(tx)
            return [
                (stored_task(each.definition), self._state(progress))
                for each, progress in zip(stored, task_progress(tx), strict=True)
            ]

        return self.database.read_sync("list tasks", read)

    def _state(self, progress: TaskProgress) -> Sequence[str]:
        from aggregator.dap.times import DAY

        released, own = progress.last_release_at, progress.retention_seconds
        return (
            "open" if progress.ended_at is None else f"ended {utc_text(progress.ended_at)}",
            *([f"{progress.waiting:,} wait"] if self.role is Role.LEADER else []),
            f"{progress.aggregated:,} aggregated",
            "not released" if released is None else f"released {utc_text(released)}",
            *([] if own is None else [f"kept {own // DAY} days"]),
        )

    def end_task(self, task_id: TaskId) -> None:
        """Take no more uploads for a task."""
        self.database.run_sync("end task", lambda tx: task_store.end_task(tx, task_id.value))

    def forget_task(self, task_id: TaskId) -> None:
        """Delete an ended task with everything but its ledger; see `forgetting.forget`."""
        from aggregator.service.storage.tasks.forgetting import forget

        forget(self.database, task_id.value)

    def task(self, task_id: TaskId) -> Task:
        """Return the task with this id, or raise `ParameterError`."""
        stored = self.database.read_sync(
            "get task", lambda tx: task_store.get_public_task(tx, task_id.value)
        )
        if stored is None:
            raise no_task(task_id)
        return stored_task(stored.definition)

    def document(self, task_id: TaskId) -> Document:
        """Return a task and the counts of its reports, by stage and reason."""
        from aggregator.collector.documents import task_document
        from aggregator.service.storage.reports.counters import Stage, report_counts

        def read(tx: Transaction) -> Document:
            stored = task_store.get_public_task(tx, task_id.value)
            if stored is None:
                raise no_task(task_id)
            own = stored.retention_seconds
            counts = {str(stage): report_counts(tx, task_id.value, stage) for stage in Stage}
            return {
                **task_document(stored_task(stored.definition)),
                "role": self.role.name.lower(),
                "created_at": stored.created_at,
                "ended_at": stored.ended_at,
                "retention_seconds": self.settings.retention_seconds if own is None else own,
                "retention_is_own": own is not None,
                "reports": counts,
            }

        return self.database.read_sync("show task", read)

    def aggregated(self, task_id: TaskId) -> int:
        """Return how many reports of a task we verified and added up."""
        from aggregator.service.storage.reports.counters import AGGREGATED, Stage, report_counts

        counts = self.database.read_sync(
            "count reports", lambda tx: report_counts(tx, task_id.value, Stage.AGGREGATION)
        )
        return counts.get(AGGREGATED, 0)

    def hpke_keys(self) -> list[tuple[StoredConfig, str | None]]:
        """Return our HPKE keys, newest first, each with the reason it is still needed."""
        from aggregator.service.runtime.key_rotation import needed_for
        from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs

        rotation = self.settings.rotation
        return self.database.read_sync(
            "list hpke keys",
            lambda tx: [
                (key, needed_for(tx, self.role, rotation, key)) for key in list_hpke_configs(tx)
            ],
        )

    def new_hpke_keys(self) -> list[int]:
        """Make an HPKE key pair of each suite that is set; return their ids.

        Raises `Conflict` if all ids are in use.
        """
        from aggregator.entropy import SystemEntropy
        from aggregator.service.runtime.key_rotation import new_key

        suites, entropy = self.settings.rotation.suites, SystemEntropy()
        return self.database.run_sync(
            "new hpke keys", lambda tx: [new_key(tx, entropy, suite) for suite in suites]
        )

    def retire_hpke_key(self, config_id: int) -> None:
        """Stop advertising an HPKE key pair.

        Raises `ParameterError` if it is not advertised, or it is the only one that is.
        """
        from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs, retire_hpke_key

        def retire(tx: Transaction) -> None:
            advertised = [key.config_id for key in list_hpke_configs(tx) if key.retired_at is None]
            if config_id not in advertised:
                raise ParameterError(
                    f"HPKE key {config_id}: is not advertised; `prio hpke list` says which are"
                )
            if len(advertised) == 1:
                raise ParameterError(
                    f"HPKE key {config_id}: is the only one; make another with `prio hpke new`"
                )
            retire_hpke_key(tx, config_id)

        self.database.run_sync("retire hpke key", retire)

    def ledger(self) -> list[LedgerEntry]:
        """Return the releases of all tasks, oldest first."""
        from aggregator.service.storage.ledger.charges import list_ledger

        return self.database.read_sync("list ledger", list_ledger)

    def population(self, name: str) -> Population:
        """Return what is fixed about a population."""
        from aggregator.service.storage.ledger.populations import get_population

        return self.database.read_sync("get population", lambda tx: get_population(tx, name))

    def fix_population(self, name: str, population: Population) -> None:
        """Fix a population's limits; see `fix_population`."""
        from aggregator.service.runtime.spending import fix_population

        self.database.run_sync("fix population", lambda tx: fix_population(tx, name, population))


def _task_record(given: Provision, role: Role) -> task_store.TaskRecord:
    secrets = given.secrets
    if secrets.verify_key is None or secrets.leader_token is None:
        raise ParameterError(
            "secrets: verify_key or leader_token is missing; "
            f"give the task's {role.name.lower()}.toml"
        )
    return task_store.TaskRecord(
        task_id=given.task.task_id.value,
        role=role.name.lower(),
        definition=given.definition,
        verify_key=secrets.verify_key,
        verify_key_id=secrets.verify_key_id,
        peer_token=secrets.leader_token if role is Role.LEADER else None,
    )
