"""Permits of both kinds, listed (`permitted`) and signed (`signed`), for what holds of either."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from aggregator.dap.messages import Report
from aggregator.protocol.signed_permits import SIGNATURE_SIZE
from aggregator.protocol.task import Task
from tests.support import permitted, signed
from tests.support.pair import Pair
from tests.support.permitted import SECRETS

Openings = tuple[list[bytes], list[bytes] | None]
"""The openings of permits, and their signatures if they are signed."""


class Kind(NamedTuple):
    """How permits of a kind are had.

    Attributes:
        task: Returns a task that counts by them.
        pair: Runs a pair with such a task.
        permits: Returns those of some people.
        reports: Makes reports with them.
        openings: Returns what `prepare_reports` takes of them.
        guess: What somebody makes up.
    """

    task: Callable[..., Task]
    pair: Callable[..., AbstractAsyncContextManager[Pair]]
    permits: Callable[[Task, int], Sequence[Any]]
    reports: Callable[..., Awaitable[list[Report]]]
    openings: Callable[[Task, Sequence[Any]], Openings]
    guess: object


LISTED = Kind(
    permitted.permitted,
    permitted.permitted_pair,
    lambda _task, people: SECRETS[:people],
    permitted.reports_of,
    lambda task, secrets: (permitted.openings(task, secrets), None),
    bytes(16),
)
SIGNED = Kind(
    signed.signed_task,
    signed.signed_pair,
    signed.permits_of,
    signed.reports_of,
    lambda _task, permits: ([each for each, _ in permits], [each for _, each in permits]),
    (bytes(16), bytes(SIGNATURE_SIZE)),
)
KINDS = {"listed": LISTED, "signed": SIGNED}
