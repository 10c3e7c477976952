"""Four parties in processes of their own, which a test runner gives orders under each profile."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack

import httpx
import pytest

from aggregator.dap.ids import encode_base64url
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.ports import free_ports
from tests.support.warm_start import Warm

ROLES = ("client", "leader", "helper", "collector")
PRECISION = 3600
VERIFY_KEY = encode_base64url(bytes(range(32)))


class Runner:
    """A test runner, and the parties that it gives orders."""

    def __init__(self, options: tuple[str, ...], resources: ExitStack) -> None:
        self.urls: dict[str, str] = {}
        self.http = resources.enter_context(httpx.Client(timeout=PATIENCE_SECONDS))
        for role, port in zip(ROLES, free_ports(len(ROLES)), strict=True):
            self.urls[role] = f"http://127.0.0.1:{port}/"
            command = [sys.executable, "-m", "aggregator.cli", "interop", role, "--port", str(port)]
            process = Warm(
                [*command, *options],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "NO_PROXY": "127.0.0.1"},
            )
            resources.callback(self._end, process)
            wait_until(lambda role=role, process=process: self._is_ready(role, process), role)

    def order(self, party: str, what: str, /, **members: object) -> dict[str, object]:
        answer = self.http.post(f"{self.urls[party]}internal/test/{what}", json=members)
        assert answer.status_code == 200
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def _is_ready(self, role: str, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, role
        try:
            return self.order(role, "ready") == {}
        except httpx.TransportError:
            return False

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


CASES: list[tuple[int, dict[str, object], list[object], object]] = [
    (1, {"type": "Prio3Count"}, ["1", "0", "1"], "2"),
    (2, {"type": "Prio3Sum", "max_measurement": "255"}, ["3", "255", "0"], "258"),
    (
        2,
        {"type": "Prio3SumVec", "max_measurement": "7", "length": "2", "chunk_length": "2"},
        [["1", "7"], ["0", "7"], ["2", "0"]],
        ["3", "14"],
    ),
    (
        1,
        {"type": "Prio3Histogram", "length": 3, "chunk_length": 2},  # numbers as such
        ["2", "2", "0"],
        ["1", "0", "2"],
    ),
]


@pytest.mark.parametrize(
    "options",
    [("--profile", "dap-18"), ("--profile", "dap-19", "--token-header", "DAP-Auth-Token")],
    ids=["dap-18", "dap-19"],
)
def test_four_parties_do_what_a_test_runner_orders(options: tuple[str, ...]) -> None:
    with ExitStack() as resources:
        runner = Runner(options, resources)
        for number, case in enumerate(CASES):
            what_is_uploaded_is_collected(runner, number, *case)
        what_cannot_be_followed_is_said(runner)


def what_is_uploaded_is_collected(
    runner: Runner,
    number: int,
    batch_mode: int,
    vdaf: dict[str, object],
    measurements: list[object],
    result: object,
) -> None:
    task = {
        "task_id": encode_base64url(bytes([number]) * 32),
        "leader": runner.urls["leader"],
        "helper": runner.urls["helper"],
        "vdaf": vdaf,
        "batch_mode": batch_mode,
        "min_batch_size": len(measurements),
        "time_precision": PRECISION,
    }
    token = {"collector_authentication_token": "c" * 22}
    made = runner.order("collector", "add_task", **task, **token)
    assert made["status"] == "success", made
    for role in ("leader", "helper"):
        place = runner.order(role, "endpoint_for_task", task_id=task["task_id"], role=role)
        assert place == {"status": "success", "endpoint": "/"}
        added = runner.order(
            role,
            "add_task",
            **task,
            role=role,
            vdaf_verify_key=VERIFY_KEY,
            leader_authentication_token="l" * 22,
            collector_authentication_token="c" * 22 if role == "leader" else None,
            collector_hpke_config=made["collector_hpke_config"],
            task_start=None,
            task_end=None,
            of_a_later_draft="unknown members are passed over",
        )
        assert added == {"status": "success"}
    now = int(time.time()) // PRECISION * PRECISION
    for measurement in measurements:
        sent = runner.order("client", "upload", **task, measurement=measurement, time=now)
        assert sent == {"status": "success"}
    query = {"type": batch_mode} | (
        {"batch_interval_start": now, "batch_interval_duration": PRECISION}
        if batch_mode == 1
        else {}
    )
    begun = runner.order(
        "collector", "collection_start", task_id=task["task_id"], agg_param="", query=query
    )
    assert begun["status"] == "success", begun
    found: dict[str, object] = {}

    def has_ended() -> bool:
        found.update(runner.order("collector", "collection_poll", handle=begun["handle"]))
        return found["status"] != "in progress"

    wait_until(has_ended, found)
    assert found == {
        "status": "complete",
        "batch_id": None,
        "report_count": len(measurements),
        "interval_start": now,
        "interval_duration": PRECISION,
        "result": result,
    }


def what_cannot_be_followed_is_said(runner: Runner) -> None:
    nothing = runner.order("client", "upload")
    assert nothing == {"status": "error", "error": "time_precision: missing"}
    assert runner.order("collector", "collection_poll", handle="x")["status"] == "error"
    other = runner.order("helper", "add_task", role="leader")
    assert other["error"] == "role: this is the helper, not leader"
