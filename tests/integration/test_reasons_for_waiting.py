"""What an opened collector says of collections that have not ended."""

import base64
from pathlib import Path

import pytest

from aggregator.collector import AsyncCollector, store
from tests.support.collector_world import MONDAY, WEEK, CollectorWorld, survey_task


async def test_only_what_waits_and_is_known_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, task = CollectorWorld(tmp_path), survey_task(("a", "b"), "Which?")
    world.add(task)
    world.finish(task, MONDAY, [4, 5])
    world.ask(task, MONDAY + WEEK)
    asked = world.ask(task, MONDAY + 2 * WEEK)
    why = "the leader does not answer"
    await world.database.run("why", lambda tx: store.note_reason(tx, asked, why))
    config = tmp_path / "collector.toml"
    config.write_text('service.role = "collector"\nservice.database = "collector.sqlite"\n')
    monkeypatch.setenv("PRIO_STORE_KEY", base64.urlsafe_b64encode(bytes(32)).decode().rstrip("="))
    async with AsyncCollector.open(config) as collector:
        assert await collector.reasons_for_waiting() == [why]
