"""What the drivers of both kinds of the leader's jobs have in common.

A job whose step fails through our own fault waits, and says why: a missing key, a task below our
floor or a full disk is for an operator to mend. Until then it backs off like one whose helper does
not answer, and does not hold up any other.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, Generic

import anyio
import httpx

from aggregator.errors import AggregatorError
from aggregator.service.leader.helper_peer import helper_of
from aggregator.service.leader.scheduler import DriverSettings, J, Jobs, Scheduler
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.storage.jobs.leases import Leased, LeaseLost
from aggregator.service.transport.peer import Peer, origin
from aggregator.service.transport.permits import Permits


class LeaseDriver(ABC, Generic[J]):
    """Drives the jobs of one kind, of all tasks of the leader."""

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
        """Step the jobs that are due now, as far as permits go; return how many."""
        return await self._scheduler.run_once()

    @abstractmethod
    async def _step(self, leased: Leased[J]) -> None:
        """Move one job; may raise anything."""

    @abstractmethod
    async def _release(self, leased: Leased[J], reason: str, asked: int | None = None) -> None:
        """Give a job back for later, or for as long as the helper asked us to wait."""

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
        """Give the helper of a task, while we wait for its answer."""
        with self._permits.asking(origin(served.task.configuration.helper_aggregator_endpoint)):
            yield helper_of(served, self._http, self._settings.peer_attempts)
