"""Uploads, and new jobs at a helper, are answered without the web framework's layers."""

from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import func, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.reports.reports import has_reports
from tests.support.pair import Pair
from tests.support.tasks import make_task


@pytest.mark.parametrize("settings", [{}, {"profile": "janus"}], ids=["POST", "PUT"])
async def test_reports_are_aggregated_without_the_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    pair = Pair(tmp_path, make_task(**settings))
    await pair.provision()
    reports = await pair.reports([0, 1, 2, 3])
    with monkeypatch.context() as patch:
        patch.setattr(FastAPI, "__call__", lambda *_: pytest.fail("the framework was asked"))
        await pair.upload(reports)
        await pair.work()
    helped = select(func.count()).select_from(tables.aggregated_reports)
    counted = await pair.helper.database.read("count", lambda tx: tx.connection.scalar(helped))
    task_id = pair.task.task_id.value
    assert counted == len(reports)
    assert not await pair.leader.database.read("left", lambda tx: has_reports(tx, task_id))
    await pair.close()
