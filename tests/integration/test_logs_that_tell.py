"""What an operator reads of a job at both aggregators."""

from pathlib import Path

import httpx
import structlog
from structlog.testing import capture_logs

from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.leader.job_driver import JobDriver
from aggregator.service.transport.driver import DriverSettings
from tests.support.pair import Pair
from tests.support.tasks import make_task


async def test_one_trace_runs_from_the_leaders_job_through_the_helpers_request(
    tmp_path: Path,
) -> None:
    pair = Pair(tmp_path, make_task())
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))
    with capture_logs([structlog.contextvars.merge_contextvars]) as logs:
        await pair.work_until_idle()
    (finished,) = (line for line in logs if line["event"] == "aggregation job finished")
    (asked,) = (line for line in logs if "aggregation_jobs" in str(line.get("path")))
    assert asked["trace_id"] == finished["trace_id"]
    assert finished["task"] == asked["task"] == str(pair.task.task_id)
    assert {finished["kind"], finished["attempt"]} == {"aggregation", 1}
    await pair.close()


async def test_a_helper_that_is_away_is_named_with_the_job_and_when_it_goes_on(
    tmp_path: Path,
) -> None:
    async def nobody(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused") from ConnectionRefusedError(111, "refused")

    pair = Pair(tmp_path, make_task())
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))
    party = pair.leader.runtime
    settings = DriverSettings(concurrency=1, lease_seconds=30, max_attempts=5, peer_attempts=1)
    async with httpx.AsyncClient(transport=httpx.MockTransport(nobody)) as away:
        with capture_logs([structlog.contextvars.merge_contextvars]) as logs:
            await JobCreator(party, job_size=10, linger_seconds=0).run_once()
            await JobDriver(party, away, settings).run_once()
    unreachable, waits = (
        line for line in logs if line["event"] in ("helper unreachable", "job waits")
    )
    assert unreachable["reason"] == (
        "the helper https://helper.example does not answer: connection refused"
    )
    assert (waits["event"], waits["attempt"], waits["next_in"]) == ("job waits", 1, "1s")
    assert unreachable["job"] == waits["job"]
    assert unreachable["task"] == str(pair.task.task_id)
    await pair.close()
