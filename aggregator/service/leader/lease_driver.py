"""What the drivers of aggregation jobs and of collection jobs have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Generic

import anyio
import httpx

from aggregator.dap.urls import origin
from aggregator.service.runtime import Runtime, ServedTask
from aggregator.service.storage.jobs.leases import Leased
from aggregator.service.transport.peer import Peer
from aggregator.service.transport.permits import Permits
from aggregator.service.transport.scheduler import DriverSettings, J, Jobs, Scheduler


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
            runtime, self.jobs, self._step, settings, self._permits
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

    @contextmanager
    def _asking(self, served: ServedTask) -> Iterator[Peer]:
        """Yield the helper of a task, and remember whether it answers what is asked inside."""
        with self._permits.asking(origin(served.task.configuration.helper_aggregator_endpoint)):
            yield helper_of(served, self._http, self._settings.peer_attempts)
