"""The same histories over a server, where transactions are written at once."""

from pathlib import Path

import pytest

from tests.support.engines import ON_POSTGRESQL
from tests.support.history import live

pytestmark = [
    pytest.mark.slow,
    ON_POSTGRESQL,
    pytest.mark.usefixtures("engine"),
]

FEW, MANY, PER_TEST = 12, 500, 4


@pytest.mark.parametrize("first", range(0, FEW, PER_TEST))
async def test_nothing_is_lost_or_doubled_whatever_fails(tmp_path: Path, first: int) -> None:
    await live(tmp_path, range(first, first + PER_TEST))


@pytest.mark.bench
@pytest.mark.parametrize("first", range(FEW, MANY, PER_TEST))
async def test_nothing_is_lost_or_doubled_in_many_histories(tmp_path: Path, first: int) -> None:
    await live(tmp_path, range(first, first + PER_TEST))
