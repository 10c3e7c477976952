"""Services read their settings again while clients go on: on SIGHUP, and no request is lost."""

import http.client
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.messages import UploadRequest
from aggregator.dap.resources import media_type, path
from aggregator.entropy import SystemEntropy
from aggregator.protocol.task_file import task_from_toml
from tests.support.engines import ON_SQLITE
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import WORKER, Processes
from tests.support.reports import make_reports

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Count", "--mechanism", "None", "--privacy", "max_releases=1"),
    *("--min-batch-size", "10", "--max-reports", "100000"),
)
CLIENTS = 3
PAUSE_SECONDS = 0.02
"""Of a client after an answer, or the clients take what the services need to read their files."""
HOUR = 3600
READ, KEPT = "settings read again", "settings stay as they were"
SHARES_NOTHING = "a process begins anew, and shares no memory with others"
_WITHOUT_COPIES = """
from aggregator.cli import main
from aggregator.cli.service import processes

processes.FORKS = False
main()
"""


def count(services: Processes, name: str, event: str) -> int:
    return sum(line["event"] == event for line in services.log(name))


def wait_for(services: Processes, name: str, event: str, times: int) -> None:
    wait_until(lambda: count(services, name, event) >= times, name, event, times)
    assert count(services, name, event) == times


def ages(services: Processes, name: str, connections: int) -> set[str]:
    """Return what `hpke_cache_seconds` is, asked over this many connections."""
    with httpx.Client(headers={"connection": "close"}, timeout=PATIENCE_SECONDS) as http:
        answers = [http.get(f"{services.urls[name]}hpke_config") for _ in range(connections)]
    return {answer.headers["cache-control"] for answer in answers}


class Uploads:
    """Clients that upload one report after the other, each on one connection that must last.

    Attributes:
        statuses: Of all answers.
        times: Of all reports.
        failures: Of the clients.
    """

    def __init__(self, services: Processes, task_file: Path) -> None:
        self.task = task_from_toml(task_file.read_text())
        self.statuses: list[int] = []
        self.times: list[int] = []
        self.failures: list[BaseException] = []
        self._address = urlsplit(services.urls["leader"]).netloc
        self._configs = self._config(services, "leader"), self._config(services, "helper")
        self._is_over = threading.Event()

    def _config(self, services: Processes, name: str) -> HpkeConfig:
        answer = httpx.get(f"{services.urls[name]}hpke_config", timeout=PATIENCE_SECONDS)
        return decode(HpkeConfigList, answer.content).preferred()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Upload during the block."""
        clients = [threading.Thread(target=self._upload) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            self.wait_for_more()
            yield
            self.wait_for_more()
        finally:
            self._is_over.set()
            for client in clients:
                client.join()

    def wait_for_more(self) -> None:
        """Wait until some more uploads are answered."""
        before = len(self.statuses)
        wait_until(lambda: len(self.statuses) > before + 20 or self.failures, "no answers")
        assert self.failures == []

    def _upload(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_SECONDS)
        connection.auto_open = 0  # it is not opened a second time
        try:
            connection.connect()
            while not self._is_over.is_set():
                now = int(time.time())
                reports = make_reports(
                    self.task, *self._configs, [1], self.task.time(now), SystemEntropy()
                )
                self.times.append(now)
                connection.request(
                    "POST",
                    path("reports", task_id=self.task.task_id),
                    encode(UploadRequest(tuple(reports))),
                    {"content-type": media_type(UploadRequest.message)},
                )
                answer = connection.getresponse()
                assert answer.read() == b""
                self.statuses.append(answer.status)
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:  # noqa: BLE001  told by the thread that waits
            self.failures.append(error)
        finally:
            connection.close()


def test_every_upload_is_answered_while_settings_change(tmp_path: Path, engine: str) -> None:
    processes = 3 if engine == "postgresql" else 1
    with Processes(tmp_path) as services:
        if processes > 1:
            services.options["leader"] = (f"--processes={processes}",)
        _, task_file = services.make_task("task", *TASK)
        services.start("leader", "helper")
        uploads = Uploads(services, task_file)
        with uploads.going_on():
            for turn in range(1, 4):
                services.read_again("leader", hpke_cache_seconds=100 + turn)
                services.read_again("helper", verification_threads=turn)
                wait_for(services, "leader", READ, turn * processes)
                wait_for(services, "helper", READ, turn)
                assert ages(services, "leader", 20) == {f"max-age={100 + turn}"}
                uploads.wait_for_more()
            # What is wrong is named, once, and changes nothing.
            services.read_again("leader", hpke_cache_seconds=-1)
            wait_for(services, "leader", KEPT, 1)
            services.read_again("leader", hpke_cache_seconds=7, health_listen="127.0.0.1:1")
            wait_for(services, "leader", KEPT, 2)
            uploads.wait_for_more()
            assert ages(services, "leader", 20) == {"max-age=103"}
            first, second = (
                str(line["reason"]) for line in services.log("leader") if line["event"] == KEPT
            )
            assert "hpke_cache_seconds: must be at least 0, not -1" in first
            assert second == "health_listen: can change only with a restart"
        assert set(uploads.statuses) == {200}
        assert len(uploads.statuses) >= 8 * 20
        start = min(uploads.times) // HOUR * HOUR
        collected = services.prio(
            *("collect", "--config", services.configs["collector"], str(uploads.task.task_id)),
            *("--start", str(start), "--end", str(max(uploads.times) // HOUR * HOUR + HOUR)),
            *("--now", "--json"),
        )
        assert json.loads(collected.stdout)["result"]["values"] == [len(uploads.statuses)]
        for name in ("leader", "helper"):
            assert services.stop(name) == 0
            errors = [line["event"] for line in services.log(name) if line["level"] == "error"]
            assert errors == [KEPT] * (2 if name == "leader" else 0)


@ON_SQLITE
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("is_copied", [True, False], ids=["copied", "begun anew"])
def test_a_process_that_is_started_later_has_the_new_settings(
    tmp_path: Path, *, is_copied: bool
) -> None:
    """Where a process cannot be copied, as on macOS, each one begins as the first did."""
    with Processes(tmp_path) as services:
        services.options["helper"] = ("--processes=2",)
        if not is_copied:
            services.programs["helper"] = (sys.executable, "-c", _WITHOUT_COPIES)
        services.start("helper")
        services.read_again("helper", hpke_cache_seconds=100)
        wait_for(services, "helper", READ, 2)
        # A store that does not open with the new settings is no reason to end either.
        before = services.configs["helper"].read_text()
        services.read_again("helper", store_key_file="no-such-folder/helper.key")
        wait_for(services, "helper", KEPT, 1)
        wait_until(lambda: len(services.children("helper")) == 2)  # the one that tried has ended
        if not is_copied:  # it will read the file by itself
            services.configs["helper"].write_text(before)
        victim, other = services.children("helper")
        os.kill(victim, signal.SIGKILL)
        wait_for(services, "helper", "a process was killed", 1)
        wait_until(lambda: len(set(services.children("helper")) - {victim, other}) == 1)
        listening = count(services, "helper", "listening")
        wait_until(lambda: count(services, "helper", "listening") == 6, listening)
        assert ages(services, "helper", 20) == {"max-age=100"}
        services.configs["helper"].write_text(before)
        begun_anew = [
            "-P" in Path(f"/proc/{child}/cmdline").read_text().split("\0")
            for child in services.children("helper")
        ]
        assert begun_anew == [not is_copied] * 2
        assert count(services, "helper", SHARES_NOTHING) == 0  # as nothing stood in the way
        assert services.stop("helper") == 0


@pytest.mark.usefixtures("engine")
def test_a_key_of_the_store_is_replaced_without_a_restart(tmp_path: Path) -> None:
    with Processes(tmp_path) as services:
        services.start("helper")
        key_file = services.folder / "helper.sqlite.key"
        old = key_file.read_text().strip()
        new = services.prio("keys", "new").stdout.strip()
        key_file.write_text(f"{new}\n{old}\n")
        services.read_again("helper")
        wait_for(services, "helper", READ, 1)
        services.prio("keys", "rewrap", "--config", services.configs["helper"])
        key_file.write_text(f"{new}\n")
        services.read_again("helper")
        wait_for(services, "helper", READ, 2)
        key_file.write_text(f"{old}\n")
        services.read_again("helper")
        wait_for(services, "helper", KEPT, 1)
        assert ages(services, "helper", 1) == {"max-age=86400"}
        assert services.stop("helper") == 0


@ON_SQLITE
@pytest.mark.usefixtures("engine")
def test_workers_and_the_collector_read_their_settings_again_too(tmp_path: Path) -> None:
    with Processes(tmp_path) as services:
        services.start(WORKER, "collector")

        def status() -> int:
            headers = {"host": "results.example", "authorization": f"Bearer {token}"}
            return httpx.get(
                f"{services.urls['collector']}api/tasks", headers=headers, timeout=PATIENCE_SECONDS
            ).status_code

        token = services.collector_token
        assert status() != 200
        services.read_again("collector", allowed_hosts="results.example")
        wait_for(services, "collector", READ, 1)
        assert status() == 200

        ready = f"{services.health_url(WORKER)}/readyz"
        assert httpx.get(ready, timeout=PATIENCE_SECONDS).status_code == 200
        services.read_again(WORKER, log_level="debug")
        wait_for(services, WORKER, READ, 1)
        assert httpx.get(ready, timeout=PATIENCE_SECONDS).status_code == 200
        wait_until(lambda: any(line["level"] == "debug" for line in services.log(WORKER)))
        services.read_again(WORKER, log_level="warning")

        def is_silent() -> bool:
            """Say whether neither a request nor a second has a line, as each had before."""
            lines = len(services.log(WORKER))
            assert httpx.get(ready, timeout=PATIENCE_SECONDS).status_code == 200
            time.sleep(1)
            return len(services.log(WORKER)) == lines

        wait_until(is_silent)
        for name in (WORKER, "collector"):
            assert services.stop(name) == 0
