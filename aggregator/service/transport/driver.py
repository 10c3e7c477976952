"""Decides when leased jobs are stepped, and how many at once; each driver says what a step does.

The leader's jobs wait for a helper; those that a helper has put off wait for nobody.

A job is leased when there is a permit for it, and the next as soon as one ends: no job waits for
another. `transport.permits` shares the permits among tasks and bounds what waits for one helper.

A lease is renewed while its job is stepped. If renewal fails, we cancel the step by our own clock
before the lease ends by the database's, so no two drivers ever step one job.

A job whose step fails through our own fault waits, and says why: a missing key, a task that
protects too little or a full disk is for an operator to mend. Until then it backs off as if its
helper did not answer, and holds up no other job.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, Generic, Protocol, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup

from aggregator.dap.ids import TaskId
from aggregator.dap.urls import origin
from aggregator.errors import AggregatorError, StoreError
from aggregator.protocol.helper_answers import retry_delay
from aggregator.protocol.task import Task
from aggregator.service.config import MAX_ATTEMPTS, REFUSAL_SECONDS
from aggregator.service.runtime import Runtime
from aggregator.service.storage.engine.backends import Damaged, Unreachable
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.leases import Jobs, Lease, Leased, LeaseLost
from aggregator.service.telemetry.lines import log
from aggregator.service.telemetry.metrics import Outcome, note_outcome, timed_step
from aggregator.service.telemetry.tracing import new_trace, span
from aggregator.service.transport.permits import WHOLE, Demand, Permits

_RENEWALS = 4
"""How many times a lease is renewed within its duration."""


@dataclasses.dataclass(frozen=True, slots=True)
class DriverSettings:
    """How jobs are driven.

    Attributes:
        concurrency: Jobs that one process steps at once.
        lease_seconds: How long a lease lasts unless it is renewed; after a crash, another driver
            takes the job up then. At least 2: the database counts whole seconds.
        max_attempts: How many times an aggregation request that is refused, or whose answer cannot
            be used, is sent before it is made anew or its job is held.
        peer_attempts: How many times one request is sent before its job waits.
        jobs_per_helper: How many of the jobs may wait for one helper.
        refusal_seconds: How long a helper may refuse an aggregate share before the collection job
            fails.
    """

    concurrency: int
    lease_seconds: int
    max_attempts: int = MAX_ATTEMPTS
    peer_attempts: int = 3
    jobs_per_helper: int = 4
    refusal_seconds: int = REFUSAL_SECONDS


class Job(Protocol):
    """What a job of any kind has."""

    @property
    def task_id(self) -> bytes:
        """Its task."""

    @property
    def job_id(self) -> bytes:
        """Its id, unique in its task."""


J = TypeVar("J", bound=Job)


class Driver(ABC, Generic[J]):
    """Drives all jobs of one kind, across an aggregator's tasks."""

    jobs: ClassVar[Jobs]  # type: ignore[type-arg]  # a class variable cannot be of a type variable
    """Which."""

    def __init__(self, runtime: Runtime, settings: DriverSettings) -> None:
        """Drive the jobs in the store of `runtime`."""
        self._runtime = runtime
        self._settings = settings
        self._permits = Permits(settings.concurrency, settings.jobs_per_helper, runtime.clock.now)
        self._hosts: dict[bytes, str] = {}

    @abstractmethod
    async def _step(self, leased: Leased[J]) -> None:
        """Take one job a step further; may raise anything."""

    def _host_of(self, task: Task) -> str:
        """Return whom the jobs of a task wait for."""
        return origin(task.configuration.helper_aggregator_endpoint)

    def _parts_of(self, job: J) -> int:  # noqa: ARG002  another driver's are of several sizes
        """Return how many parts of a permit a job takes."""
        return WHOLE

    async def run(self, stop: anyio.Event, poll_seconds: float) -> None:
        """Step jobs until `stop` is set; return when those under way have ended.

        Args:
            stop: Ends the run.
            poll_seconds: How soon to look for jobs again while permits are free.
        """

        async def wake_at_the_end() -> None:
            await stop.wait()
            self._permits.wake()

        async with anyio.create_task_group() as group:
            group.start_soon(wake_at_the_end)
            while not stop.is_set():
                try:
                    await self._begin(group)
                except Unreachable as error:
                    log.warning("the store cannot be reached", reason=str(error))
                except Damaged as error:
                    log.error("the store cannot be trusted", reason=str(error))
                except Exception:  # the outermost edge: logged, and the next look tries again
                    log.exception("no job could be leased", kind=self.jobs.kind)
                await self._permits.wait(poll_seconds)

    async def run_once(self) -> int:
        """Step as many of the jobs that are due as there are permits for; return how many."""
        async with anyio.create_task_group() as group:
            begun = await self._begin(group)
        return begun  # noqa: RET504 - for mypy a group might swallow what is raised inside

    async def _release(
        self,
        leased: Leased[J],
        reason: str,
        asked: int | None = None,
        note: Callable[[Transaction, Lease], None] | None = None,
    ) -> None:
        """Give back a job whose step has failed.

        Args:
            leased: The job.
            reason: Why it waits.
            asked: For how many seconds at least, if the helper named a delay.
            note: What to store of it in the same transaction.
        """
        delay = retry_delay(leased.lease.attempts, asked)

        def release(tx: Transaction) -> None:
            if note is not None:
                note(tx, leased.lease)
            self.jobs.release(tx, leased.lease, delay, reason)

        await self._runtime.database.run(f"release {self.jobs.kind} job", release)
        log.info("job waits", next_in=f"{delay}s")

    async def _begin(self, group: TaskGroup) -> int:
        """Begin to step as many due jobs as there are permits for; return how many."""
        if not self._permits.is_free:
            return 0
        kind, seconds = self.jobs.kind, self._settings.lease_seconds
        due = await self._runtime.database.read(f"due {kind} jobs", self._look)
        demands = [Demand(task_id, self._host(task_id), count) for task_id, count in due.items()]
        if not self._permits.may_begin(demands):
            return 0

        def lease(tx: Transaction) -> list[Leased[J]]:
            leased: list[Leased[J]] = []

            def begin(task_id: bytes) -> int:
                found = self.jobs.lease(tx, 1, seconds, task_id)
                leased.extend(found)
                return self._parts_of(found[0].job) if found else 0

            self._permits.shares(demands, begin)
            return leased

        leased = await self._runtime.database.run(f"lease {kind} jobs", lease)
        until = anyio.current_time() + self._leash
        for job in leased:
            host = self._host(job.job.task_id)
            self._permits.take(job.job.task_id, host, self._parts_of(job.job))
            group.start_soon(self._hold, job, host, until)
        return len(leased)

    @property
    def _leash(self) -> float:
        """How many seconds a lease is certain to last: the database counts whole seconds."""
        return 0.9 * (self._settings.lease_seconds - 1)

    def _look(self, tx: Transaction) -> dict[bytes, int]:
        """Return how many jobs of each task are due; learn the hosts that they wait for."""
        due = self.jobs.due(tx)
        for task_id in due.keys() - self._hosts.keys():
            with suppress(AggregatorError):  # the step says why
                task = self._runtime.public_task_in(tx, TaskId(task_id))
                self._hosts[task_id] = self._host_of(task)
        return due

    def _host(self, task_id: bytes) -> str:
        """Return the host that the jobs of a task wait for; tasks that we do not serve have one."""
        return self._hosts.get(task_id, "")

    async def _hold(self, leased: Leased[J], host: str, until: float) -> None:
        """Step a job, and renew its lease meanwhile."""
        job = leased.job
        # The helper is sent the trace id with every request, and logs it too.
        named: dict[str, str | int] = {
            "task": str(TaskId(job.task_id)),
            "job": job.job_id.hex(),
            "attempt": leased.lease.attempts,
        }
        with new_trace(), structlog.contextvars.bound_contextvars(kind=self.jobs.kind, **named):
            is_done = False
            try:
                async with anyio.create_task_group() as group:
                    group.cancel_scope.deadline = until
                    group.start_soon(self._renew, leased.lease, group.cancel_scope)
                    with span(f"step {self.jobs.kind} job", **named), timed_step(self.jobs.kind):
                        await self._step_and_log(leased)
                    is_done = True
                    group.cancel_scope.cancel()
                if not is_done and anyio.current_time() >= group.cancel_scope.deadline:
                    log.warning("job left: its lease could not be renewed")
            finally:
                self._permits.give_back(job.task_id, host, self._parts_of(job))

    async def _renew(self, lease: Lease, scope: anyio.CancelScope) -> None:
        """Keep renewing a lease; cancel the step in `scope` if the lease is lost."""
        seconds = self._settings.lease_seconds
        while True:
            await anyio.sleep(seconds / _RENEWALS)
            asked = anyio.current_time()
            try:
                await self._runtime.database.run(
                    f"renew {self.jobs.kind} job",
                    lambda tx: self.jobs.renew(tx, lease, seconds),
                )
            except LeaseLost:
                log.info("job taken by another driver, or deleted")
                scope.cancel()
            except StoreError as error:
                log.warning("lease not renewed", reason=str(error))
            else:
                scope.deadline = asked + self._leash

    async def _step_and_log(self, leased: Leased[J]) -> None:
        """Step a job; if that fails, log it and give the job back."""
        try:
            await self._step_or_release(leased)
        except LeaseLost:
            note_outcome(Outcome.LOST)
            log.info("job taken by another driver, or deleted")
        except Unreachable as error:
            note_outcome(Outcome.FAILED)
            log.warning("the store cannot be reached", reason=str(error))
        except AggregatorError as error:
            note_outcome(Outcome.FAILED)
            log.exception("job failed", reason=str(error))
        except Exception:  # the outermost edge of a job: logged, and the next lease tries again
            note_outcome(Outcome.FAILED)
            log.exception("job failed")

    async def _step_or_release(self, leased: Leased[J]) -> None:
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
