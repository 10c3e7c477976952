"""Most of these tests want a pair that releases anything."""

from collections.abc import AsyncIterator

import pytest

from aggregator.service.leader import upload_checks
from tests.support.between import Between
from tests.support.pair import Pair, pair_of

pair = pair_of(min_batch_size=1)


@pytest.fixture
async def between(pair: Pair) -> AsyncIterator[Between]:
    """Stand between the leader and the helper of `pair`."""
    made = Between(pair)
    yield made
    await made.close()


@pytest.fixture(params=[1, 24], ids=["one by one", "in columns"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many reports come at once; of more than one the leader looks at all in columns."""
    count: int = request.param
    if count > 1:
        monkeypatch.setattr(upload_checks, "SHORT_BODY", 0)
    return count
