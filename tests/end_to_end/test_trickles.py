"""A stranger who never stops sending keeps no collection waiting, between real processes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread

from aggregator.dap.messages import UploadRequest
from aggregator.dap.resources import media_type, path
from tests.support import hostile
from tests.support.measured_task import HOUR, MeasuredTask, make_measured_task
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

PER_SECOND = 20
MOST = 300 * PER_SECOND


@contextmanager
def trickle(measured: MeasuredTask) -> Iterator[list[int]]:
    """Send junk of the right size all the while; give the statuses of the answers so far."""
    task, done = measured.task, threading.Event()
    leader = task.configuration.leader_aggregator_endpoint.rstrip("/")
    url = leader + path("reports", task_id=task.task_id)
    headers = {"content-type": media_type(UploadRequest.message)}
    statuses: list[int] = []

    junk = hostile.undecryptable_reports(measured.task_file, MOST)
    size = len(junk) // MOST

    def send() -> None:
        with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as http:
            for begin in range(0, len(junk), size):
                report = junk[begin : begin + size]
                statuses.append(http.post(url, content=report, headers=headers).status_code)
                if done.wait(1 / PER_SECOND):
                    break

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield statuses
    finally:
        done.set()
        sender.join()


async def test_a_trickle_of_junk_keeps_no_collection_waiting(tmp_path: Path) -> None:
    start = int(time.time()) // HOUR * HOUR
    with Processes(tmp_path) as processes:
        measured = make_measured_task(processes, "survey", 20, 4, start, "--epsilon=1")
        processes.start("helper", "leader")
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as http:
            await measured.upload(http, 20)
            with trickle(measured) as statuses:
                await to_thread.run_sync(wait_until, lambda: len(statuses) > PER_SECOND, statuses)
                with anyio.fail_after(PATIENCE_SECONDS):
                    body = await measured.collect(http)
                assert len(statuses) < MOST  # which goes on
                assert set(statuses) == {200}
        measured.assert_right(measured.open(body))
        # What came in another hour than the batch may still wait.
        await to_thread.run_sync(wait_until, lambda: len(measured.aggregated("leader")) > 1)
        counts = measured.aggregated("leader")
    assert counts.pop("aggregated") == 20
    assert counts.keys() == {"hpke_decrypt_error"}
