"""A leader with more uploads than its budget asks some to come again, and grows no further."""

import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest

from aggregator.dap.messages import UploadRequest
from aggregator.dap.resources import media_type
from tests.support import hostile
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import WORKER, Processes

pytestmark = pytest.mark.slow

BATCH = ("--epsilon", "1", "--min-batch-size", "2", "--max-reports", "1000000")
LARGE = ("--vdaf", "Prio3Histogram", "--length", "10000", *BATCH)
SMALL = ("--vdaf", "Prio3Count", *BATCH)
REPORTS = 25
"""Of an upload of the large task, 4 MB."""
SENDERS = 32
BUDGET = 32 * 2**20
"""A quarter of what that many send at once."""
SECONDS, HONEST_UPLOADS = 4.0, 2
MOST_GROWTH = 8 * BUDGET
"""Of the leader, in bytes: a body is there as it comes, as a whole, and in reports, and the store
has memory too. Three times the budget was measured, and 5.5 times on one busy core, where more of
them wait for the store at once; without a budget it would be eleven times."""


class Torrent:
    """Large uploads of reports that nobody can open, one after another on many connections.

    Attributes:
        statuses: How often each was answered; 0 is a connection that ended before.
        taken: How many uploads were taken.
    """

    def __init__(self, url: str, task_file: Path) -> None:
        self.statuses: Counter[int] = Counter()
        self._url = urlsplit(url)
        self._file = task_file
        self._lock = threading.Lock()
        self._is_over = False
        self._threads = ThreadPoolExecutor(SENDERS)
        self._senders: list[Future[None]] = []

    @property
    def taken(self) -> int:
        return self.statuses[200]

    def __enter__(self) -> Self:
        self._senders = [self._threads.submit(self._send) for _ in range(SENDERS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._threads.shutdown()
        for each in self._senders:
            each.result()

    def _send(self) -> None:
        """Send new uploads, one at least, and the last one until it is taken."""
        while True:
            body = hostile.undecryptable_reports(self._file, REPORTS)
            is_taken = self._is_taken(body)
            if self._is_over:
                break
        while not is_taken:
            time.sleep(1)
            is_taken = self._is_taken(body)

    def _is_taken(self, body: bytes) -> bool:
        """Upload once.

        On a slow machine a body may also be cut off as too slow (408), and the leader may have
        refused one and lost patience with the rest of it, before we have read why.
        """
        with closing(HTTPConnection(self._url.netloc, timeout=PATIENCE_SECONDS)) as connection:
            headers = {"Content-Type": media_type(UploadRequest.message)}
            try:
                connection.request("POST", self._url.path, body, headers)
                answer = connection.getresponse()
                content, seconds = answer.read(), answer.headers["Retry-After"]
            except ConnectionError:
                status = 0
            else:
                status = answer.status
                assert (status, seconds) in ((200, None), (429, "1"), (408, None)), content
        with self._lock:
            self.statuses[status] += 1
        return status == 200


def upload_until_counted(services: Processes, task_id: str, task_file: Path) -> None:
    """Upload three reports, and wait until they are aggregated."""
    expected = 3 + services.counts(task_id)["aggregated"]
    assert "3 of 3" in services.prio("upload", task_file, "1", "0", "1").stdout
    services.wait_until_aggregated(task_id, expected)


def test_uploads_beyond_the_budget_are_asked_to_come_again_before_memory_grows(
    tmp_path: Path,
) -> None:
    with Processes(tmp_path, max_bytes_in_flight=BUDGET, max_body_size=BUDGET) as services:
        services.started_as = subprocess.Popen
        services.commands["leader"] = ("leader", "serve")  # jobs have memory of their own
        large_id, large_file = services.make_task("large", *LARGE)
        small_id, small_file = services.make_task("small", *SMALL)
        services.start("helper", "leader", WORKER)
        upload_until_counted(services, small_id, small_file)
        services.forget_peak_memory("leader")
        before = services.peak_memory("leader")

        began, uploads = time.monotonic(), 0
        deadline = began + PATIENCE_SECONDS
        url = f"{services.urls['leader']}tasks/{large_id}/reports"
        with Torrent(url, large_file) as torrent:
            while (
                time.monotonic() < began + SECONDS
                or uploads < HONEST_UPLOADS
                or torrent.statuses[429] <= SENDERS  # they prepare their uploads no faster
            ):
                assert time.monotonic() < deadline, torrent.statuses
                upload_until_counted(services, small_id, small_file)
                uploads += 1
        growth = services.peak_memory("leader") - before
        print(f"{dict(torrent.statuses)}, {uploads} honest uploads, {before} and {growth} MiB")  # noqa: T201 - a measurement, with -s

        assert torrent.taken >= SENDERS, "who was refused was taken in the end"
        assert growth < MOST_GROWTH // 2**20
        assert services.counts(large_id, stage="upload")["stored"] == REPORTS * torrent.taken
        upload_until_counted(services, small_id, small_file)
        assert [line for line in services.log("leader") if line["level"] == "error"] == []
