"""What each process of a service does, and how it shows in the store that it does it."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TypedDict

import anyio
from anyio import to_thread

from aggregator.cli.service.health_checks import repeating
from aggregator.cli.service.processes import Part
from aggregator.cli.service.running import Work
from aggregator.errors import StoreError
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.telemetry.lines import log

KEEP_SECONDS = 5
"""How often a process makes sure that others still see it: a server that was started again does
not. A service whose server was away is seen again so long after it is back."""


class Duties(TypedDict):
    """What one process of a service does, and what others of it do.

    Attributes:
        serve: Whether it serves.
        work: Whether it works.
        others: What only others do.
        began: When the process began, by `time.monotonic`.
    """

    serve: bool
    work: bool
    others: frozenset[Duty]
    began: float


def duties_of(part: Part, *, serve: bool, work: bool) -> Duties:
    """Return what a process of a service that serves, works or does both does of it.

    Of several processes that do both, every other one only works: while it opens reports it holds
    Python's lock, and a request would wait.
    """
    if not (serve and work) or part.of == 1:
        return Duties(serve=serve, work=work, others=frozenset(), began=part.began)
    works = part.number % 2 == 0
    others = frozenset({Duty.SERVE if works else Duty.WORK})
    return Duties(serve=not works, work=works, others=others, began=part.began)


def shown_duties(others: frozenset[Duty], *, serve: bool, work: bool) -> frozenset[Duty]:
    """Return what a process shows: all that its service does, of which some may begin later."""
    does = {Duty.SERVE: serve, Duty.WORK: work}
    return others.union(duty for duty in Duty if does[duty])


@asynccontextmanager
async def attendance(database: Database, duties: Collection[Duty]) -> AsyncIterator[Work]:
    """Show that these duties are done during the block, and yield the work that keeps it so."""
    presence, is_shown = database.presence(duties), True

    async def keep() -> int:
        nonlocal is_shown
        try:
            # A server that does not answer keeps nobody from stopping.
            await to_thread.run_sync(presence.keep, abandon_on_cancel=True)
        except StoreError as error:
            if is_shown:
                log.warning("others cannot see that this process runs", reason=str(error))
            is_shown = False
        else:
            is_shown = True
        return 0

    await keep()
    try:
        yield repeating(keep, KEEP_SECONDS)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(presence.close)
