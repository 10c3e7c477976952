"""What may change while a service runs, and when a service that was replaced has ended."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from starlette.types import Receive, Scope, Send

from aggregator.cli.service.reading import Reading
from aggregator.cli.service.running import RunningService, Service
from aggregator.errors import ConfigurationError
from aggregator.service.config import LeaderSettings
from tests.support.patience import PATIENCE_SECONDS

FILE = 'service.role = "leader"\nservice.database = "leader.sqlite"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "leader.toml"
    path.write_text(FILE)
    return path


def test_a_setting_that_may_change_is_new_when_it_is_read_again(config: Path) -> None:
    reading = Reading(LeaderSettings, config)
    config.write_text(f"{FILE}tuning.request_timeout_seconds = 90\n")
    assert reading.now.lease_seconds == 60
    assert reading.again().lease_seconds == reading.now.lease_seconds == 120


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            f'{FILE}service.listen = "127.0.0.1:9"\ntuning.concurrency = 9',
            "listen: can change only",
        ),
        ('service.role = "leader"\nservice.database = "other.sqlite"', "database: can change only"),
        # Reports that wait in the other place would not be found, and be rejected for good.
        (f'{FILE}service.report_bodies = "file:///other"', "report_bodies: can change only"),
        (f"{FILE}tuning.helper_concurrency = 9", "helper_concurrency: must be at most concurrency"),
        (
            'service.role = "helper"\nservice.database = "leader.sqlite"',
            "has the helper's settings",
        ),
        ("=", "not TOML"),
    ],
)
def test_what_may_not_change_or_is_wrong_is_named_and_nothing_is_new(
    config: Path, text: str, named: str
) -> None:
    reading = Reading(LeaderSettings, config)
    before = reading.now
    config.write_text(text)
    with pytest.raises(ConfigurationError, match=named):
        reading.again()
    assert reading.now is before


async def test_a_service_that_was_replaced_ends_when_its_last_request_is_answered() -> None:
    answer, ended = anyio.Event(), anyio.Event()

    async def application(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await answer.wait()

    async def receive() -> dict[str, object]:
        raise AssertionError

    async def send(_message: object) -> None:
        raise AssertionError

    running = RunningService(Service([(application, "127.0.0.1:0")], [], 1))

    async def end() -> None:
        await running.last_answer()
        ended.set()

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(running.apps[0], {}, receive, send)
            await anyio.lowlevel.checkpoint()
            group.start_soon(end)
            running.leave.set()
            await anyio.sleep(0.2)
            assert not ended.is_set()
            answer.set()
            await ended.wait()
