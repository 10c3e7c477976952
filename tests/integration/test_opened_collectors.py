"""What an opened collector says of collections that have not ended, and after it is closed."""

import base64
from pathlib import Path

import pytest

from aggregator.collector import AsyncCollector, Collector, store
from aggregator.errors import ParameterError
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
    async with AsyncCollector.open(_config(tmp_path, monkeypatch)) as collector:
        assert await collector.reasons_for_waiting() == [why]


def test_a_collector_that_is_closed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, task = CollectorWorld(tmp_path), survey_task(("a", "b"), "Which?")
    world.add(task)
    world.database.close()
    with Collector.open(_config(tmp_path, monkeypatch)) as collector:
        [known] = collector.tasks()
    for ask in (collector.survey, collector.tasks, lambda: collector.results(known)):
        with pytest.raises(ParameterError, match="it is closed; ask it inside its `with` block"):
            ask()


def _config(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the settings of the collector in a folder."""
    config = folder / "collector.toml"
    config.write_text('service.role = "collector"\nservice.database = "collector.sqlite"\n')
    monkeypatch.setenv("PRIO_STORE_KEY", base64.urlsafe_b64encode(bytes(32)).decode().rstrip("="))
    return config
