"""Steps leased jobs concurrently; one that fails is logged, and the others go on."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import anyio
import structlog

from aggregator.dap.ids import TaskId
from aggregator.errors import AggregatorError
from aggregator.storage.leases import Leased, LeaseLost

log = structlog.get_logger()


class Job(Protocol):
    """What all kinds of jobs have."""

    @property
    def task_id(self) -> bytes:
        """Its task."""

    @property
    def job_id(self) -> bytes:
        """Its id, unique in its task."""


J = TypeVar("J", bound=Job)


async def step_all(
    kind: str, leased: Sequence[Leased[J]], step: Callable[[Leased[J]], Awaitable[None]]
) -> None:
    """Step jobs all at once; one that fails is taken up again when its lease ends.

    Args:
        kind: What the log calls such a job.
        leased: The jobs.
        step: Moves one job; may raise anything.
    """

    async def step_and_log(leased_job: Leased[J]) -> None:
        job = leased_job.job
        # The helper is sent the trace id with every request, and logs it too.
        with structlog.contextvars.bound_contextvars(
            trace_id=uuid.uuid4().hex,
            kind=kind,
            task=str(TaskId(job.task_id)),
            job=job.job_id.hex(),
            attempt=leased_job.lease.attempts,
        ):
            try:
                await step(leased_job)
            except LeaseLost:
                log.info("job taken by another driver, or deleted")
            except AggregatorError as error:
                log.exception("job failed", reason=str(error))
            except Exception:  # the outermost edge of a job: logged, and the next lease tries again
                log.exception("job failed")

    async with anyio.create_task_group() as group:
        for leased_job in leased:
            group.start_soon(step_and_log, leased_job)
