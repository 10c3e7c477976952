"""Work that comes round in an hour is not left undone for an hour because it failed once."""

import anyio
import pytest
from structlog.testing import capture_logs

from aggregator.cli.service import health_checks
from aggregator.cli.service.health_checks import repeating
from aggregator.service.storage.engine.backends import Damaged, Unreachable
from tests.support.patience import PATIENCE_SECONDS

HOUR = 3600


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Unreachable("away"), "the store cannot be reached"),
        (Damaged("as it says"), "the store cannot be trusted"),
        (ValueError("a fault of ours"), "a round of work failed"),
    ],
)
def test_a_round_that_failed_is_tried_again_soon(
    failure: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "WATCH_SECONDS", 0.01)
    rounds = 0
    done = anyio.Event()

    async def run_once() -> int:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise failure
        done.set()
        return 0

    async def work() -> None:
        async with anyio.create_task_group() as group:
            stop = anyio.Event()
            group.start_soon(repeating(run_once, HOUR), stop)
            with anyio.fail_after(PATIENCE_SECONDS):
                await done.wait()
            stop.set()

    with capture_logs() as lines:
        anyio.run(work)
    assert rounds == 2
    assert [each["event"] for each in lines] == [said]
