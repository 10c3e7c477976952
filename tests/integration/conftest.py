"""Most of these tests want a pair that releases anything."""

from collections.abc import AsyncIterator

import pytest

from tests.support.between import Between
from tests.support.pair import Pair, pair_of

pair = pair_of(min_batch_size=1)


@pytest.fixture
async def between(pair: Pair) -> AsyncIterator[Between]:
    """Stand between the leader and the helper of `pair`."""
    made = Between(pair)
    yield made
    await made.close()
