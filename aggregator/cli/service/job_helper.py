"""Tells a helper that its leader has given an aggregation job up.

Source: DAP, "Aggregation Job Abandonment and Deletion".
"""

from typing import TYPE_CHECKING

from aggregator.errors import ConfigurationError, PeerError

if TYPE_CHECKING:
    import httpx

    from aggregator.cli.service.parties import AggregatorParty
    from aggregator.service.storage.engine.database import Database
    from aggregator.service.storage.operator.job_lists import ListedJob

SECONDS = 10
"""How long the helper may take to answer."""


def tell_helper(leader: "AggregatorParty", job: "ListedJob") -> str | None:
    """Have the helper delete a job that was given up; `job` is as it was before.

    Returns the outcome, for a person; None if the helper surely has nothing to delete.
    """
    import anyio

    from aggregator.service.storage.operator.job_lists import AGGREGATION

    if job.kind != AGGREGATION:
        return None
    if job.location is None:
        unknown = "the helper was not told: it has not said where it keeps the job"
        return unknown if job.may_be_counted else None
    return anyio.run(_tell, leader, job, job.location)


async def _tell(leader: "AggregatorParty", job: "ListedJob", location: str) -> str:
    from aggregator.service.transport.client import client_of

    settings = leader.settings
    client = client_of(settings, SECONDS)
    async with client as http:
        return await delete_at_helper(leader.database, http, job.task_id, location)


async def delete_at_helper(
    database: "Database", http: "httpx.AsyncClient", task_id: bytes, location: str
) -> str:
    """Ask the helper to delete the job at `location`; return the outcome, for a person."""
    from aggregator.dap.ids import TaskId
    from aggregator.protocol.helper_answers import Refusal
    from aggregator.protocol.in_band import headers_of
    from aggregator.protocol.task_file import task_from_toml
    from aggregator.service.storage.tasks.tasks import get_task
    from aggregator.service.transport.interpretation import PeerRefused
    from aggregator.service.transport.peer import Peer

    stored = database.read_sync("task", lambda tx: get_task(tx, task_id))
    if stored is None:
        raise ConfigurationError(f"task {TaskId(task_id)}: is not in this store")
    task = task_from_toml(stored.record.definition)
    helper = Peer(
        http,
        task.configuration.helper_aggregator_endpoint,
        stored.record.peer_token,
        name="the helper",
        attempts=1,
        token_header=task.token_header,
        headers=headers_of(task),
    )
    try:
        await helper.delete(location)
    except PeerError as error:
        if isinstance(error, PeerRefused) and Refusal(error.problem, error.status).is_gone:
            return "the helper no longer had the job"
        return f"the helper was not told: {error}"
    return "the helper has deleted the job"
