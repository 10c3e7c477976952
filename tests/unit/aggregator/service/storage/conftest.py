"""A fresh store for every test, of each database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.service.storage.engine.database import Database
from tests.support.clock import ManualClock
from tests.support.racers import Racers
from tests.support.store import make_store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture(autouse=True)
def _on(engine: str) -> str:
    """Run every test on each database."""
    return engine


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    database = make_store(tmp_path, clock)
    yield database
    database.close()


@pytest.fixture
def racers(tmp_path: Path) -> Iterator[Racers]:
    made = Racers(tmp_path)
    yield made
    made.close()
