"""What the drivers of aggregation jobs and of collection jobs have in common: they ask a helper."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from aggregator.dap.urls import origin
from aggregator.protocol.in_band import headers_of
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.telemetry.metrics import Outcome, note_outcome
from aggregator.service.transport.driver import Driver, DriverSettings, J
from aggregator.service.transport.interpretation import Answer
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
        headers=headers_of(served.task),
    )


class LeaseDriver(Driver[J]):
    """Drives all of the leader's jobs of one kind."""

    def __init__(self, runtime: Runtime, http: httpx.AsyncClient, settings: DriverSettings) -> None:
        """Drive the jobs in the store of `runtime`, asking helpers through `http`."""
        super().__init__(runtime, settings)
        self._http = http

    @contextmanager
    def _asking(self, served: ServedTask) -> Iterator[Peer]:
        """Yield the helper of a task, and remember whether it answers what is asked inside."""
        with self._permits.asking(origin(served.task.configuration.helper_aggregator_endpoint)):
            yield helper_of(served, self._http, self._settings.peer_attempts)

    async def _wait(self, leased: Leased[J], answer: Answer, poll_seconds: int, why: str) -> None:
        """Store where the helper will answer, and ask again later.

        Args:
            leased: The job.
            answer: What the helper said, without its answer proper.
            poll_seconds: When to ask again if the helper does not say.
            why: Why the job waits.
        """
        note_outcome(Outcome.WAITS)
        delay = poll_seconds if answer.retry_after is None else answer.retry_after

        def wait(tx: Transaction) -> None:
            if answer.location is not None:
                self.jobs.write(tx, leased.lease, {"helper_location": answer.location})
            self.jobs.release(tx, leased.lease, delay, why, progressed=True)

        await self._runtime.database.run(f"await {self.jobs.kind} job", wait)
