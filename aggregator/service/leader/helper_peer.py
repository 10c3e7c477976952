"""How the leader speaks to a task's helper, and how it reads a refusal."""

from http import HTTPStatus

import httpx

from aggregator.dap.problems import UnrecognizedAggregateShare, UnrecognizedAggregationJob
from aggregator.service.runtime import ServedTask
from aggregator.service.transport.peer import Peer, PeerRefused

LONGEST_DELAY_SECONDS = 60


def helper_of(served: ServedTask, http: httpx.AsyncClient, attempts: int) -> Peer:
    """Return the helper of a task, with the token that it expects from us."""
    endpoint = served.task.configuration.helper_aggregator_endpoint
    return Peer(http, endpoint, served.peer_token, name="the helper", attempts=attempts)


def is_gone(error: PeerRefused) -> bool:
    """Return whether the helper no longer has what we asked for by its location."""
    is_unknown = isinstance(error.problem, UnrecognizedAggregationJob | UnrecognizedAggregateShare)
    return is_unknown or error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


def retry_delay(attempts: int, asked: int | None) -> int:
    """Return the seconds to wait before the next attempt: doubling, or as long as we were asked to.

    Args:
        attempts: How many have failed in a row, at least 1.
        asked: What the helper's `Retry-After` said.
    """
    backoff = min(LONGEST_DELAY_SECONDS, 1 << min(attempts - 1, 6))
    return backoff if asked is None else max(backoff, asked)
