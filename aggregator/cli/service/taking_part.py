"""How a party takes part in tasks: its file is read, checked and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.cli.service.parties import AggregatorParty, CollectorParty, Party
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.service.storage.tasks import tasks as task_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.protocol.provisioning import Provision
    from aggregator.protocol.task import Task
    from aggregator.service.storage.engine.transaction import Transaction


def take_part(party: Party, text: str, *, rehearses: bool = False) -> list[Task]:
    """Take part in the tasks of the party's file, all of them or none.

    Only where one machine `rehearses` may answers be made up.

    Raises `ParameterError` if the file is not the party's; if answers are made up, or those of a
    rehearsal are not, or it is of another machine; if a task protects people less than an
    aggregator requires, or its population has no budget left for it; or if its results are sealed
    to another key than the collector's. Raises `Conflict` if the party takes part in one with other
    contents, or its population is closed.
    """
    from aggregator.protocol.clear_text import check_made_up
    from aggregator.protocol.provisioning import read_provisions

    role = Role.COLLECTOR if isinstance(party, CollectorParty) else party.role
    provisions = read_provisions(text, role)
    for each in provisions:
        check_made_up(each.task, rehearses=rehearses)
    if isinstance(party, CollectorParty):
        return _collect(party, provisions)
    return _aggregate(party, provisions)


def _aggregate(party: AggregatorParty, provisions: Sequence[Provision]) -> list[Task]:
    from aggregator.dap.auth import hash_token
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.protocol.requirements import check_requirements
    from aggregator.service.runtime.spending import check_new_task
    from aggregator.service.storage.backup.reconciliation import enter_releases
    from aggregator.service.storage.engine import locks
    from aggregator.service.storage.tasks.caller_tokens import put_caller_token

    for each in provisions:
        check_endpoints(each.task, insecure_http=party.settings.insecure_http)
        check_requirements(each.task, party.settings.requirements)
    records = [(each, _task_record(each, party.role)) for each in provisions]
    released = party.journal.releases()

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
                if party.role is Role.LEADER
                else given.secrets.leader_token
            )
            if shown_to_us is not None:
                put_caller_token(tx, record.task_id, hash_token(shown_to_us))

    party.database.run_sync("put task", put)
    return [each.task for each in provisions]


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


def _collect(party: CollectorParty, provisions: Sequence[Provision]) -> list[Task]:
    from aggregator.collector.keys import keypair_of
    from aggregator.collector.store import CollectorTask, put_collector_task
    from aggregator.protocol.clear_text import check_endpoints

    records, ours = [], keypair_of(party.database).config
    for given in provisions:
        check_endpoints(given.task, insecure_http=party.settings.insecure_http)
        if given.task.collector_hpke_config != ours:
            raise ParameterError(
                "collector_hpke_config: the task's results are sealed to another key than this "
                "collector's; `prio collector config` prints ours"
            )
        token = given.secrets.collector_token
        if token is None:
            raise ParameterError("secrets.collector_token: missing; give the task's collector.toml")
        records.append(CollectorTask(given.task.task_id.value, given.definition, token))

    def put(tx: Transaction) -> None:
        for record in records:
            put_collector_task(tx, record)

    party.database.run_sync("put task", put)
    return [each.task for each in provisions]
