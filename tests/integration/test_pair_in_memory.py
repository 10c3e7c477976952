"""A leader and a helper in one process: what goes in comes out, once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.pair import Pair
from tests.support.tasks import make_task

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path, make_task())
    await made.provision()
    yield made
    await made.close()


async def test_a_histogram_without_noise_is_the_true_counts(pair: Pair) -> None:
    errors = await pair.upload(await pair.reports([0, 1, 1, 3, 3, 3]))
    assert errors.status == ()
    result = await pair.collect()
    assert result.values == (1, 2, 0, 3)
    assert result.report_count == 6
