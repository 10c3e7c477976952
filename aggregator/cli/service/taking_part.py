"""How a party takes part in tasks: its file is read, checked and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.cli.service.parties import AggregatorParty, CollectorParty, Party
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError

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
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.protocol.requirements import check_requirements
    from aggregator.service.runtime.new_tasks import put_new_tasks

    for each in provisions:
        check_endpoints(each.task, insecure_http=party.settings.insecure_http)
        check_requirements(each.task, party.settings.requirements)
    released = party.journal.releases()
    party.database.run_sync(
        "put task", lambda tx: put_new_tasks(tx, party.role, provisions, released)
    )
    return [each.task for each in provisions]


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
