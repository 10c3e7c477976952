"""Most of these tests want a pair that releases anything."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.between import Between
from tests.support.pair import Pair
from tests.support.tasks import make_task


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Give a leader and a helper with one task, for batches of any size."""
    made = Pair(tmp_path, make_task(min_batch_size=1))
    await made.provision()
    yield made
    await made.close()


@pytest.fixture
async def between(pair: Pair) -> AsyncIterator[Between]:
    """Stand between the leader and the helper of `pair`."""
    made = Between(pair)
    yield made
    await made.close()
