"""Each aggregator releases one of the task's windows at a time, whatever it is asked for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.codec import encode
from aggregator.dap.messages import (
    AggregateShareReq,
    CollectionJobReq,
    TimeIntervalQuery,
    TimeIntervalSelector,
)
from aggregator.dap.times import Interval
from aggregator.protocol.batches import BatchTotals
from tests.support.pair import LEADER_TOKEN, NOW, Pair
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

LENGTH, START = 4, 3
NOW_UNIT = NOW // TIME_PRECISION
FIRST = NOW_UNIT - (NOW_UNIT - START) % LENGTH - 2 * LENGTH
"""The first unit of a window that ended before now, as did the next one."""

WINDOW = Interval.of(FIRST, LENGTH)
NOT_ONE_WINDOW = [
    Interval.of(FIRST, 2 * LENGTH),
    Interval.of(FIRST + 1, LENGTH),
    Interval.of(FIRST, LENGTH - 1),
    Interval.of(FIRST + 1, 1),
    Interval.of(FIRST - 1, LENGTH + 1),
]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Run both aggregators, with reports in every unit of two windows."""
    privacy = {**LAPLACE, "window": LENGTH, "window_start": START}
    pair = Pair(tmp_path, make_task(privacy=privacy, min_batch_size=1))
    await pair.provision()
    for unit in range(FIRST, FIRST + 2 * LENGTH):
        await pair.upload(await pair.reports([0, 1], unit * TIME_PRECISION))
    yield pair
    await pair.close()


async def test_a_window_is_collected_and_so_is_the_next(pair: Pair) -> None:
    for start in (FIRST, FIRST + LENGTH):
        assert (await pair.collect(Interval.of(start, LENGTH))).report_count == 2 * LENGTH


@pytest.mark.parametrize("interval", NOT_ONE_WINDOW, ids=str)
async def test_the_leader_refuses_a_query_that_is_not_one_window(
    pair: Pair, interval: Interval
) -> None:
    refused = await pair.ask(interval)
    assert (refused.status, refused.problem_type) == (400, "batchInvalid")
    assert f"to {(FIRST + LENGTH) * TIME_PRECISION}" in str(refused.problem["detail"]) or (
        interval.start.units < FIRST
    )


@pytest.mark.parametrize("interval", NOT_ONE_WINDOW, ids=str)
@pytest.mark.parametrize("is_selector", [False, True], ids=["query", "selector"])
async def test_the_helper_refuses_what_a_leader_that_lies_asks_it_for(
    pair: Pair,
    interval: Interval,
    is_selector: bool,  # noqa: FBT001 - a parameter
) -> None:
    await pair.work_until_idle()
    calls = pair.helper.entropy.calls
    asked, selected = (WINDOW, interval) if is_selector else (interval, WINDOW)
    request = AggregateShareReq(
        CollectionJobReq(TimeIntervalQuery(asked), b""),
        TimeIntervalSelector(selected),
        8,
        BatchTotals().checksum,
    )
    refused = await pair.send(
        "POST",
        pair.url_of("aggregate_shares"),
        AggregateShareReq.message,
        encode(request),
        LEADER_TOKEN,
    )
    assert (refused.status, refused.problem_type) == (400, "batchInvalid")
    assert pair.helper.entropy.calls == calls
