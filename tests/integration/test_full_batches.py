"""A batch that has reached `max_reports`: more reports are refused, and it can be collected."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.codec import decode, encode
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    ReportUploadStatus,
    VerifyRespReject,
)
from aggregator.dap.report_errors import ReportError
from aggregator.protocol.aggregation import VerificationKey, leader_init
from aggregator.storage.counters import Stage, report_counts
from tests.support.pair import LEADER_TOKEN, NOW, VERIFY_KEY, Pair, Service
from tests.support.tasks import make_task

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path, make_task(max_reports=100))
    await made.provision()
    yield made
    await made.close()


async def counts(pair: Pair, service: Service, stage: Stage) -> dict[str, int]:
    return await service.database.read(
        "counts", lambda tx: report_counts(tx, pair.task.task_id.value, stage)
    )


@pytest.mark.parametrize("aggregated_before", [False, True])
async def test_whoever_fills_a_batch_does_not_make_it_uncollectable(
    pair: Pair, *, aggregated_before: bool
) -> None:
    assert (await pair.upload(await pair.reports([0] * 90))).status == ()
    if aggregated_before:
        await pair.work_until_idle()
    others = await pair.reports([1] * 11)
    refused = ReportUploadStatus(others[10].report_metadata.report_id, ReportError.REPORT_DROPPED)
    assert (await pair.upload(others)).status == (refused,)
    assert (await pair.upload(others[10:])).status == (refused,)
    assert await counts(pair, pair.leader, Stage.UPLOAD) == {"stored": 100, "batch_full": 2}
    result = await pair.collect()
    assert (result.report_count, list(result.values)) == (100, [90, 10, 0, 0])


async def test_a_helper_takes_no_more_than_max_reports_whatever_its_leader_sends(
    pair: Pair,
) -> None:
    reports = await pair.reports([0] * 101)
    keypairs = await pair.leader.runtime.keypairs()
    init = leader_init(pair.task, VerificationKey(0, VERIFY_KEY), keypairs, reports, NOW)
    assert init.request is not None
    answer = await pair.send(
        "POST",
        pair.url_of("aggregation_jobs"),
        AggregationJobInitReq.message,
        encode(init.request),
        LEADER_TOKEN,
    )
    last = decode(AggregationJobResp, answer.body).verify_resps[100]
    assert isinstance(last, VerifyRespReject)
    assert last.report_error is ReportError.REPORT_DROPPED
    assert await counts(pair, pair.helper, Stage.AGGREGATION) == {
        "aggregated": 100,
        "batch_full": 1,
    }
