"""A batch that has reached `max_reports`: more reports are refused, and it can be collected."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.dap.messages import ReportUploadStatus
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import Interval
from aggregator.service.storage.reports.counters import Stage
from tests.support.helper_jobs import errors_of, send_job
from tests.support.pair import NOW, Pair, pair_of
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

FIRST_UNIT = NOW // TIME_PRECISION - 3


pair = pair_of(max_reports=100)


@pytest.mark.parametrize("aggregated_before", [False, True])
async def test_whoever_fills_a_batch_does_not_make_it_uncollectable(
    pair: Pair, *, aggregated_before: bool
) -> None:
    assert (await pair.upload(await pair.reports([0] * 90))).status == ()
    if aggregated_before:
        await pair.work_until_idle()
    others = await pair.reports([1] * 11)
    refused = ReportUploadStatus(
        others[10].report_metadata.report_id, DAP_18.code(ReportError.REPORT_DROPPED)
    )
    assert (await pair.upload(others)).status == (refused,)
    assert (await pair.upload(others[10:])).status == (refused,)
    assert pair.leader.counts(pair.task, Stage.UPLOAD) == {"stored": 100, "batch_full": 2}
    result = await pair.collect()
    assert (result.report_count, list(result.values)) == (100, [90, 10, 0, 0])


@pytest.fixture
async def windowed(tmp_path: Path) -> AsyncIterator[Pair]:
    """Run both aggregators with a task of windows of two units, one of which has ended."""
    privacy = {**LAPLACE, "window": 2, "window_start": FIRST_UNIT % 2}
    async with Pair(tmp_path, make_task(privacy=privacy, max_reports=100)) as made:
        yield made


@pytest.mark.parametrize("aggregated_before", [False, True])
async def test_whoever_fills_one_unit_of_a_window_does_not_make_the_window_uncollectable(
    windowed: Pair, *, aggregated_before: bool
) -> None:
    first, second, third = (unit * TIME_PRECISION for unit in range(FIRST_UNIT, FIRST_UNIT + 3))
    assert (await windowed.upload(await windowed.reports([0] * 90, first))).status == ()
    if aggregated_before:
        await windowed.work_until_idle()
    others = await windowed.reports([1] * 11, second)
    refused = ReportUploadStatus(
        others[10].report_metadata.report_id, DAP_18.code(ReportError.REPORT_DROPPED)
    )
    assert (await windowed.upload(others)).status == (refused,)
    assert (await windowed.upload(others[10:])).status == (refused,)
    assert (await windowed.upload(await windowed.reports([2], third))).status == ()
    assert (await windowed.collect(Interval.of(FIRST_UNIT, 2))).report_count == 100


async def test_a_helper_takes_no_more_into_a_window_whatever_its_leader_sends(
    windowed: Pair,
) -> None:
    reports = [
        *await windowed.reports([0] * 60, FIRST_UNIT * TIME_PRECISION),
        *await windowed.reports([0] * 60, (FIRST_UNIT + 1) * TIME_PRECISION),
    ]
    errors = errors_of((await send_job(windowed, await windowed.job(reports))).body)
    assert [each is not None for each in errors] == [False] * 100 + [True] * 20
    assert windowed.helper.counts(windowed.task)["batch_full"] == 20


async def test_a_helper_takes_no_more_than_max_reports_whatever_its_leader_sends(
    pair: Pair,
) -> None:
    answer = await send_job(pair, await pair.job(await pair.reports([0] * 101)))
    assert errors_of(answer.body)[100] is ReportError.REPORT_DROPPED
    assert pair.helper.counts(pair.task) == {
        "aggregated": 100,
        "batch_full": 1,
    }
