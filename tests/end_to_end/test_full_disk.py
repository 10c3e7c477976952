"""A disk that is full loses no accepted report, and stops nobody once there is room: processes."""

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aggregator.service.storage.engine.condition import LEAST_FREE_BYTES
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import COMMANDS, Processes
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.uploader import Uploader

pytestmark = pytest.mark.slow

TASK = (
    *("--vdaf", "Prio3Histogram", "--length", "256", "--mechanism", "None"),
    *("--privacy", "max_releases=1", "--min-batch-size", "2", "--max-reports", "100000"),
)
HOUR = 3600
BATCH = 50
"""Reports of an upload, a quarter of a MiB."""


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with small_disk(4 * LEAST_FREE_BYTES) as made:
        yield made


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_a_full_disk_loses_no_accepted_report_and_passes(
    tmp_path: Path, disk: SmallDisk, *, dies: bool
) -> None:
    with (
        Processes(tmp_path) as services,
        httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as http,
    ):
        for role in ("leader", "helper"):
            config = services.configs[role]
            config.write_text(config.read_text().replace(f'"{role}.', f'"{disk.folder}/{role}.'))
        begin = int(time.time()) // HOUR * HOUR
        task_id, task_file = services.make_task("survey", *TASK)
        services.start(*COMMANDS)
        uploader = Uploader(services, task_file, http)
        assert uploader.send(BATCH).is_success
        services.wait_until_aggregated(task_id, BATCH)

        disk.fill()
        refused = next(
            answer
            for answer in (uploader.send(BATCH) for _ in itertools.repeat(None, 100))
            if not answer.is_success
        )
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "60")
        full = "SQLITE_FULL: the disk is full"
        # The workers find the disk full as well.
        wait_until(lambda: full in {each.get("database_error") for each in services.log("leader")})
        status = services.prio("status", "--config", services.configs["leader"], status=1)
        assert "leader.sqlite is full: " in status.stdout
        assert all(services.exit_status(name) is None for name in COMMANDS)
        if dies:
            services.kill("leader")
            services.kill("helper")

        disk.make_room()
        if dies:
            services.start("helper", "leader")
        assert uploader.send(BATCH).is_success
        services.wait_until_aggregated(task_id, uploader.accepted)
        collected = services.prio(
            *("collect", "--config", services.configs["collector"], task_id, "--json", "--now"),
            *("--start", str(begin), "--end", str((int(time.time()) // HOUR + 1) * HOUR)),
        )
        result = json.loads(collected.stdout)["result"]
        assert result["report_count"] == uploader.accepted
        assert result["values"][:3] == [0, uploader.accepted, 0]
