"""A service compiles its kernels as soon as it can read its tasks."""

import anyio
import pytest

from aggregator.cli.service import services
from aggregator.service.storage.engine.backends import Unreachable
from tests.support.patience import PATIENCE_SECONDS


class Runtime:
    """Cannot read its tasks at first."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.is_warm = False

    async def warm_up(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Unreachable("the server is away")
        self.is_warm = True


@pytest.mark.slow
async def test_a_store_that_cannot_be_reached_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "WARMING_SECONDS", 0.01)
    runtime = Runtime(failures=2)
    with anyio.fail_after(PATIENCE_SECONDS):
        await services.warming_up(runtime)(anyio.Event())
    assert runtime.is_warm


async def test_a_service_that_stops_tries_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "WARMING_SECONDS", 1000)
    runtime, stop = Runtime(failures=2), anyio.Event()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(services.warming_up(runtime), stop)
            await anyio.wait_all_tasks_blocked()
            stop.set()
    assert not runtime.is_warm
