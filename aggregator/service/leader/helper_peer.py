"""How the leader speaks to a task's helper."""

import httpx

from aggregator.service.runtime import ServedTask
from aggregator.service.transport.peer import Peer


def helper_of(served: ServedTask, http: httpx.AsyncClient, attempts: int) -> Peer:
    """Return the helper of a task, with the token that it expects from us."""
    return Peer(
        http,
        served.task.configuration.helper_aggregator_endpoint,
        served.peer_token,
        name="the helper",
        attempts=attempts,
        token_header=served.task.token_header,
    )
