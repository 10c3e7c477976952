"""A leader takes no report that can never be released, and says so to who has none yet."""

from pathlib import Path

import pytest

from aggregator.dap.messages import Report
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import AnyReportError, ReportError
from aggregator.dap.times import DAY
from aggregator.protocol.batches import Batch
from aggregator.service.runtime import charge_of
from aggregator.service.storage.ledger.charges import cancel, reserve
from aggregator.service.storage.reports.counters import Stage
from aggregator.service.storage.tasks.tasks import end_task
from tests.support.pair import Pair
from tests.support.tasks import LAPLACE, make_task

OTHER = Batch(b"\0" * 8, b"\0" * 8)


async def told(pair: Pair, reports: list[Report]) -> set[AnyReportError]:
    statuses = (await pair.upload(reports)).status
    return {DAP_18.report_error(each.error) for each in statuses}


@pytest.mark.parametrize("limit", [{"max_releases": 1}, {"budget": "1"}])
async def test_a_report_of_a_new_id_is_too_late_once_all_releases_are_made(
    tmp_path: Path, limit: dict[str, str | int]
) -> None:
    pair = Pair(tmp_path, make_task(privacy=LAPLACE | {"epsilon": "1"} | limit))
    await pair.provision()
    counted = await pair.reports([0, 1, 2])
    assert not await told(pair, counted)
    await pair.collect()
    pair.clock.advance(DAY)  # to a batch that nobody has collected, and nobody ever will
    late = await pair.reports([0, 1], pair.clock.now())
    assert await told(pair, late) == {ReportError.REPORT_DROPPED}
    assert not await told(pair, counted)  # as they were told before
    found = pair.leader.counts(pair.task, Stage.UPLOAD)
    assert (found["stored"], found["releases_used_up"]) == (3, 2)
    await pair.close()


async def test_while_the_last_release_is_under_way_reports_are_taken(tmp_path: Path) -> None:
    """It may fail, and then there is another."""
    pair = Pair(tmp_path, make_task(privacy=LAPLACE | {"max_releases": 1}))
    await pair.provision()
    task_id, charge = pair.task.task_id.value, charge_of(pair.task)
    database = pair.leader.database
    await database.run("reserve", lambda tx: reserve(tx, task_id, OTHER, charge))
    assert not await told(pair, await pair.reports([0, 1, 2]))
    await database.run("cancel", lambda tx: cancel(tx, task_id, OTHER))
    assert (await pair.collect()).report_count == 3
    await pair.close()


async def test_a_report_that_was_taken_before_an_operator_ended_its_task_is_known(
    tmp_path: Path,
) -> None:
    pair = Pair(tmp_path, make_task(privacy=LAPLACE))
    await pair.provision()
    before, after = await pair.reports([0, 1, 2]), await pair.reports([3])
    assert not await told(pair, before)
    await pair.leader.database.run("end", lambda tx: end_task(tx, pair.task.task_id.value))
    assert not await told(pair, before)
    assert await told(pair, after) == {ReportError.REPORT_DROPPED}
    await pair.close()


async def test_who_has_no_report_yet_is_told_what_one_would_be(tmp_path: Path) -> None:
    task = make_task(privacy=LAPLACE | {"max_releases": 1}, max_reports=3)
    pair = Pair(tmp_path, task)
    await pair.provision()

    async def word() -> list[tuple[bytes, AnyReportError]]:
        found = (await pair.upload([])).status
        return [(each.id.value, DAP_18.report_error(each.error)) for each in found]

    zeros = bytes(16)
    assert await word() == []
    await pair.upload(await pair.reports([0, 1, 2]))
    assert await word() == [(zeros, ReportError.REPORT_DROPPED)]  # as full as it may be
    pair.clock.advance(DAY)
    assert await word() == []
    pair.clock.advance(-DAY)
    await pair.collect()
    pair.clock.advance(DAY)
    assert await word() == [(zeros, ReportError.REPORT_DROPPED)]
    await pair.close()


async def test_who_has_no_report_yet_is_told_that_a_batch_is_collected_or_a_task_has_ended(
    tmp_path: Path,
) -> None:
    pair = Pair(tmp_path, make_task(privacy=LAPLACE))
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.collect()
    assert await told(pair, []) == {ReportError.BATCH_COLLECTED}
    await pair.leader.database.run("end", lambda tx: end_task(tx, pair.task.task_id.value))
    assert await told(pair, []) == {ReportError.REPORT_DROPPED}
    await pair.close()
