"""What the drivers of aggregation jobs and of collection jobs have in common.

A job whose step fails through our own fault waits, and says why: a missing key, a task below our
floor or a full disk is for an operator to mend. Until then it backs off as if its helper did not
answer, and holds up no other job.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, Generic

import anyio
import httpx

from aggregator.errors import AggregatorError
from aggregator.service.leader.helper_peer import helper_of
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.storage.jobs.leases import Leased, LeaseLost
from aggregator.service.transport.peer import Peer, origin
from aggregator.service.transport.permits import Permits
from aggregator.service.transport.scheduler import DriverSettings, J, Jobs, Scheduler


class LeaseDriver(ABC, Generic[J]):
    """Drives all of the leader's jobs of one kind."""

    jobs: ClassVar[Jobs]  # type: ignore[type-arg]  # a class variable cannot be of a type variable
    """Where they come from."""

    def __init__(self, runtime: Runtime, http: httpx.AsyncClient, settings: DriverSettings) -> None:
        """Drive the jobs in the store of `runtime`, asking helpers through `http`."""
        self._runtime = runtime
        self._http = http
        self._settings = settings
        self._permits = Permits(settings.concurrency, settings.jobs_per_helper, runtime.clock.now)
        self._scheduler: Scheduler[J] = Scheduler(
            runtime, self.jobs, self._step_or_wait, settings, self._permits
        )

    async def run(self, stop: anyio.Event, poll_seconds: float) -> None:
        """Step jobs until `stop` is set; see `Scheduler.run`."""
        await self._scheduler.run(stop, poll_seconds)

    async def run_once(self) -> int:
        """Step as many of the jobs that are due as there are permits for; return how many."""
        return await self._scheduler.run_once()

    @abstractmethod
    async def _step(self, leased: Leased[J]) -> None:
        """Take one job a step further; may raise anything."""

    @abstractmethod
    async def _release(self, leased: Leased[J], reason: str, asked: int | None = None) -> None:
        """Give a job back, to be retried after `asked` seconds if the helper named a delay."""

    async def _step_or_wait(self, leased: Leased[J]) -> None:
        try:
            await self._step(leased)
        except LeaseLost:
            raise
        except Exception as error:
            # Only our own messages are known to hold no secret.
            reason = str(error) if isinstance(error, AggregatorError) else type(error).__name__
            with suppress(AggregatorError):  # then the lease runs out
                await self._release(leased, reason)
            raise

    @contextmanager
    def _asking(self, served: ServedTask) -> Iterator[Peer]:
        """Yield the helper of a task, and remember whether it answers what is asked inside."""
        with self._permits.asking(origin(served.task.configuration.helper_aggregator_endpoint)):
            yield helper_of(served, self._http, self._settings.peer_attempts)
