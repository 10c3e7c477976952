"""Jobs stepped side by side: what goes wrong with one is logged, and the others go on."""

import dataclasses

import anyio
import anyio.lowlevel
import structlog
from structlog.testing import capture_logs

from aggregator.errors import AggregatorError
from aggregator.leader.steps import step_all
from aggregator.storage.leases import Lease, Leased, LeaseLost


@dataclasses.dataclass(frozen=True)
class Job:
    job_id: bytes
    task_id: bytes = bytes(32)


def test_every_job_is_stepped_and_what_fails_is_logged_by_its_id() -> None:
    failures: list[Exception | None] = [
        LeaseLost("gone"),
        AggregatorError("no helper"),
        ZeroDivisionError("surprise"),
        None,
    ]
    leased = [
        Leased(Job(bytes([index])), Lease(index, b"", 1, 0)) for index in range(len(failures))
    ]
    stepped: list[int] = []

    async def step(job: Leased[Job]) -> None:
        await anyio.lowlevel.checkpoint()
        failure = failures[job.lease.key]
        if failure is not None:
            raise failure
        stepped.append(job.lease.key)

    with capture_logs([structlog.contextvars.merge_contextvars]) as logs:
        anyio.run(step_all, "test", leased, step)
    assert stepped == [3]
    assert sorted((log["job"], log["event"], log.get("reason")) for log in logs) == [
        ("00", "job taken by another driver, or deleted", None),
        ("01", "job failed", "no helper"),
        ("02", "job failed", None),
    ]
    assert {log["kind"] for log in logs} == {"test"}
    assert {(line["kind"], line["task"], line["attempt"]) for line in logs} == {
        ("test", "A" * 43, 1)
    }
    assert len({line["trace_id"] for line in logs}) == 3
