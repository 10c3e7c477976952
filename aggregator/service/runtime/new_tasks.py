"""Stores tasks that an aggregator takes part in from now on, whoever brings them."""

from collections.abc import Sequence

from aggregator.dap.auth import hash_token
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.provisioning import Provision
from aggregator.service.runtime.spending import check_new_task
from aggregator.service.storage.backup.reconciliation import enter_releases
from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal import Release
from aggregator.service.storage.tasks.caller_tokens import put_caller_token
from aggregator.service.storage.tasks.tasks import TaskRecord, get_task, put_task


def put_new_tasks(
    tx: Transaction, role: Role, provisions: Sequence[Provision], released: Sequence[Release]
) -> None:
    """Store tasks with our secrets, all or none; those that are stored already stay as they are.

    Args:
        tx: The transaction.
        role: What we are in them.
        provisions: What we were given.
        released: What the journal has: if a task was lost with its store, it knows its releases.

    Raises:
        ParameterError: A secret is missing, or see `check_new_task`.
        Conflict: One is stored with other contents, or its population is closed.
    """
    locks.add_tasks(tx)  # before the locks of each task
    for given in provisions:
        record = _record(given, role)
        if get_task(tx, record.task_id) is None:
            check_new_task(tx, given.task)
        put_task(tx, record)
        enter_releases(tx, released, record.task_id)
        secrets = given.secrets
        shown = secrets.collector_token if role is Role.LEADER else secrets.leader_token
        if shown is not None:
            put_caller_token(tx, record.task_id, hash_token(shown))


def _record(given: Provision, role: Role) -> TaskRecord:
    secrets = given.secrets
    if secrets.verify_key is None or secrets.leader_token is None:
        raise ParameterError(
            "secrets: verify_key or leader_token is missing; "
            f"give the task's {role.name.lower()}.toml"
        )
    return TaskRecord(
        task_id=given.task.task_id.value,
        role=role.name.lower(),
        definition=given.definition,
        verify_key=secrets.verify_key,
        verify_key_id=secrets.verify_key_id,
        peer_token=secrets.leader_token if role is Role.LEADER else None,
    )
