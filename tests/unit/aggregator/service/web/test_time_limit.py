"""A block ends when its time is over, wherever its end has been moved to meanwhile."""

import math

import anyio
import pytest

from aggregator.service.web.time_limit import TimeLimit
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_block_ends_at_its_time_and_not_while_it_has_none() -> None:
    reached = []
    with anyio.fail_after(PATIENCE_SECONDS):
        with TimeLimit() as limit:
            limit.end_in(0.01)
            limit.end = math.inf
            await anyio.sleep(0.05)  # its timer has gone off
            reached.append("without an end")
            limit.end_in(0.01)
            limit.end_in(0.05)  # later than its timer
            await anyio.sleep_forever()
        reached.append("after its end")
        with TimeLimit() as limit:
            limit.end_in(0.01)
        await anyio.sleep(0.05)  # it is over: nothing is cancelled any more
    assert reached == ["without an end", "after its end"]


@pytest.mark.anyio
async def test_a_block_that_is_cancelled_ends_without_an_error() -> None:
    with anyio.fail_after(PATIENCE_SECONDS), TimeLimit() as limit:
        limit.cancel()
        await anyio.sleep_forever()


@pytest.mark.anyio
async def test_an_error_in_the_block_leaves_it() -> None:
    with pytest.raises(KeyError), TimeLimit():
        raise KeyError
