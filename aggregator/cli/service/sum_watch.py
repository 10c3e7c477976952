"""Looks while a service runs whether there are sums that nobody can read."""

import anyio
from anyio import to_thread

from aggregator.cli.service.running import Work
from aggregator.cli.service.watched import WATCH_SECONDS, repeating
from aggregator.service.runtime.lost_sums import sum_faults
from aggregator.service.storage.engine.database import Database
from aggregator.service.telemetry.lines import log

LOOK_SECONDS = 3600
"""How often every sum is looked at while none is missing; it takes longer than a look at health."""


class SumWatch:
    """Knows of which sums the keys are missing, before anybody asks for their batch.

    Attributes:
        faults: What the last look has found.
    """

    def __init__(self, database: Database) -> None:
        """Look at a store when `watch` runs."""
        self.faults: list[str] = []
        self._database = database
        self._due = 0.0

    def watch(self) -> Work:
        """Return a work that looks at the start and every hour, and while sums are missing more."""
        return repeating(self.look, WATCH_SECONDS)

    async def look(self) -> int:
        """Look if it is time for that; there is nothing to be done at once."""
        now = anyio.current_time()
        if self.faults or now >= self._due:
            found = await to_thread.run_sync(sum_faults, self._database)
            for fault in found:
                if fault not in self.faults:
                    log.error("sums cannot be read", reason=fault)
            self.faults, self._due = found, now + LOOK_SECONDS
        return 0
