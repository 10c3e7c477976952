"""`prio task bring`: a collector tells the leader of a task that nobody added there."""

from typing import TYPE_CHECKING

from aggregator.cli.options import Config, TaskArgument
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.collector.store import CollectorTask
    from aggregator.service.config import CollectorSettings


def bring(task_id: TaskArgument, config: Config = None) -> None:
    """Bring a task to its leader, if its id is its configuration's hash and the leader agrees.

    From then on the leader takes reports, and brings the task to the helper with the first of them.
    Each collection brings the task, too; to bring it again changes nothing.
    """
    import anyio

    from aggregator.cli.service.parties import no_task, open_collector, task_id_of
    from aggregator.collector.store import get_collector_task

    wanted = task_id_of(task_id)
    with open_collector(config, may_make=False) as party:
        record = party.database.read_sync("task", lambda tx: get_collector_task(tx, wanted.value))
        if record is None:
            raise no_task(wanted)
        anyio.run(_bring, party.settings, record)
    print(f"{wanted}: the leader takes part")


async def _bring(settings: "CollectorSettings", record: "CollectorTask") -> None:
    import secrets

    from aggregator.dap.ids import CollectionJobId
    from aggregator.dap.problems import UnrecognizedCollectionJob
    from aggregator.dap.resources import path
    from aggregator.protocol.in_band import headers_of
    from aggregator.protocol.task_file import task_from_toml
    from aggregator.service.transport.client import client_of
    from aggregator.service.transport.interpretation import PeerRefused
    from aggregator.service.transport.peer import Peer

    task = task_from_toml(record.definition)
    headers = headers_of(task)
    if not headers:
        raise ParameterError(
            f"task: {task.task_id} is not the hash of its configuration, so it cannot come in "
            "band; each aggregator's operator adds it"
        )
    nowhere = CollectionJobId(secrets.token_bytes(CollectionJobId.size))
    async with client_of(settings) as http:
        leader = Peer(
            http,
            task.configuration.leader_aggregator_endpoint,
            record.token,
            name="the leader",
            token_header=task.token_header,
            headers=headers,
        )
        try:
            await leader.get(
                path("collection_job", task_id=task.task_id, collection_job_id=nowhere)
            )
        except PeerRefused as error:
            if not isinstance(error.problem, UnrecognizedCollectionJob):
                raise
