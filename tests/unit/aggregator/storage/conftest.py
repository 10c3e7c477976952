"""A fresh store for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.storage.database import Database
from tests.support.clock import ManualClock
from tests.support.store import make_store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    database = make_store(tmp_path, clock)
    yield database
    database.close()
